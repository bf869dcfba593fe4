"""Which hosts does this machine know by name, and which of them was meant by one that does not resolve?"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from glob import glob

from preflight.said import knowing, said, values_in

HOSTS = "/etc/hosts"
CONFIGS = ("~/.ssh/config", "/etc/ssh/ssh_config", "/etc/ssh/ssh_config.d/*.conf")
UNRESOLVED = "Could not resolve hostname"  # what ssh says
ALIKE = 0.8  # of the letters of two names


def names(hosts: str = HOSTS, configs: Iterable[str] = CONFIGS) -> tuple[str, ...]:
    """The names in the hosts file, and those after Host in the configurations of ssh; patterns are no names."""
    found: dict[str, None] = {}
    for line in _lines(hosts):
        found.update(dict.fromkeys(line.split()[1:]))
    for pattern in configs:
        for path in sorted(glob(os.path.expanduser(pattern))):
            rows = (line.replace("=", " ", 1).split() for line in _lines(path))
            found.update(dict.fromkeys(word for row in rows if row[:1] in (["Host"], ["host"]) for word in row[1:]))
    return tuple(name for name in found if not set("*?!\"'") & set(name))


def explained(failures: Mapping[str, str], hosts: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    """The failures, those of names that do not resolve with the name of a host that was probably meant.

    A host that the run has already is not meant, and neither is one of several that are as near.
    """
    others = sorted({*known} - {*hosts})
    reported = dict(failures)
    for name, reason in failures.items():
        if UNRESOLVED in values_in(reason, "sign") and not any(values_in(reason, "jump")):
            found = difflib.get_close_matches(name, others, n=2, cutoff=ALIKE)
            if found and (len(found) == 1 or _nearness(name, found[0]) > _nearness(name, found[1])):
                reported[name] = knowing(said("{reason}; did you mean {meant}?", reason, found[0]), meant_host=found[0])
    return reported


def _nearness(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, other, name).ratio()


def _lines(path: str) -> list[str]:
    """The lines of a file without comments; none of one that cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return [line.partition("#")[0].strip() for line in stream]
    except OSError:
        return []
