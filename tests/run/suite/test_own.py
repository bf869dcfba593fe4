"""Is what is judged the check that stands in our file, whatever pytest was made to collect?"""

from __future__ import annotations

import types
from pathlib import Path

import pytest

from preflight.run.suite.existing import checks_folder
from preflight.run.suite.own import OwnChecks
from tests.checks.samples import check, checks

FILE = checks_folder() / "test_network.py"
NAME = "test_mtu_is_the_same_on_every_node"


class Item:
    """As much of an item of pytest as is looked at."""

    def __init__(self, path: Path, name: str, function: object, *marks: pytest.Mark) -> None:
        self.path, self.name, self.obj, self.marks = path, name, function, marks

    def iter_markers(self):
        return iter(self.marks)


def moved(function, path: Path):
    """A function like another whose code stands in another file."""
    return types.FunctionType(function.__code__.replace(co_filename=str(path)), {})


FUNCTION = checks()["network.mtu_is_the_same_on_every_node"]


def test_every_check_of_ours_is_that_of_its_file():
    """With the arguments, the marks and the kind that the judge takes it by."""
    own = OwnChecks()
    own.load()
    for name, function in checks().items():
        path = checks_folder() / f"test_{name.partition('.')[0]}.py"
        item = Item(path, function.__name__, function, *getattr(function, "pytestmark", ()))
        held, expected = own.check(item), check(name)
        assert held is not None
        assert (held.id, held.kind, held.arguments, held.is_advisory, held.needs) == (
            *(expected.id, expected.kind, expected.arguments, expected.is_advisory, expected.needs),
        )
        assert held.function is not function
        assert own.why_replaced(item) == ""


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (Item(FILE, NAME, lambda cluster: None), "what would run is not test_mtu"),
        (Item(FILE, NAME, moved(FUNCTION, Path("conftest.py"))), "what would run is not test_mtu"),
        (Item(FILE, NAME, checks()["network.training_addresses_are_unique"]), "what would run is not test_mtu"),
        (Item(FILE, NAME, object()), "what would run is not test_mtu"),
        (Item(FILE, "test_that_is_new", lambda cluster: None), "what would run is not test_that_is_new"),
        (Item(FILE, NAME, FUNCTION, pytest.mark.advisory.mark), "its marks (advisory) are not those"),
        (Item(FILE, NAME, FUNCTION, pytest.mark.needs("root").mark), "its marks (needs) are not those"),
    ],
)
def test_what_took_the_place_of_a_check_is_noticed(item, words):
    """Another function, from another line or file, or other marks that change a verdict."""
    assert words in OwnChecks().why_replaced(item)


def test_checks_of_others_are_theirs():
    """Whatever they are called, and whatever their conftest makes of them."""
    item = Item(Path("/somewhere/test_network.py"), NAME, lambda cluster: None, pytest.mark.advisory.mark)
    assert OwnChecks().check(item) is None
    assert OwnChecks().why_replaced(item) == ""
    assert OwnChecks().check(Item(FILE, "test_that_is_new", lambda cluster: None)) is None
    assert OwnChecks().why_replaced(Item(FILE, NAME, FUNCTION, pytest.mark.skip.mark)) == ""
