"""Which raw source of a platform may be lost without a verdict that changes? `python -m tests.bench.sources dgx-h100`.

Every kind of file that the collectors read, removed, emptied, cut short, and closed to another user, on one node and on
all. What is listed was lost in silence: see there whether a check asks for it at all.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.twins import sources
from tests.twins.platforms import BY_NAME


def main() -> None:
    """The platforms named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("platforms", nargs="+", choices=BY_NAME)
    for name in parser.parse_args().platforms:
        count, silent = 0, 0
        for user_id in (None, sources.OTHER_USER):
            with tempfile.TemporaryDirectory() as under:
                for lost in sources.try_all(BY_NAME[name], Path(under), user_id=user_id):
                    count += 1
                    if lost.is_read and not lost.is_noticed:
                        silent += 1
                        print(f"{name}: {lost.kind}: {lost.change} on {lost.where}", flush=True)
        print(f"{name}: {count} losses, {silent} in silence")


if __name__ == "__main__":
    main()
