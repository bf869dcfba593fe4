"""Where does a text give a secret behind its name, and how far does it reach?"""

from __future__ import annotations

import re

from preflight.said.redact.names import is_secret, is_weak, words_of

HIDDEN = "[hidden]"
# As shells, YAML, JSON, Python and TOML put a value behind its name, and as a list of words prints an option's. Every
# pattern begins where few texts do and looks no further than a bound: what a node printed must not cost minutes.
GIVEN = re.compile(
    r"(?<![\w.-])(?P<name>[\w.-]+)(?P<close>\\{0,4}[\"'])?"
    r"(?:(?P<sign>=|[ \t]{1,8}[:=]?=>?[ \t]{1,8})|(?P<colon>[ \t]{0,8}:[ \t]+|:(?=\\{0,4}[\"'])|(?<=[A-Z]):(?=\w))"
    r"|(?P<gap>[ \t]{1,64}(?=\S))|(?P<comma>,[ \t]{0,8}(?=[\"'])))"
)
SETS = re.compile(r"(?<![\w-])(?:setenv|env|set|-e|--env)[ \t=]{1,8}\Z", re.IGNORECASE)  # NAME VALUE follows
LEFT = 80  # letters before a name that tell whether it stands in a sentence
IN_SENTENCE = re.compile(r"[\w)\]%.`][\"'`]?[ \t]+(?:[\"'`])?\Z")
QUOTE = re.compile(r"\\{0,4}[\"']")
IN_QUOTES = {
    '"': re.compile(r'(?:[^"\\\n]|\\.)*'),
    "'": re.compile(r"[^'\n]*(?:'\\''[^'\n]*)*"),  # as a shell writes one quote within others
}
# To the end of a block of YAML; else to the next space, to the quote that closes what it stands in, or to the
# backquote that ends a command in a fix.
BARE = re.compile(r"[|>][-+]?[ \t]{0,8}(?:\n[ \t]+[^\n]*)+|(?:(?!`(?:[\s.,;:)]|\Z))(?![\"'](?:[\s,;)\]}]|\Z))\S)+")
SWITCHED = re.compile(r"(?:true|false|none|null|nil)[,;)\]}]*", re.IGNORECASE)
PLAIN_WORD = re.compile(
    r"[-+]?\d{1,6}(?:\.\d+)?%?[,;)\]}]*|yes|no|on|off|auto|basic|munge|kerberos|jwt|ssh|slurm|default", re.IGNORECASE
)
TELLING = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])[\w.~+/=!@#$%^&*-]{6,}")  # in a sentence, what is no word of it
PASSWORDS = frozenset(("password", "passwd", "passphrase"))
LAST_WORD = re.compile(r"[\"'`]?\w[\w!@#$%^&*+=~-]{3,}[\"'`]?[.,;)]?[ \t]*(?:\n|\Z)")
ANSWERS = frozenset(("required", "prompt", "incorrect", "wrong", "missing", "empty", "denied", "expired", "invalid"))
KEY_OF_JSON = re.compile(r"[A-Za-z0-9+=]{8,}")  # as Kaggle's; one of a table or a label has dots, dashes, slashes
# A list of variables in a manifest.
PAIR = re.compile(
    r"(?P<start>\bname\\{0,4}[\"']?:\s{0,8}\\{0,4}[\"']?(?P<name>[\w.-]{1,128})\\{0,4}[\"']?\s{0,8},?\s{0,80}\\{0,4}[\"']?value\\{0,4}[\"']?:"
    r"[ \t]{0,8})(?!\[hidden\])(?P<value>\\{0,4}\"(?:[^\"\\\n]|\\[^\"])*\\{0,4}\"|'[^'\n]*'|[^\s,}]+)"
)
# Without one of these there is no name to look for.
NAMES = ("token", "secret", "pass", "cred", "webhook", "pw", "key", "jwt", "pat", "bearer", "auth", "dsn", "cookie")


def without_given(text: str) -> str:
    """The text with HIDDEN in place of what stands behind the names of secrets."""
    parts: list[str] = []
    shown = 0
    for found in GIVEN.finditer(text):
        start = found.end()
        if start < shown or not (is_secret(found["name"]) or found["name"].lower() == "key"):
            continue
        start, end = _value(text, start)
        if start < end and not text.startswith(HIDDEN, start) and _is_given(text, found, text[start:end]):
            parts += (text[shown:start], HIDDEN)
            shown = end
    text = "".join((*parts, text[shown:]))
    return PAIR.sub(_pair, text) if "value" in text else text


def _is_given(text: str, found: re.Match[str], value: str) -> bool:
    """Whether the sign behind a name gives it this value, or is one of a sentence."""
    name = found["name"]
    is_option = name.startswith("-") and not name.startswith("---")
    if found["gap"]:
        if found["close"] or value.startswith("("):
            return False
        if not is_option and (
            value.startswith("-") or not SETS.search(text[max(0, found.start() - 16) : found.start()])
        ):
            return False
    if found["comma"] and not (is_option and found["close"]):
        return False
    if name.lower() == "key":
        return bool(found["close"] and found["colon"] and KEY_OF_JSON.fullmatch(value))
    if SWITCHED.fullmatch(value) or (is_weak(name) and not is_option and PLAIN_WORD.fullmatch(value)):
        return False
    if found["colon"] and not found["close"] and len(words_of(name)) == 1 and name.isalpha():
        if not any(letter.isalnum() for letter in value):
            return False
        before = text[max(0, found.start() - LEFT) : found.start()].rpartition("\n")[2]
        if IN_SENTENCE.search(before):
            return _tells(text[found.end() :], name)
    return True


def _tells(behind: str, name: str) -> bool:
    """Whether what follows a colon in a sentence is a secret all the same."""
    first = behind.split(None, 1)[0].strip("\"'`.,;:()") if behind.strip() else ""
    if TELLING.fullmatch(first):
        return True
    return name.lower() in PASSWORDS and LAST_WORD.match(behind) is not None and first.lower() not in ANSWERS


def _value(text: str, start: int) -> tuple[int, int]:
    """Where a value begins and ends: within its quotes, else to the next space."""
    quote = QUOTE.match(text, start)
    if quote is None:
        found = BARE.match(text, start)
        return start, found.end() if found else start
    inside = IN_QUOTES.get(quote[0])
    if inside is not None:
        return quote.end(), inside.match(text, quote.end()).end()  # type: ignore[union-attr]  # matches nothing too
    line = text.find("\n", quote.end())
    end = text.find(quote[0], quote.end(), line if line >= 0 else len(text))
    return quote.end(), end if end >= 0 else line if line >= 0 else len(text)


def _pair(found: re.Match[str]) -> str:
    value = found["value"]
    quote = QUOTE.match(value)
    if not is_secret(found["name"]) or value.strip("\"'\\") in ("", HIDDEN):
        return found[0]
    return f"{found['start']}{quote[0]}{HIDDEN}{quote[0]}" if quote else f"{found['start']}{HIDDEN}"
