"""Where are the recordings of real hosts and the reports of real failures, which are no part of this project?"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("PREFLIGHT_RECORDINGS") or Path(__file__).resolve().parents[2] / "shared")
FIELD = SHARED / "field-data"
REPORTED = SHARED / "field-failures.jsonl"
needs_recordings = pytest.mark.skipif(not FIELD.is_dir(), reason="the recordings of real hosts are not here")
