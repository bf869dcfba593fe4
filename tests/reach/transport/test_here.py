"""Is what a program here prints had, and is one that fails or hangs told?"""

from __future__ import annotations

import subprocess
import sys

import pytest

from preflight.reach.transport.here import printed


def test_what_it_prints_is_had():
    """Without what it says on standard error, and with nothing to read."""
    program = "import sys; print('words', file=sys.stderr); print(repr(sys.stdin.read()))"
    assert printed([sys.executable, "-c", program], seconds=20.0) == "''\n"


def test_a_program_that_fails_hangs_or_is_not_there_raises():
    """Who asks knows which of these mean that nobody can tell."""
    with pytest.raises(subprocess.CalledProcessError):
        printed([sys.executable, "-c", "raise SystemExit(2)"], seconds=20.0)
    with pytest.raises(subprocess.TimeoutExpired):
        printed([sys.executable, "-c", "import time; time.sleep(60)"], seconds=0.2)
    with pytest.raises(FileNotFoundError):
        printed(["/nowhere/program"], seconds=1.0)
