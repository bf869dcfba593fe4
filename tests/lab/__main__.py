"""How does a person at a shell use the lab?

python -m tests.lab up 3
python -m tests.lab exec controller -- pytest --hosts='node[1-3]' --python="$PWD/.venv/bin/python"
python -m tests.lab exec node2 -- ip link set eth0 mtu 1400
python -m tests.lab down
"""

import argparse
import json
import os
import sys
from pathlib import Path

from .fixtures import why_not
from .lab import Lab
from .spaces import ENVIRONMENT, LabError

STATE = Path(os.environ.get("XDG_RUNTIME_DIR", "/run"), "preflight-lab/state.json")


def up(hosts: int, rate: str | None) -> None:
    """Make a lab that stays until `down`."""
    reason = why_not()
    if reason:
        raise LabError(reason)
    if STATE.exists():
        raise LabError(f"a lab is up already ({STATE}): python -m tests.lab down")
    lab = Lab.create(hosts, rate=rate, forever=True)
    try:
        STATE.parent.mkdir(mode=0o700, exist_ok=True)
        STATE.write_text(json.dumps(lab.state()))
    except BaseException:
        lab.destroy()
        raise
    print(f"{lab.names} are up, links at {rate or 'full speed'}; in this shell's folder and environment:")
    print(f"  python -m tests.lab exec controller -- pytest --hosts='{lab.names}' --python={sys.executable}")
    print("  python -m tests.lab exec controller -- ssh node1 hostname")
    print("  python -m tests.lab exec node1 -- ip address")
    print("  python -m tests.lab down")


def down() -> None:
    """End the lab that `up` made; without one there is nothing to do."""
    if not STATE.exists():
        print("no lab is up")
        return
    lab = Lab.attach(json.loads(STATE.read_text()))
    lab.destroy()
    STATE.unlink()
    STATE.parent.rmdir()
    print(f"{lab.names}: gone")


def run(name: str, argv: list[str]) -> None:
    """Become a command in the controller or on a host."""
    if not STATE.exists():
        raise LabError("no lab is up: python -m tests.lab up 3")
    lab = Lab.attach(json.loads(STATE.read_text()))
    if name == "controller":
        os.execvp("nsenter", lab.command(argv))
    hosts = {host.name: host for host in lab.hosts}
    if name not in hosts:
        raise LabError(f"{name}: wanted controller or {lab.names}")
    environment = {**ENVIRONMENT, "TERM": os.environ.get("TERM", "dumb")}
    os.execvpe("nsenter", [*hosts[name].space.enter(), *argv], environment)


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description="Several hosts on one machine.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    make = verbs.add_parser("up", help="make hosts node1..nodeN and a controller")
    make.add_argument("hosts", type=int, nargs="?", default=3)
    make.add_argument("--rate", default="1gbit", help="of every link, each direction; 'none' for no limit")
    verbs.add_parser("down", help="remove what up made")
    execute = verbs.add_parser("exec", help="run a command in the controller or on a host")
    execute.add_argument("name")
    execute.add_argument("argv", nargs="*", metavar="-- command")
    # What follows the first "--" is the command's own, a second one included, which argparse would take out.
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:cut])
    if options.verb == "exec":
        options.argv += sys.argv[cut + 1 :]
        if not options.argv:
            parser.error("exec: wanted a command behind --")
    try:
        if options.verb == "up":
            up(options.hosts, None if options.rate == "none" else options.rate)
        elif options.verb == "down":
            down()
        else:
            run(options.name, options.argv)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
