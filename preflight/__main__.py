"""``python -m preflight`` and the ``preflight`` command."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    from preflight.cli.streams import prepare

    prepare()
    gc.set_threshold(50_000, 20, 100)  # else what thousands of nodes told is looked through again and again
    from preflight.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
