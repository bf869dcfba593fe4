"""Is what comes out of printable inert, and is honest text left alone?"""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.report.printable import printable, without_surrogates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31m", r"\x1b[31m"),
        ("a\r\n\tb", r"a\r\n\tb"),
        ("\x00\x7f\x9b", r"\x00\x7f\x9b"),
        ("\u202eb\u200b\ufeff", r"\u202eb\u200b\ufeff"),
        ("\ud800\uffff", r"\ud800\uffff"),
        ("\u2028\u2029\x85", r"\u2028\u2029\x85"),
        ("\U000e0041", r"\U000e0041"),
        ("a\u3164b", r"a\u3164b"),
        ("\xad\U000110bd", r"\xad\U000110bd"),
    ],
)
def test_what_cannot_be_seen_is_written_out(text, expected):
    """Controls of both sets, bidi, zero width, lone surrogates, line separators, tags."""
    assert printable(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "mtu: 9000 on node[1-2], 1500 on node3", "größer, 节点, узел, 🚀", "c10::Error: at::native::add",
        "fe80::1 and ::1",
        "::ffff:10.0.0.1", "fe80::a to fe80::b", "::dead:beef", "# not a command", "## heading", "C:\\dir",
        "XDR at X32",
    ],
)  # fmt: skip
def test_honest_text_stays_as_it_is(text):
    """Letters of any script, C++ names and IPv6 addresses are no attack."""
    assert printable(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "::error::x",
        "  ::warning file=a::b",
        "x ::set-output name=a::b",
        "##vso[task.x]",
        "a ##[error]",
        "##teamcity[x]",
    ],
)
def test_commands_to_a_ci_system_are_broken(text):
    """No word at the start of a line, wrapped or not, speaks to the system that shows the log."""
    shown = printable(text)
    assert not any(word.startswith("::") for word in shown.split())
    assert "##" not in shown
    assert shown.replace(r"\x3a", ":").replace(r"\x23", "#") == text


def test_newlines_stay_only_where_asked():
    """Each line of a longer text is treated on its own."""
    assert printable("a\nb") == r"a\nb"
    assert printable("a\x1b\n::error::x", keep_newlines=True) == "a\\x1b\n\\x3a:error::x"


@given(st.text())
def test_any_text_comes_out_visible_and_encodable(text):
    """Nothing of the categories Other or Separator is left but the plain space."""
    shown = printable(text)
    assert all(letter == " " or unicodedata.category(letter)[0] not in "CZ" for letter in shown)
    shown.encode()
    assert printable(shown) == shown


def test_a_lone_surrogate_is_written_out_wherever_it_stands():
    """What no encoder takes, and nothing beside it."""
    assert without_surrogates("node\ud8003\udfff é") == r"node\ud8003\udfff é"


@given(st.text(st.characters()))
def test_without_surrogates_can_be_encoded_and_keeps_the_rest(text):
    """Only what no encoder takes is changed."""
    shown = without_surrogates(text)
    shown.encode()
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        assert shown == text
