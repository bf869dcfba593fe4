"""Is what its writer left for others to fill in told apart from a name that looks odd?"""

from __future__ import annotations

import pytest

from preflight.launch.field import words
from preflight.launch.slips.holes import is_unfilled_name, is_unfilled_path

HOLES = """
XXX project_xxxxxxxxx 465xxxx [account] YOUR_ACCOUNT your_account your-partition TODO CHANGEME change_me
<account> account_name PROJECT_ID *** ***REMOVED*** my_account def-someuser yourproject replace-me ACCOUNT
"""


@pytest.mark.parametrize("text", words(HOLES))
def test_a_hole_in_the_place_of_a_name_is_seen(text):
    """In every style in which manuals leave one."""
    assert is_unfilled_name(text)


@pytest.mark.parametrize(
    "text",
    ["project_465000123", "maxxx", "a100", "gpu-xl", "def-smith", "image/xxl:1", "boost_usr_prod", "m1234_g", "n[1-2]"],
)
def test_a_real_name_is_none(text):
    """An x in a word, and brackets with numbers, are parts of names."""
    assert not is_unfilled_name(text)


@pytest.mark.parametrize(
    "text", ["/path/to/train.py", "path/to/x", "/your_home/a", "[path-to-repo]/train", "/home/<user>/x"]
)
def test_a_hole_in_a_path_is_seen(text):
    """In any of its folders."""
    assert is_unfilled_path(text)


@pytest.mark.parametrize(
    "text", ["/data/paths/to.txt", "/home/a/yourbench/run.py", "data/[a-z]/x", "logs/xxx.log", "./a.py"]
)
def test_a_real_path_has_none(text):
    """Names that only contain such words are left alone."""
    assert not is_unfilled_path(text)
