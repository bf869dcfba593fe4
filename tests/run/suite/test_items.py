"""Is the check behind a pytest item found, and is its body kept from ending the run?"""

from __future__ import annotations

import sys

import pytest

from preflight.run.suite.items import check_of, contained, id_of, id_of_node
from preflight.said.errors import NotApplicable, NotMeasured

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch):
    """Plugins of others have no part in it, and cost seconds to import."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def items(pytester, text: str):
    """The items that pytest makes of the checks in a file test_site.py, by their names."""
    path = pytester.makepyfile(test_site=text)
    return {held.name.partition("[")[0]: held for held in pytester.getitems(path.read_text())}


def item(pytester, text: str, name: str = "test_it"):
    """One of them."""
    return items(pytester, text)[name]


KINDS = {
    "node": "node",
    "cluster": "cluster",
    "node, cluster": "node",
    "mesh": "mesh",
    "settings, bench": "bench",
    "bench, training": "training",
    "training, ending": "ending",
    "": "cluster",
}


def test_a_check_runs_as_the_heaviest_of_what_it_waits_for(pytester):
    """Its fixtures are its stage: there is no table of them."""
    found = items(pytester, "".join(f"def test_{n}({words}):\n    pass\n" for n, words in enumerate(KINDS)))
    checks = [check_of(found[f"test_{n}"]) for n in range(len(KINDS))]
    assert [check.kind for check in checks] == list(KINDS.values())
    assert [", ".join(check.arguments) for check in checks] == list(KINDS)


def test_marks_make_a_check_advisory_or_name_what_it_needs(pytester):
    """Several marks add up; a check without any asserts and needs nothing."""
    text = """
        import pytest

        @pytest.mark.advisory
        @pytest.mark.needs("root", "ptrace")
        @pytest.mark.needs("nvidia-smi")
        def test_it(node):
            pass

        def test_plain(node):
            pass
    """
    found = items(pytester, text)
    marked = check_of(found["test_it"])
    assert (marked.is_advisory, marked.needs) == (True, {"root", "ptrace", "nvidia-smi"})
    plain = check_of(found["test_plain"])
    assert (plain.is_advisory, plain.needs) == (False, frozenset())


def test_an_id_is_the_file_and_the_function():
    """Wherever the file lies; pytest's own name of an item gives the same."""
    assert id_of_node("some/where/test_network.py::test_mtu_is_the_same") == "network.mtu_is_the_same"
    assert id_of_node("mine.py::test_it") == "mine.it"


def test_the_id_of_an_item_is_that_of_its_name(pytester):
    """So that a report of pytest's finds its check."""
    held = item(pytester, "def test_it(node):\n    pass\n")
    assert id_of(held) == id_of_node(held.nodeid)
    assert id_of(held).endswith(".it")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("class TestX:\n    def test_it(self, node):\n        pass\n", "not a method of a class"),
        ("import pytest\n@pytest.mark.parametrize('x', [1])\ndef test_it(node, x):\n    pass\n", "not parametrized"),
        (
            "import pytest\n@pytest.fixture\ndef mine(cluster):\n    pass\ndef test_it(mine):\n    pass\n",
            "fixture 'mine' is built on 'cluster'",
        ),
    ],
)
def test_a_shape_that_cannot_be_judged_is_refused_in_words(pytester, text, words):
    """A class, a parametrization or a fixture built on ours: each says what to write instead."""
    with pytest.raises(pytest.UsageError, match=words):
        check_of(item(pytester, text))


@pytest.mark.parametrize(
    ("leave", "error", "words"),
    [
        (lambda: pytest.skip("not here"), NotApplicable, "not here"),
        (lambda: pytest.fail("broken"), AssertionError, "broken"),
        (lambda: pytest.xfail("known"), AssertionError, "known"),
        (lambda: sys.exit(0), RuntimeError, r"sys\.exit\(0\)"),
        (lambda: sys.exit("bye"), RuntimeError, r"sys\.exit\('bye'\)"),
    ],
)
def test_an_outcome_of_pytests_is_an_exception_of_the_check(leave, error, words):
    """None of them ends the run, and none but a skip is good news."""
    with pytest.raises(error, match=words):
        contained(lambda **_: leave())()


def test_a_check_keeps_its_arguments_its_docstring_and_its_own_exceptions():
    """What it raises itself is judged as it is."""

    def check(node):
        """It holds."""
        raise LookupError(node)

    wrapped = contained(check)
    assert wrapped.__doc__ == "It holds."
    with pytest.raises(LookupError, match="node1"):
        wrapped(node="node1")


@pytest.mark.parametrize("returned", [True, False, "fine", ()])
def test_a_check_that_returns_its_verdict_was_not_measured(returned):
    """`return a == b` where assert was meant: pytest only warns of it, and every node would pass."""
    with pytest.raises(NotMeasured, match="write assert where it says return"):
        contained(lambda **_: returned)()


async def awaited():
    """A coroutine, where it is called."""


async def yielding_later():
    """An asynchronous generator."""
    yield


def yielding():
    """A generator."""
    yield


@pytest.mark.parametrize("kind", [awaited, yielding_later, yielding])
def test_a_body_that_did_not_run_is_told_from_a_value_that_nobody_reads(kind):
    """Both were not measured, and each says its own."""
    with pytest.raises(NotMeasured, match="whose body did not run"):
        contained(kind)()
    with pytest.raises(NotMeasured, match="write assert where it says return"):
        contained(lambda: True)()
    assert contained(lambda: None)() is None
