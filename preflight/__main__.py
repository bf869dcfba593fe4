"""``python -m preflight`` and the ``preflight`` command."""

from __future__ import annotations

import gc
import sys

OBJECTS = 50_000  # made before Python looks for garbage: importing makes none, and 700 is a tenth of a short command
STOPPED = 130  # as a shell says it of what Ctrl-C ended


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        _run()
    except KeyboardInterrupt:  # before the run took the signal for itself: nothing was started yet
        print("stopped before anything was started", file=sys.stderr)
        sys.exit(STOPPED)


def _run() -> None:
    gc.set_threshold(OBJECTS)
    from preflight.cli.streams import prepare

    prepare()
    # Else the answers of thousands of nodes are searched for garbage again and again. Connections that have ended are
    # found by nothing else: young objects are searched often.
    gc.set_threshold(OBJECTS, 1, 100)
    from preflight.cli.main import run

    code = run(sys.argv[1:])
    leaving = sys.modules.get("preflight.run.suite.leaving")
    if leaving is not None and code:  # what checks and conftests registered to be done at exit shall not change it
        leaving.keep(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
