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
    r"TOKEN(?!IZ|S)|SECRET(?!A)|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|WEBHOOK|(?<=_)PWD(?![A-Za-z])"
    r"|(?:API|ACCESS|PRIVATE|ACCOUNT|AUTH|SIGNING|ENCRYPTION|MASTER|SESSION)[-_]?KEY"
    r"|(?<![A-Za-z])(?:PASS|JWT|PAT|BEARER)(?![A-Za-z])"
)
# Every pattern begins where few texts do and looks no further than a bound: what a node printed must not cost minutes.
# What stands before the word in a name is shown anyway. The name ends where it ends: no shorter one is tried after it.
WORD = rf"(?:{WORDS})[\w-]{{0,64}}(?![\w-])"
NAMED = rf"[\w-]{{0,64}}?{WORD}"
# As shells, YAML, JSON, Python and TOML put a value behind its name, and as a list of words prints an option's.
BEHIND = (
    rf"{WORD}(?:\\{{0,4}}[\"'])?(?:=|[ \t]{{1,8}}(?:[:=]?=>?)[ \t]{{1,8}}|:[ \t]+|:(?=\\{{0,4}}[\"']))"
    rf"|(?<![\w-])--?{NAMED}(?:[ \t]+(?![:=]?=>?[ \t]\S)|[\"'],[ \t]{{0,8}}(?=[\"']))"
    rf"|(?<![\w-])(?:setenv|env|set)[ \t]{{1,8}}{NAMED}[ \t]{{1,8}}(?!-)"
)
QUOTED = re.compile(rf"((?:{BEHIND})(\\{{0,4}}[\"']))(?!\[hidden\])(?:(?!\2)[^\n])+", re.IGNORECASE)
# To the end of a block of YAML; else to the next space, or to the backquote that ends a command in a fix.
BARE = r"(?:[|>][-+]?[ \t]{0,8}(?:\n[ \t]+[^\n]*)+|(?:(?!`(?:[\s.,;:)]|\Z))\S)+)"
SECRET = re.compile(rf"({BEHIND})(?!\\{{0,4}}[\"']|\[hidden\]){BARE}", re.IGNORECASE)
OPTION = re.compile(rf"--?{NAMED}", re.IGNORECASE)  # a word of its own, with the secret in the next one
IN_URL = re.compile(r"(://[^\s/:@]{0,128}:)(?!\d{0,5}(?:[/?#]|$))[^\s\"']{1,256}(?=@)")
IN_QUERY = re.compile(
    r"([?&#](?:[\w.-]{0,40}[-_.])?(?:sig|signature|key|code|auth|token|secret|password)=)[^\s&\"']+", re.IGNORECASE
)
HOOK = re.compile(
    r"(https?://(?:hooks\.slack\.com|(?:\w+\.)?discord(?:app)?\.com/api/webhooks|[\w.-]+\.webhook\.office\.com"
    r"|open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot|hooks\.[\w.-]+|api\.telegram\.org|events\.pagerduty\.com|maker\.ifttt\.com|ntfy\.sh))/[^\s\"']+",
    re.IGNORECASE,
)
# How the tokens of services begin, each with as much after it as no word has.
BEGINNINGS = re.compile(
    r"(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{16,}"
    r"|xox[abeoprs]-[\w-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[\w-]{30,}|ya29\.[\w-]{16,}|sk-[\w-]{16,}|nvapi-[\w-]{16,}"
    r"|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{20,}|dop_v1_[a-f0-9]{20,}|SG\.[\w-]{16,}\.[\w-]{16,}|r8_[A-Za-z0-9]{20,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{16,}|wandb_v1_\w{16,}|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
)
PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
HEADER = re.compile(
    r"((?:Authorization|(?<![\w-])X-[\w-]{0,64}(?:Key|Token))[\"']?\s{0,8}[:=]\s{0,8}[\"']?(?:(?:Bearer|Basic|Token)\s{1,8})?)"
    r"[^\s\"']+",
    re.IGNORECASE,
)
BEARER = re.compile(r"(\bBearer\s{1,8})(?!\[hidden\])[\w.~+/=-]{8,}", re.IGNORECASE)
# Programs whose password is an option of one letter, a word among others, or a part of one.
SHORT = re.compile(
    r"(\bsshpass\s{1,8}(?:-\w\s{1,8}){0,8}?-p\s{0,8}"
    r"|\bdocker\s{1,8}login\b[^\n;|&]{0,200}?\s-p\s{1,8}"
    r"|\bcurl\b[^\n;|&]{0,200}?\s(?:-u|-U|--user|--proxy-user)[ =]?[^\s:]{1,128}:"
    r"|\b(?:mysql|mariadb)\w{0,16}\b[^\n;|&]{0,200}?\s-p"
    r"|\bsmbclient\b[^\n;|&]{0,200}?\s-U\s{0,8}[^\s%]{1,128}%"
    r"|\bwandb\s{1,8}login\s{1,8}(?:--?[\w=-]{1,64}\s{1,8}){0,8}(?!-)"
    r"|\blogin\s{1,8}\S{1,128}\s{1,8}password\s{1,8}"
    r"|\baws\s{1,8}configure\s{1,8}set\s{1,8}[\w.-]{0,64}(?:secret|token)[\w.-]{0,64}\s{1,8}"
    r"|\s--from-literal=[\w.-]{1,128}=)(?!\[hidden\])[^\s\"']+"
)
# ``docker exec -e NAME VALUE`` is a mistake for NAME=VALUE that people make, and whose value is shown all the same.
APART = re.compile(rf"((?<![\w-])(?:-e|--env)[ =]{NAMED}[ \t]{{1,8}})(?!-)\S+", re.IGNORECASE)
SET_ENV = re.compile(r"(SetEnv[= ][\"']?\w+=)[^\s\"']+", re.IGNORECASE)
# What is hidden behind the first group, in this order, and the words without one of which there is nothing to look for.
NAMES = ("token", "secret", "pass", "credential", "webhook", "pwd", "key", "jwt", "pat", "bearer")
SHOWN_UP_TO: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (IN_URL, ("://",)),
    (IN_QUERY, ("?", "&", "#")),
    (HEADER, ("authorization", "x-")),
    (BEARER, ("bearer",)),
    (SHORT, (" -", "login", "configure")),
    (SET_ENV, ("setenv",)),
    (APART, NAMES),
    (QUOTED, NAMES),
    (SECRET, NAMES),
)
VARIABLE = re.compile(r"(?<![\w./-])([A-Za-z_]\w*)=(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'`]+)")
# Variables whose values are shown whatever they look like: a GPU's UUID has the entropy of a key.
JOBS = re.compile(
    r"(?:NCCL|RCCL|GLOO|TORCH\w*|PYTORCH|CUDA|HIP|ROCR|HSA|MASTER|OMP|KMP|MKL|FI|UCX|RDMAV|IBV|TP|OMPI|PMIX?|SLURM|PET"
    r"|LOCAL|NODE|WORLD|RANK|GROUP|ROLE|TRITON|XLA|NVIDIA|PREFLIGHT|ACCELERATE|PDSH)(?:_\w*)?|PATH|LD_\w+|PYTHON\w*|RANK|HOME"
)
NOTIFY = ("--notify", "--preflight-notify")  # the address of a webhook is all that it takes to write to it
LEAST_LETTERS = len("PAT=x")  # of a word that may hold a secret
KEY_LENGTH = 20
KEY_BITS = 3.3  # a letter; words of a language and paths have less, hexadecimal digits of a key 3.5 and more
PLAIN = re.compile(r"[-+]?[\d.,:]+|true|false|yes|no|on|off|none|[\w.-]{0,16}|(?:/[\w.@+-]+)+/?", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """A command or variable as it may stand in a report."""
    text = PEM.sub(HIDDEN, text)
    low = text.lower()
    for pattern, words in SHOWN_UP_TO:
        if any(word in low for word in words):
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
            shown.append(without_secrets(word) if len(word) >= LEAST_LETTERS else word)
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
