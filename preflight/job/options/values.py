"""What does the text of one option mean, and which text is refused?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from datetime import timedelta
from urllib.parse import urlsplit

from preflight.reach.transport import Reach
from preflight.said import said
from preflight.said.errors import UsageError
from preflight.said.redact import HIDDEN, without_secrets

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECONDS_OF = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_REUSE = timedelta(days=7)
# Letters behind which ssh takes the next word for a value (ssh.c, getopt).
SSH_TAKES = re.compile(r"-[46AaCfGgKkMNnqsTtVvXxYy]*[BbcDEeFIiJLlmOoPpQRSWw]")

# The vendors' tests of GPUs by program and level, the usual level first, with the seconds that one may take on 8 GPUs.
VENDOR_TESTS: Mapping[str, Mapping[str, float]] = {
    "dcgmi": {"2": 300.0, "1": 90.0, "3": 2700.0},
    "nvbandwidth": {"": 240.0},
    "rvs": {"": 900.0},
    "agfhc": {"1": 900.0, "2": 1500.0, "3": 2700.0},
}


def duration(text: str) -> timedelta:
    """6h, 30m, 90s or 7d, as a time. Raises UsageError for anything else."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", text.strip())
    age = timedelta(seconds=int(found[1]) * SECONDS_OF[found[2]]) if found else None
    if age is None or age > LONGEST_REUSE:
        raise UsageError(
            said("--reuse {text!r}: wanted a time up to {days}d, such as 6h or 30m", text, LONGEST_REUSE.days)
        )
    return age


def webhook(url: str) -> str:
    """The URL of a webhook. Raises UsageError, which shows nothing of it, for anything else."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or any(letter <= " " or letter > "~" for letter in url):
        raise UsageError("--notify: wanted the URL of a webhook, such as https://hooks.slack.com/services/...")
    return url


def without_end_slash(path: str) -> str:
    """A path as it is compared with others."""
    return path.rstrip("/") or "/"


def vendor_tests(text: str) -> tuple[tuple[str, str, float], ...]:
    """The tests of --vendor-tests: program, level and seconds. Raises UsageError for one that is not known."""
    found: list[tuple[str, str, float]] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        name, _, level = word.partition(":")
        levels = VENDOR_TESTS.get(name, {})
        usual = next(iter(levels), "")
        if (level or usual) not in levels or name in {known for known, _, _ in found}:
            known = ", ".join(
                f"{name}:{level}" if level else name for name, all_ in VENDOR_TESTS.items() for level in all_
            )
            raise UsageError(said("--vendor-tests {word!r}: wanted some of {known}, each program once", word, known))
        found.append((name, level or usual, levels[level or usual]))
    return tuple(found)


def variables(texts: Iterable[str]) -> dict[str, str]:
    """The variables of --env. Raises UsageError, which shows no value, for what is not NAME=VALUE."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not NAME.fullmatch(name) or "\0" in value:
            shown = f"{name}={HIDDEN}" if equals else text if NAME.fullmatch(text) else HIDDEN
            raise UsageError(said("--env {without_secrets!r}: wanted NAME=VALUE", without_secrets(shown)))
        found[name] = value
    return found


def reach(python: str | None, wrap: str, ssh_option: str) -> Reach:
    """How the nodes are reached. Raises UsageError for words that no shell could split, or that mean something else."""
    wrapper, ssh_options = _words("--wrap", wrap), _words("--ssh-option", ssh_option)
    for name, word in (("--wrap", wrapper[0] if wrapper else ""), ("--python", python or "")):
        if word.startswith("-"):
            raise UsageError(said("{name} {word!r}: wanted a program, and this is an option", name, word))
    stranger = _no_option(ssh_options)
    if stranger:
        raise UsageError(
            said("--ssh-option {stranger!r}: wanted an option of ssh; it would be taken for the host", stranger)
        )
    return Reach(python, wrapper, ssh_options)


def _no_option(words: tuple[str, ...]) -> str:
    """The first word that ssh would take for the host, or for the end of its options; "" where all are options."""
    left = iter(words)
    for word in left:
        if not word.startswith("-") or word in ("-", "--"):
            return word
        if SSH_TAKES.fullmatch(word):
            next(left, "")
    return ""


def _words(name: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{name} {text!r}: {error}") from None
