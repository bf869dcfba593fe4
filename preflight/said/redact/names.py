"""Is what stands under this name a secret? The end of the name decides."""

from __future__ import annotations

import re
from functools import lru_cache


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


# As people run words together: accountKey, HFToken, DB_PASSWORD2.
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
STRONG = _listed(
    "token secret password passwd passphrase passcode passwords secrets credential credentials cred creds jwt pat"
    " bearer webhook cookie cookies dsn pwd pw apikeys"
)
WEAK = _listed("pass auth key keys")  # also what is no secret: a result, a switch, a column
# Of words that are written as one: DBPASS, MYTOKEN, wandbkey.
ENDINGS = tuple(
    _listed(
        "token secret password passwd passphrase credential credentials creds cookie webhook pwd pass auth apikey"
        " accesskey secretkey privatekey authkey accountkey masterkey sessionkey signingkey encryptionkey storagekey"
        " sharedkey wandbkey hfkey openaikey kagglekey adminkey userkey servicekey clientkey sentrydsn"
    )
)
NONE = _listed(
    "cwd oldpwd bypass compass trespass overpass underpass surpass multipass onepass lowpass highpass bandpass"
    " oauth xauth noauth preauth reauth unauth subtoken"
)
# What stands before "token" where a model's vocabulary or a parser is spoken of, before "key" where a table is.
OF_MODELS = _listed(
    "max min num n pad padding eos bos unk sep cls mask stop special image video audio next last first new per start"
    " end begin think eod added prompt vocab unexpected output input query draft every tool object box vision the"
)
OF_TABLES = _listed(
    "public sort primary foreign cache group topology label labels image images text prompt response messages message"
    " input output target question answer reward fn data dataset state index partition row column record barrier dict"
    " metric monitor video videos audio lookup unique node shuffle context content role tokens score step loss chosen"
    " rejected field config sharding routing object tools attention to rank query padding head num split id map"
    " registry item p m q l r s hot press function no any missing unknown duplicate each this same default"
)
OF_RESULTS = _listed("first second forward backward one two single multi n num by low high band last each all")
# What may follow the word that says it, and changes nothing: HF_TOKEN_PROD, SECRET_KEY_BASE, DB_PASSWORD_OLD.
KINDS = _listed(
    "prod production dev test staging stage old new ro rw read write value base string plain raw default main backup"
    " primary secondary internal external b hex"
)
# Behind these any word may follow, but one that says that it is something else.
ANYWHERE = _listed("password passwd passphrase secret webhook credentials creds")
OF_SOMETHING_ELSE = _listed(
    "file path dir name names type len length size ttl count limit timeout prefix mode method scope host port user"
    " username enabled stdin required policy age version ref id ids format provider mount store manager server service"
    " expiry expires fd prompt prompts authentication field hint rotation env min max class backend checking helper"
    " agent reader error namespace source generator for"
)
NUMBERED = re.compile(r"[\d_.-]+$")


@lru_cache(4096)
def words_of(name: str) -> tuple[str, ...]:
    """The words of a name in lower case, without a number at its end."""
    return tuple(word.lower() for word in WORD.findall(NUMBERED.sub("", name)))


@lru_cache(4096)
def is_secret(name: str) -> bool:
    """Whether a name says that its value is a secret: by its last word, whatever stands before it."""
    words = words_of(name)
    while len(words) > 1 and words[-1] in KINDS:
        words = words[:-1]
    if (
        not words or words == ("pwd",) or words[-2:] == ("pull", "secrets")
    ):  # of a shell and of containers; of manifests
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in ("key", "keys"):
        return bool(before) and before not in OF_TABLES
    if last == "token":
        return before not in OF_MODELS
    if last == "pass":
        return before not in OF_RESULTS
    if last in STRONG or last in WEAK or words[-3:] == ("access", "key", "id"):
        return True
    if not ANYWHERE.isdisjoint(words[:-1]) and last not in OF_SOMETHING_ELSE:
        return True
    is_of_model = last.endswith("token") and last.removesuffix("token") in OF_MODELS
    return last.endswith(ENDINGS) and last not in NONE and not is_of_model


@lru_cache(4096)
def is_weak(name: str) -> bool:
    """Whether the word is also that of a result, a switch or a column, and nothing stands before it."""
    return len(words_of(name)) == 1 and words_of(name)[0] in {*WEAK, "token", "tokens", "cookies", "secrets", "pat"}
