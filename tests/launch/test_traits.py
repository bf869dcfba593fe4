"""What is true of a launcher by itself: is its rank written as a command takes it, and do its words name it alone?"""

from __future__ import annotations

import pytest

from preflight.launch.traits import PYTHON, FieldNames, Traits


@pytest.mark.parametrize(("rank", "option"), [("machine_rank", "--machine_rank"), ("RANK", "RANK")])
def test_a_rank_is_an_option_or_a_variable(rank, option):
    """A key of accelerate's file is an option of its command; a variable stays one."""
    assert FieldNames(rank=rank).rank_option == option


def test_a_plain_python_names_no_launcher():
    """Every script has one; what names a launcher is its own programs, modules and wrappers, in this order."""
    traits = Traits(name="some", programs=(PYTHON, "somerun"), modules=("some.run",), wrappers=("sometask",))
    assert traits.words == ("somerun", "some.run", "sometask")
