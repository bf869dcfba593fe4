"""Is the report alone enough for every format?"""

from __future__ import annotations

import pytest

from preflight.report import FORMATS
from preflight.report.material import Material


@pytest.mark.parametrize("name", FORMATS)
def test_facts_and_logs_are_an_extra(planted, name):
    """Each format has something to say without them."""
    assert FORMATS[name](Material(planted)).strip()
