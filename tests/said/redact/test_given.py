"""Is a value hidden as far as it reaches, and a sentence left alone?"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.said.redact import HIDDEN, without_secrets
from preflight.said.redact.given import without_given
from tests.house import PACKAGE, ROOT

VALUES = st.text("abcxyzABC0189+/=_.!%^*-", min_size=1, max_size=30).map(lambda text: f"Q{text}Q")
WAYS = [
    *(
        "DB_PASS={}",
        "export FOO_KEY={}",
        'API_KEY="{}"',
        "my_auth: {}",
        "--hf.token {}",
        "--hf-token={}",
        "['--x-key', '{}']",
    ),
    *('{{"apiKey": "{}"}}', "setenv X_TOKEN {}", "-e MY_CREDS={}", "sentry_dsn = '{}'", "- my_cookie: {}", "auth={}"),
]


@given(st.sampled_from(WAYS), VALUES)
def test_a_value_is_hidden_in_every_way_to_write_it(way, value):
    """And nothing else of the line."""
    text = f"a {way.format(value)} b"
    assert without_secrets(text) == f"a {way.format(HIDDEN)} b"
    assert without_secrets(without_secrets(text)) == without_secrets(text)


WORDS = st.lists(
    st.sampled_from(
        [
            "the",
            "node",
            "refused",
            "a",
            "rank",
            "of",
            "job",
            "which",
            "does",
            "not",
            "run",
            "there",
            "in",
            "its",
            "file",
            "eth0",
            "4",
            "times",
            "(see",
            "above)",
        ]
    ),
    min_size=2,
    max_size=9,
)


@given(WORDS, st.sampled_from(["token", "secret", "credential", "key", "webhook", "auth", "pass", "cookie"]), WORDS)
def test_a_sentence_is_left_alone(before, word, behind):
    """Whatever it speaks of, before a colon too."""
    for sign in (" ", ": ", ", ", "; "):
        text = f"{' '.join(before)} {word}{sign}{' '.join(behind)}"
        assert without_secrets(text) == text


OPTIONS = st.sampled_from(
    ["--max-token", "--pad-token-id", "--tokenizer", "--token-file", "--auth-type", "--pass-through-x"]
)


@given(OPTIONS, st.one_of(st.integers(0, 99).map(str), st.sampled_from(["x", "/data/x", "auto"])))
def test_options_of_a_program_are_left_alone(option, value):
    """With a space or a sign between them."""
    assert without_secrets(f"t.py {option} {value} --lr 1") == f"t.py {option} {value} --lr 1"
    assert without_secrets(f"t.py {option}={value}") == f"t.py {option}={value}"


FILLS = ("node1", "x", "/data/x", "4")


def sentences(path: Path) -> Iterator[str]:
    """The texts of a module that speak to people, with words in their places."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts.update(map(id, node.values))
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else FILLS[number % 4]
                for number, part in enumerate(node.values)
            )
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


@pytest.mark.parametrize("folder", [PACKAGE, ROOT / "checks"])
def test_no_sentence_of_ours_is_changed(folder):
    """Every text of the package, as a template of a message; patterns have no spaces between words."""
    told = {
        text
        for path in sorted(folder.rglob("*.py"))
        if "redact" not in path.parts
        for text in sentences(path)
        if text.count(" ") > 1
    }
    assert len(told) > 400
    assert {text: shown for text in told if (shown := without_secrets(text)) != text} == {}


def test_the_end_of_a_value_is_that_of_its_quotes():
    """Or the next space, the end of a block, the quote around the command."""
    for text, shown in {
        "A_KEY='one two' x": f"A_KEY='{HIDDEN}' x",
        "'env A_KEY=one' x": f"'env A_KEY={HIDDEN}' x",
        "try `A_KEY=one`.": f"try `A_KEY={HIDDEN}`.",
        'A_KEY="a\\"b" x': f'A_KEY="{HIDDEN}" x',
        "A_KEY='a'\\''b' x": f"A_KEY='{HIDDEN}' x",
        'A_KEY="one': f'A_KEY="{HIDDEN}',
        "a_key: |\n  one\nb: 1": f"a_key: {HIDDEN}\nb: 1",
        "- name: A_TOKEN\n  value: 'one'\n": f"- name: A_TOKEN\n  value: '{HIDDEN}'\n",
    }.items():
        assert without_given(text) == shown
