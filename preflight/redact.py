"""Which words are secrets, and how is a text shown without them?

A secret is known by the name that it is given, by how tokens of well-known services begin, or, where a variable's name
says nothing, by looking like a key: long, of letters and digits without order.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable

HIDDEN = "[hidden]"
# Tokens that are counted and tokenizers are none. NAME=value, name: value, --name value, scheme://user:password@host.
WORDS = (
    r"TOKEN(?!IZ|S)|SECRET(?!A)|PASSWORD|PASSWD|PASSPHRASE|API[-_]?KEY|ACCESS[-_]?KEY|PRIVATE[-_]?KEY|CREDENTIAL"
    r"|WEBHOOK|(?<![A-Za-z])(?:PASS|JWT|PAT|BEARER)(?![A-Za-z])"
)
NAMED = rf"[\w-]{{0,64}}(?:{WORDS})[\w-]{{0,64}}"
SECRET = re.compile(rf"((?:{NAMED}[\"']?(?:=|:[ \t]+)[\"']?|--?{NAMED}[ \t]+))(?!\[hidden\])\S+", re.IGNORECASE)
OPTION = re.compile(rf"--?{NAMED}", re.IGNORECASE)  # a word of its own, with the secret in the next one
IN_URL = re.compile(r"(://[^\s/:@]+:)[^\s/@]+(?=@)")
IN_QUERY = re.compile(
    r"([?&](?:sig|signature|key|code|auth|token|access_token|secret|password)=)[^\s&\"']+", re.IGNORECASE
)
HOOK = re.compile(
    r"(https?://(?:hooks\.slack\.com|(?:\w+\.)?discord(?:app)?\.com/api/webhooks|[\w.-]+\.webhook\.office\.com"
    r"|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot|hooks\.[\w.-]+))/[^\s\"']+",
    re.IGNORECASE,
)
# How the tokens of services begin, each with as much after it as no word has.
BEGINNINGS = re.compile(
    r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{16,}"
    r"|xox[abeoprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|sk-[\w-]{16,}|nvapi-[\w-]{16,}"
    r"|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{20,}|dop_v1_[a-f0-9]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|r8_[A-Za-z0-9]{20,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
HEADER = re.compile(
    r"((?:Authorization|X-[\w-]*(?:Key|Token))[\"']?\s*[:=]\s*[\"']?(?:(?:Bearer|Basic|Token)\s+)?)[^\s\"']+",
    re.IGNORECASE,
)
BEARER = re.compile(r"(\bBearer\s+)(?!\[hidden\])[\w.~+/=-]{8,}", re.IGNORECASE)
# Programs whose password is an option of one letter.
SHORT = re.compile(
    r"(\bsshpass\s+(?:-\w\s+)*?-p\s*|\bdocker\s+login\b[^\n;|&]*?\s-p\s+|\bcurl\b[^\n;|&]*?\s-u\s*\S+?:)\S+"
)
# ``docker exec -e NAME VALUE`` is a mistake for NAME=VALUE that people make, and whose value is shown all the same.
APART = re.compile(rf"((?:-e|--env)[ =]{NAMED}[ \t]+)(?!-)\S+", re.IGNORECASE)
SET_ENV = re.compile(r"(SetEnv[= ][\"']?\w+=)[^\s\"']+", re.IGNORECASE)
VARIABLE = re.compile(r"(?<![\w./-])([A-Za-z_]\w*)=(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"']+)")
# Variables whose values are shown whatever they look like: a GPU's UUID has the entropy of a key.
JOBS = re.compile(
    r"(?:NCCL|RCCL|GLOO|TORCH\w*|PYTORCH|CUDA|HIP|ROCR|HSA|MASTER|OMP|KMP|MKL|FI|UCX|RDMAV|IBV|TP|OMPI|PMIX?|SLURM|PET"
    r"|LOCAL|NODE|WORLD|RANK|GROUP|ROLE|TRITON|XLA|NVIDIA|PREFLIGHT|ACCELERATE|PDSH)(?:_\w*)?|PATH|LD_\w+|PYTHON\w*|RANK|HOME"
)
NOTIFY = ("--notify", "--preflight-notify")  # the address of a webhook is all that it takes to write to it
KEY_LENGTH = 20
KEY_BITS = 3.3  # a letter; words of a language and paths have less, hexadecimal digits of a key 3.5 and more
PLAIN = re.compile(r"[-+]?[\d.,:]+|true|false|yes|no|on|off|none|[\w.-]{0,16}|(?:/[\w.@+-]+)+/?", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """A command or variable as it may stand in a report."""
    text = PEM.sub(HIDDEN, text)
    for pattern in (IN_URL, IN_QUERY, HEADER, BEARER, SHORT, SET_ENV, APART, SECRET):
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    text = HOOK.sub(rf"\g<1>/{HIDDEN}", text)
    text = BEGINNINGS.sub(HIDDEN, text)
    return VARIABLE.sub(_variable, text)


def words_without_secrets(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a command line, each of which may be the value of the one before it.

    What ``--env`` sets is shown where its name is one of a job's variables, or where it is no more than a number, a
    short word or a path: nobody but the user knows what the others mean.
    """
    shown: list[str] = []
    before = ""
    for word in words:
        name, _, value = word.partition("=")
        if OPTION.fullmatch(before) and not before.startswith("---"):
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
        elif before == "-p" and len(shown) > 1 and shown[-2].rpartition("/")[2] == "sshpass":
            shown.append(HIDDEN)
        else:
            shown.append(without_secrets(word))
        before = word
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
