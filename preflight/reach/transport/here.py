"""What does a program on this machine print?"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


def printed(words: Sequence[str], *, seconds: float) -> str:
    """What it prints within so many seconds.

    Raises OSError or SubprocessError where it is not there, fails or does not end.
    """
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=True)
    return done.stdout
