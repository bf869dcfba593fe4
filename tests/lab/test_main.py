"""Can a person use the lab from a shell?"""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def run_cli(state, *argv):
    """Run `python -m tests.lab` with a state of its own."""
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(state)}
    command = [sys.executable, "-m", "tests.lab", *argv]
    return subprocess.run(
        command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_person_uses_the_lab_from_a_shell(lab_is_possible, tmp_path):
    """`up` says what to type, the hosts outlive it, `exec` runs there, `down` ends them and may be repeated."""
    made = run_cli(tmp_path, "up", "2", "--rate", "none")
    try:
        again = run_cli(tmp_path, "up", "2")
        reached = run_cli(tmp_path, "exec", "controller", "--", "ssh", "node2", "hostname")
        inside = run_cli(tmp_path, "exec", "node1", "--", "hostname")
        dashes = run_cli(tmp_path, "exec", "node1", "--", "printf", "%s.", "a", "--", "-b")
        nothing = run_cli(tmp_path, "exec", "node1", "--")
        unknown = run_cli(tmp_path, "exec", "node9", "--", "hostname")
    finally:
        gone = [run_cli(tmp_path, "down").stdout for _ in range(2)]

    assert "exec controller -- pytest --hosts='node[1-2]' --python=" in made.stdout
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert (reached.stdout, reached.stderr) == ("node2\n", "")
    assert inside.stdout == "node1\n"
    assert dashes.stdout == "a.--.-b."  # a second -- is the command's own
    assert (nothing.returncode, "wanted a command" in nothing.stderr) == (2, True)
    assert unknown.stderr == "lab: node9: wanted controller or node[1-2]\n"
    assert gone == ["node[1-2]: gone\n", "no lab is up\n"]
    assert list(tmp_path.iterdir()) == []
