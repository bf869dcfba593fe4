"""Which words are secrets, and how is a text shown without them?

A secret is known by the end of the name that it is given, by its place in an address, a header or a command, by how
tokens of well-known services begin, or, where a variable's name says nothing, by looking like a key: long, of letters
and digits without order. Sentences are left alone: "refused a credential: munge does not run there" tells of none.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable

from preflight.said import changed
from preflight.said.redact.given import HIDDEN, NAMES, without_given
from preflight.said.redact.names import is_secret
from preflight.said.redact.places import BEGINNINGS, HOOK, PEM, SHOWN_UP_TO

__all__ = ["HIDDEN", "looks_like_a_key", "without_secrets", "words_without_secrets"]

VARIABLE = re.compile(r"(?<![\w./-])([A-Za-z_]\w*)=(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'`]+)")
# Variables whose values are shown whatever they look like: a GPU's UUID has the entropy of a key.
JOBS = re.compile(
    r"(?:NCCL|RCCL|GLOO|TORCH\w*|PYTORCH|CUDA|HIP|ROCR|HSA|MASTER|OMP|KMP|MKL|FI|UCX|RDMAV|IBV|TP|OMPI|PMIX?|SLURM|PET"
    r"|LOCAL|NODE|WORLD|RANK|GROUP|ROLE|TRITON|XLA|NVIDIA|PREFLIGHT|ACCELERATE|PDSH)(?:_\w*)?|PATH|LD_\w+|PYTHON\w*|RANK|HOME"
)
# Options of one letter behind which these programs take a password as a word of its own.
OF_PROGRAMS = {
    "sshpass": ("-p",),
    "redis-cli": ("-a",),
    **dict.fromkeys(("ipmitool", "sqlcmd", "mosquitto_pub", "mosquitto_sub"), ("-P",)),
    **dict.fromkeys(("ldapsearch", "ldapmodify"), ("-w",)),
    "curl": ("-b",),
}
NOTIFY = ("--notify", "--preflight-notify")  # the address of a webhook is all that it takes to write to it
LEAST_LETTERS = len("PAT=x")  # of a word that may hold a secret
KEY_LENGTH = 20
KEY_BITS = 3.3  # a letter; words of a language and paths have less, hexadecimal digits of a key 3.5 and more
PLAIN = re.compile(r"[-+]?[\d.,:]+|true|false|yes|no|on|off|none|[\w.-]{0,16}|(?:/[\w.@+-]+)+/?", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """A command or variable as it may stand in a report."""
    return changed(text, _without_secrets)


def _without_secrets(text: str) -> str:
    text = PEM.sub(HIDDEN, text)
    low = text.lower()
    for pattern, words in SHOWN_UP_TO:
        if any(word in low for word in words):
            text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    if any(word in low for word in NAMES):
        text = without_given(text)
    text = HOOK.sub(rf"\g<1>/{HIDDEN}", text)
    text = BEGINNINGS.sub(HIDDEN, text)
    return VARIABLE.sub(_variable, text)


def words_without_secrets(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a command line, each of which may be the value of the one before it.

    What ``--env`` sets is shown where its name is one of a job's variables, or where it is no more than a number, a
    short word or a path: nobody but the user knows what the others mean.
    """
    shown: list[str] = []
    before, program = "", ""
    for word in words:
        name, _, value = word.partition("=")
        if before.startswith("-") and not before.startswith("---") and "=" not in before and is_secret(before):
            shown.append(HIDDEN)
        elif before in ("--env", "--preflight-env") and "=" in word:
            shown.append(f"{name}={_of_env(name, value)}")
        elif name in ("--env", "--preflight-env") and "=" in value:
            inner, _, held = value.partition("=")
            shown.append(f"{name}={inner}={_of_env(inner, held)}")
        elif before in NOTIFY:
            shown.append(HIDDEN)
        elif name in NOTIFY and value:
            shown.append(f"{name}={HIDDEN}")
        elif before in OF_PROGRAMS.get(program, ()):
            shown.append(HIDDEN)
        else:
            shown.append(without_secrets(word) if len(word) >= LEAST_LETTERS else word)
        before = word
        program = word.rpartition("/")[2] if word.rpartition("/")[2] in OF_PROGRAMS else program
    return tuple(shown)


def _of_env(name: str, value: str) -> str:
    if JOBS.fullmatch(name) or PLAIN.fullmatch(value):
        return without_secrets(f"{name}={value}").partition("=")[2]
    return HIDDEN


def looks_like_a_key(value: str) -> bool:
    """Whether a value is long and without order, as only keys are: no path, no list, no sentence, no address."""
    value = value.strip("\"'")
    if len(value) < KEY_LENGTH or not re.fullmatch(r"[A-Za-z0-9+/=_.~-]+", value):
        return False
    if value[0] in "/.~" or value.count("/") > 2 or value.count(".") > 2 or value.count("-") > 4:
        return False
    if not re.search(r"\d", value) or not re.search(r"[A-Za-z]", value):
        return False
    counts = Counter(value)
    bits = -sum(count / len(value) * math.log2(count / len(value)) for count in counts.values())
    # Words with a number behind them have few changes between letters and digits.
    changes = sum(one.isdigit() != other.isdigit() for one, other in itertools.pairwise(value))
    return bits >= KEY_BITS and changes >= len(value) // 6


def _variable(found: re.Match[str]) -> str:
    name, value = found[1], found[2]
    if HIDDEN in value or JOBS.fullmatch(name) or not looks_like_a_key(value):
        return found[0]
    return f"{name}={HIDDEN}"
