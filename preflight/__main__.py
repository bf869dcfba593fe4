"""``python -m preflight`` and the ``preflight`` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    from preflight.cli.streams import prepare

    prepare()
    from preflight.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
