"""Which words are secrets, and how is a text shown without them?"""

from __future__ import annotations

import re

# Tokens that are counted and tokenizers are none. NAME=value, name: value, --name value, scheme://user:password@host.
NAMED = r"[\w-]{0,64}(?:TOKEN(?!IZ|S)|SECRET|PASSWORD|PASSWD|API[-_]?KEY|ACCESS[-_]?KEY|CREDENTIAL)[\w-]{0,64}"

SECRET = re.compile(rf"((?:{NAMED}(?:=|: +)|--?{NAMED} +))\S+", re.IGNORECASE)

IN_URL = re.compile(r"(://[^\s/:@]+:)[^\s/@]+(?=@)")

HIDDEN = "[hidden]"


def without_secrets(text: str) -> str:
    """A command or variable as it may stand in a report."""
    return IN_URL.sub(rf"\g<1>{HIDDEN}", SECRET.sub(rf"\g<1>{HIDDEN}", text))
