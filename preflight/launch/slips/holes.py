"""Is a value one that its writer left for others to fill in: XXX, [account], your_account, /path/to/x, <image>?"""

from __future__ import annotations

import re

_NAMES = "account|email|e-mail|group|home|id|image|name|org|partition|password|prof|project|queue|registry|team|user"
ANGLED = re.compile(r"<[A-Za-z][\w .:-]*>")
_BRACED = re.compile(r"\{[A-Za-z][\w .:-]*\}")
_ASKED = re.compile(
    rf"(?i)(?<![a-z])your(?![a-z])|(?<![a-z])your[-_]?(?:{_NAMES})"
    r"|(?<![a-z])(?:change|replace|fill|edit)[-_ ]?(?:me|this|in)(?![a-z])"
)
_NAME = re.compile(
    r"(?i)(?<![a-wyz])x{3,}(?![a-wyz])|(?<![a-z])(?:todo|fixme|tbd|placeholder|redacted)(?![a-z])"
    r"|^\[[a-z][a-z0-9_ -]*\]$|^[*_?.#-]{2,}(?:[a-z ]*[*_?.#-]{2,})?$"
    rf"|(?<![a-z])(?:some|my)[-_]?(?:{_NAMES})$|^(?:{_NAMES})[-_]?(?:name|id|here|number)$"
    r"|^insert[-_ ]"
)
_BARE = re.compile(r"(?:[A-Z]+[_-])?(?:ACCOUNT|PARTITION|PROJECT|QUEUE|QOS|RESERVATION)(?:_NAME|_ID|_HERE)?")
_PATH = re.compile(
    r"(?i)#{2,}[a-z][a-z _-]*#{2,}|(?:^|/)(?:absolute[-_/]|full[-_/])?path[-_/]to(?:[-_/]|$)"
    r"|(?:^|/)\[[a-z][a-z _-]{3,}\](?:/|$)|(?:^|/)(?:x{3,}|todo|fixme|placeholder)(?:/|$)"
)


def is_unfilled_name(text: str) -> bool:
    """Whether a name, as of an account, a partition or an image, is a placeholder."""
    return any(pattern.search(text) for pattern in (ANGLED, _ASKED, _NAME)) or any(
        pattern.fullmatch(text) for pattern in (_BARE, _BRACED)
    )


def is_unfilled_path(text: str) -> bool:
    """Whether a path is a placeholder, or one of its folders is."""
    return any(pattern.search(text) for pattern in (ANGLED, _ASKED, _PATH))
