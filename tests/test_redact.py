"""Are secrets hidden wherever they stand, and is nothing else?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.redact import HIDDEN, without_secrets


def test_every_secret_of_a_line_is_hidden():
    """Tokens in variables and options, side by side."""
    hidden = without_secrets("HF_TOKEN=abc WANDB_API_KEY=def python t.py --hub_token ghi --lr 1 --token=jkl")
    assert not any(secret in hidden for secret in ("abc", "def", "ghi", "jkl"))
    assert "--lr 1" in hidden


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HF_TOKEN=abc x", "HF_TOKEN=[hidden] x"),
        ("t.py --wandb-api-key abc --lr 1", "t.py --wandb-api-key [hidden] --lr 1"),
        ("--hub_token=abc", "--hub_token=[hidden]"),
        ("aws_secret_access_key: abc\nuse_cpu: false", "aws_secret_access_key: [hidden]\nuse_cpu: false"),
        ("HTTP_PROXY=http://me:abc@proxy:3128", "HTTP_PROXY=http://me:[hidden]@proxy:3128"),
        ("--tokenizer_path /m --max_tokens 512", "--tokenizer_path /m --max_tokens 512"),
        ("--rdzv_endpoint 10.0.0.1:29500", "--rdzv_endpoint 10.0.0.1:29500"),
    ],
)
def test_secrets_are_hidden_where_they_stand(text, shown):
    """By the names that people give them; what only looks like one is left."""
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tokenizer=fast --max-tokens=5 --tokens 9",
        "https://host:8080/path?a=b",
        "user@host:/data",
        "--password",
        "MY_SECRETARY",
    ],
)
def test_what_only_looks_like_a_secret_is_left(text):
    """A word that is counted, an address without a password, a name without a value."""
    assert without_secrets(text) == text


def test_a_secret_in_a_url_is_hidden_with_its_user_shown():
    """Whoever reads it still sees which account was meant."""
    assert without_secrets("git clone https://me:abc@host/x.git") == f"git clone https://me:{HIDDEN}@host/x.git"
    assert without_secrets("https://abc@host") == "https://abc@host"


@given(st.sampled_from(["HF_TOKEN=", "--api-key ", "DB_PASSWORD: "]), st.text("abcXYZ0189+/=_-.!$", min_size=1))
def test_no_letter_of_a_secret_is_left(name, secret):
    """Whatever it is made of; hiding it twice changes nothing."""
    hidden = without_secrets(f"x {name}{secret} y")
    assert hidden == f"x {name}{HIDDEN} y"
    assert without_secrets(hidden) == hidden
