"""Is a version compared by its numbers?"""

from __future__ import annotations

import pytest

from preflight.knowledge.versions import is_within


@pytest.mark.parametrize(
    ("version", "wanted", "meets"),
    [
        ("2.1.2+cu118", "==2.1.2", True),
        ("2.1.2", "==2.1", False),
        ("2.1.0", "==2.1", True),
        ("2.1.2", "==2.1.*", True),
        ("2.0", "==2.0.*", True),
        ("2.2", "!=2.1.*,<3", True),
        ("2.0.1", "~=2.0.0", True),
        ("2.1", "~=2.0.0", False),
        ("2.9", "~=2.1", True),
        ("3.0", "<=3,>2.9", True),
        ("4.57.1", ">=4.41,!=4.57.1", False),
        ("", ">=0", False),
    ],
)
def test_versions_are_compared_as_pip_does(version, wanted, meets):
    """Local parts do not count, zeros at the end neither."""
    assert is_within(version, wanted) is meets


@pytest.mark.parametrize(
    ("version", "wanted", "is_met"),
    [
        ("2.4.0a0+07cec.nv24.05", ">=2.4", True),
        ("2.3.1", ">=2.4", False),
        ("2.10.0", ">=2.4,<2.11", True),
        ("2.11", "<2.11", False),
        ("", "<9", False),
    ],
)
def test_versions_are_compared_as_numbers(version, wanted, is_met):
    """2.10 is above 2.4, and a version that nobody knows meets nothing."""
    assert is_within(version, wanted) is is_met
