"""Does a YAML file say what PyYAML's safe loader reads, each value with its line?"""

from __future__ import annotations

import pytest
import yaml

from preflight.launch.text import located
from preflight.launch.text.located import load
from preflight.said.errors import UsageError
from tests.launch.samples import INDEXED, PYTORCHJOB, config, judged


def document(text: str):
    """The only document of a file."""
    (found,) = load(text, "n.yaml")
    return found


@pytest.mark.parametrize("text", [config(), PYTORCHJOB, INDEXED, "a: 0x1F\nb: 1:30\nc: no\nd: ~\ne: 1e3\n", "- a\n"])
def test_the_values_are_those_of_the_safe_loader(text):
    """Aliases, merges and the traps of YAML 1.1 included."""
    assert [found.plain() for found in load(text, "n.yaml")] == list(yaml.safe_load_all(text))


def test_merges_of_one_and_of_several_mappings():
    """A key of its own wins over a merged one, and the first of several over the next."""
    text = "a: &a {x: 1, z: 0}\nb: &b {x: 2, y: 3}\nc:\n  <<: [*a, *b]\n  z: 9\nd:\n  y: 4\n  <<: *b\n"
    assert document(text).plain() == yaml.safe_load(text)


def test_a_value_stands_in_the_line_of_its_key():
    """Also a block that begins below it; an item of a list stands where it is written."""
    found = document("a:\n  b: 1\nc:\n\n  - 'x'\n  - {y: z}\n")
    assert [found.get(*path).line for path in (("a",), ("a", "b"), ("c",), ("c", 0), ("c", 1, "y"))] == [1, 2, 3, 5, 6]
    assert [document.line for document in load("---\na: 1\n---\nb: 2\n", "n.yaml")] == [2, 4]


def test_a_value_keeps_its_text_and_whether_it_was_quoted():
    """`020` and `"no"` are not what they look like to YAML, and a message shows what is written."""
    found = document("a: 020\nb: 'no'\nc: no\n")
    assert [(held.value, held.text, held.is_quoted) for _, held in found.items()] == [
        (16, "020", False),
        ("no", "no", True),
        (False, "no", False),
    ]


def test_a_path_that_leads_nowhere_gives_nothing():
    """A key of a list, an index beyond its end, a key of a plain value."""
    found = document("a:\n  - b: 1\n")
    assert found.get() is found
    assert found.get("a", 0, "b").value == 1
    for path in (("x",), ("x", "y"), ("a", "b"), ("a", 1), ("a", 0, "b", "c")):
        assert found.get(*path) is None


def test_what_is_no_mapping_or_list_has_no_entries():
    """A manifest may hold a plain value where a list is expected."""
    (plain,) = load("just words\n", "n.yaml")
    assert (list(plain.items()), plain.each(), plain.mapping()) == ([], [], {})


def test_a_key_that_stands_twice_is_told_with_both_lines():
    """The last one counts."""
    found = document("a: 1\nb: 2\na: 3\n")
    assert (found.plain(), found.duplicates) == ({"a": 3, "b": 2}, (("a", 1, 3),))


@pytest.mark.parametrize(
    ("text", "value"), [("!!python/object:os.system x", "x"), ("2020-13-45", "2020-13-45"), ("!own {b: 1}", {"b": 1})]
)
def test_a_tag_that_would_make_an_object_is_a_text_or_a_mapping(text, value):
    """Nothing is constructed, and nothing is refused for it: it may be another program's."""
    assert document(f"a: {text}\n").plain() == {"a": value}


def test_a_broken_yaml_is_one_line_with_its_place():
    """PyYAML's own problem, not its traceback."""
    with pytest.raises(UsageError, match=r"^n\.yaml:\d+: not YAML: [^\n]*$"):
        judged({"n.yaml": "a: [1,\nb: 2\n"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a:\n\t- b\n", r"^n\.yaml:2: not YAML"),
        ("a: *nobody\n", r"^n\.yaml:1: not YAML"),
        ("a: \x00\n", r"^n\.yaml: not YAML"),
        ("a: " + "[" * 100 + "]" * 100, "nested too deep"),
        ("a: &a [x]\n" + "".join(f"b{i}: &b{i} [*{'a' if i == 0 else f'b{i - 1}'}]\n" for i in range(70)), "too deep"),
        (
            "a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\n"
            + "".join(
                f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}]\n"
                for old, new in zip("bcdefgh", "cdefghi", strict=True)
            ),
            "too large once its aliases",
        ),
    ],
    ids=["tab", "alias", "control", "depth", "aliases", "growth"],
)
def test_a_file_that_cannot_be_read_is_one_line(text, words):
    """A broken one, one nested without end, one whose aliases would fill the memory."""
    with pytest.raises(UsageError, match=words) as caught:
        load(text, "n.yaml")
    assert "\n" not in str(caught.value)


def test_an_empty_file_has_no_documents():
    """Nor has one of comments."""
    assert load("", "n.yaml") == load("# nothing\n", "n.yaml") == []


@pytest.mark.parametrize(
    ("text", "line"),
    [("a:\n  b:\n    c:\n      d: 1\n", 4), ("- - - - 1\n", 1), ("a: &x [1]\nb: [[*x]]\n", 1), ("a: {b: {c: 1}}\n", 0)],
)
def test_what_is_nested_too_deep_is_refused_at_its_line(monkeypatch, text, line):
    """As many levels as the limit are read."""
    monkeypatch.setattr(located, "DEPTH_LIMIT", 3)
    if line:
        with pytest.raises(UsageError, match=f"^a.yaml:{line}: nested too deep"):
            load(text, "a.yaml")
    else:
        assert load(text, "a.yaml") is not None


def test_what_aliases_fill_in_is_counted(monkeypatch):
    """A few lines may stand for millions of values."""
    monkeypatch.setattr(located, "NODES_LIMIT", 12)
    assert load("a: &x [1, 2, 3]\nb: *x\n", "a.yaml") is not None
    with pytest.raises(UsageError, match=r"^a.yaml:1: nested too deep, or too large once its aliases are filled in"):
        load("a: &x [1, 2, 3]\nb: [*x, *x, *x]\n", "a.yaml")


def test_a_value_that_yaml_itself_refuses_stays_a_text():
    """A day that no calendar has, a tag of Python; a key that is a list is nobody's."""
    (found,) = load("day: 2024-02-31\n? [a, b]\n: 1\nbig: 1e999\nten: 2024-02-03\n", "a.yaml")
    assert {key: held.value for key, held in found.items()} == {
        "day": "2024-02-31",
        "big": "1e999",
        "ten": "2024-02-03",
    }
