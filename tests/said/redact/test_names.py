"""Does the end of a name decide whether a secret stands under it?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.said.redact.names import is_secret, is_weak

BEFORE = st.lists(st.sampled_from(["my", "db", "wandb", "azure", "x1", "team"]), min_size=1, max_size=3)
ENDS = ["token", "secret", "pass", "password", "passwd", "pwd", "auth", "creds", "credentials", "dsn", "cookie", "key"]
STYLES = {
    "variable": lambda words: "_".join(words).upper(),
    "option": lambda words: "--" + "-".join(words),
    "dotted": ".".join,
    "setting": "_".join,
    "camel": lambda words: words[0] + "".join(word.capitalize() for word in words[1:]),
}


@given(BEFORE, st.sampled_from(ENDS), st.sampled_from(sorted(STYLES)), st.sampled_from(["", "_2", "_prod", "_OLD"]))
def test_whatever_stands_before_it(before, end, style, behind):
    """In every style that people write names in, with a number or a stage behind it."""
    assert is_secret(STYLES[style]([*before, end]) + behind)


@given(BEFORE, st.sampled_from(ENDS), st.sampled_from(["file", "path", "name", "type", "id", "length", "mode", "ref"]))
def test_another_end_says_that_it_is_something_else(before, middle, end):
    """The file of a token is none."""
    for style in STYLES.values():
        assert not is_secret(style([*before, middle, end]))


@pytest.mark.parametrize(
    "name", ["DBPASS", "USERPASS", "MYTOKEN", "wandbkey", "APIKEY", "RABBITPWD", "KAGGLE_KEY", "AWS_ACCESS_KEY_ID"]
)
def test_words_that_are_written_as_one(name):
    """As variables of old programs are."""
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("key", "PWD", "--pwd", "OLDPWD", "bypass", "tokenizer", "max_tokens", "--max-token", "pad_token", "eostoken"),
        *("prompt_key", "topologyKey", "P_Key", "PKEY", "monkey", "SSH_AUTH_SOCK", "author", "StrictHostKeyChecking"),
        *("pattern", "path", "passes", "forward_pass", "NCCL_DEBUG", "", "123", "---", "imagePullSecrets"),
    ],
)
def test_names_that_only_sound_like_it(name):
    """Of models, tables, folders and switches."""
    assert not is_secret(name)


def test_what_is_also_a_result_is_weak():
    """Alone; with a word before it no longer."""
    assert is_weak("pass")
    assert not is_weak("DB_PASS")
