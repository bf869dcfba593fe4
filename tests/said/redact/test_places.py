"""Are secrets known by the place that they stand in?"""

from __future__ import annotations

import pytest

from preflight.said.redact import HIDDEN, without_secrets


@pytest.mark.parametrize("scheme", ["https", "http", "git+https", "redis", "postgres", "mongodb+srv", "amqp"])
def test_a_token_alone_before_the_host_is_hidden(scheme):
    """And a password behind its user."""
    assert without_secrets(f"x {scheme}://abc@host/y") == f"x {scheme}://{HIDDEN}@host/y"
    assert without_secrets(f"x {scheme}://me:abc@host/y") == f"x {scheme}://me:{HIDDEN}@host/y"


@pytest.mark.parametrize("text", ["ssh://git@host/x", "git+ssh://git@host/x", "rsync://me@host", "http://host/a@b"])
def test_a_login_of_ssh_is_shown(text):
    """It is what the user must see to find a mistake in it."""
    assert without_secrets(text) == text


def test_a_cookie_is_hidden_to_its_end():
    """Each of its parts may be the session."""
    assert without_secrets("curl -H 'Cookie: a=1; b=2' h") == f"curl -H 'Cookie: {HIDDEN}' h"
    assert without_secrets("Cookie: none was sent") == "Cookie: none was sent"
