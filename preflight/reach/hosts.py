"""Which hosts does HOSTS name, and how are their names folded back for people?"""

from __future__ import annotations

import dataclasses
import ipaddress
import itertools
import math
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from preflight.reach.host import Host
from preflight.reach.transport import written_for
from preflight.said import said
from preflight.said.errors import PreflightError, UsageError

HOST_LIMIT = 20_000
TEXT_LIMIT = 1 << 18
HOSTFILE_LIMIT_BYTES = 4 << 20
# RFC 1123, and the underscore that real clusters use; never a leading "-", which ssh would take as an option.
LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
ONE_NUMBER = re.compile(r"([^0-9]*)([0-9]{1,15})([^0-9]*)")
NAME = re.compile(rf"(?=.{{1,253}}\Z){LABEL}(?:\.{LABEL})*")
VISIBLE = re.compile(r"[!-~]{1,253}")
USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
ZONE = re.compile(r"[A-Za-z0-9_.-]{1,15}")
RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?:/([0-9]{1,9}))?)?")
# A path that a shell on the node reads as a single word.
PYTHON = re.compile(r"[A-Za-z0-9_./~][A-Za-z0-9_./~+@:-]{0,1023}")
LOCAL = "local"
# What a selector of labels goes on with after a comma, and no host's name has: "app=train,tier in (a,b)".
SELECTING = re.compile(r"!.*|.*[=()].*")


def parse_hosts(text: str) -> tuple[Host, ...]:
    """HOSTS as written -> the hosts in written order.

    Accepts ``local``, ``node[01-16],gpu7``, ``user@host:2222``, ``[fe80::1]:22`` and ``@hostfile`` (one host a
    line, ``slots=N`` and ``python=PATH`` after it, ``#`` comments); and ``NAME:REST`` of a transport of that name.

    Raises UsageError naming the culprit: an empty set, a duplicate, a name with characters no host has.
    """
    hosts: list[Host] = []
    for piece in _split(text, "--hosts"):
        if piece.startswith("@"):
            hosts.extend(_read_hostfile(piece[1:]))
        else:
            hosts.extend(_expand(piece, "--hosts"))
        if len(hosts) > HOST_LIMIT:
            raise UsageError(said("--hosts: {quoted} makes more than {HOST_LIMIT} hosts", _quoted(piece), HOST_LIMIT))
    if not hosts:
        raise UsageError(said("--hosts: {quoted} names no host", _quoted(text)))
    hosts = _with_ports_where_shared(hosts)
    seen: set[str] = set()
    for host in hosts:
        if host.name in seen:
            raise UsageError(said("--hosts: {name!r} is named twice", host.name))
        seen.add(host.name)
    if LOCAL in seen and len(hosts) > 1:
        raise UsageError("--hosts: 'local' must be the only host; name this machine like its peers")
    return tuple(hosts)


def fold(names: Iterable[str]) -> str:
    """Names as a person writes them: ``node[1-2],node7``, sorted; what is no plain name follows after commas."""
    return _fold(tuple(dict.fromkeys(names)))


@lru_cache(maxsize=512)  # many findings name the same sets of nodes, in every report
def _fold(given: tuple[str, ...]) -> str:
    plain = [name for name in given if NAME.fullmatch(name)]
    if len(plain) < 2:
        return ",".join(given)
    folded = _fold_numbers(plain) if len(plain) == len(given) else ""
    if folded:
        return folded
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet  # 30 ms to import: not for --help

    # Without a resolver of groups: looking one up would run commands of the site's configuration.
    folded = str(NodeSet.fromlist(plain, resolver=RESOLVER_NOGROUP))
    return ",".join([folded, *(name for name in given if not NAME.fullmatch(name))])


def _fold_numbers(names: list[str]) -> str:
    """As ClusterShell folds names that differ in one number, in a twentieth of its time; "" for all others."""
    found = [match for name in names if (match := ONE_NUMBER.fullmatch(name))]
    around = {(match[1], match[3]) for match in found}
    digits = [match[2] for match in found]
    if len(found) < len(names) or len(around) > 1:
        return ""
    widths = {len(one) for one in digits}
    if len(widths) > 1 and any(one[0] == "0" for one in digits):
        return ""
    width = max(widths) if len(widths) == 1 else 0
    ranges: list[list[int]] = []
    for number in sorted(map(int, digits)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    written = (f"{low:0{width}}" if low == high else f"{low:0{width}}-{high:0{width}}" for low, high in ranges)
    ((before, after),) = around
    return f"{before}[{','.join(written)}]{after}"


def _quoted(text: str) -> str:
    """The user's text for a message of one line: escaped, look-alike letters shown as such, and not endless."""
    return ascii(text if len(text) <= 80 else text[:80] + "...")


def _split(text: str, where: str) -> list[str]:
    """Commas outside brackets separate pieces."""
    if len(text) > TEXT_LIMIT:
        raise UsageError(
            said("{where}: {text} characters; wanted at most {TEXT_LIMIT}: use @hostfile", where, len(text), TEXT_LIMIT)
        )
    pieces: list[str] = []
    start = depth = 0
    for index, letter in enumerate(text):
        if letter == "," and not depth:
            pieces.append(text[start:index])
            start = index + 1
        elif letter in "[]":
            depth = int(letter == "[")
    pieces = [piece.strip(" ") for piece in (*pieces, text[start:])]
    if not any(pieces):
        return []
    if not all(pieces):
        raise UsageError(said("{where}: an empty name in {quoted}", where, _quoted(text)))
    return _with_selectors(pieces)


def _with_selectors(pieces: list[str]) -> list[str]:
    """The parts of a selector, which has commas of its own, put together again."""
    whole: list[str] = []
    for piece in pieces:
        open_list = bool(whole) and whole[-1].count("(") > whole[-1].count(")")
        if whole and ":" in whole[-1] and written_for(whole[-1]).form and (open_list or SELECTING.fullmatch(piece)):
            whole[-1] += f",{piece}"
        else:
            whole.append(piece)
    return whole


def _expand(piece: str, where: str) -> list[Host]:
    transport = written_for(piece)
    if transport.form:
        try:
            named = transport.named(piece.partition(":")[2])
        except ValueError as error:
            raise UsageError(said("{where}: {quoted}: {error}", where, _quoted(piece), error)) from None
        except OSError as error:
            raise PreflightError(f"{where}: {_quoted(piece)}: {error}") from None
        return [
            Host(
                name,
                found.address if found.address != found.name else name,
                transport=transport.name,
                trouble=found.trouble,
                is_remembered=found.is_remembered,
                engine=found.engine,
            )
            for found in named
            for name in (_names(found.name, where) if "[" in found.name else [_visible(found.name, where)])
        ]
    user, at, address = piece.rpartition("@")
    if at and not USER.fullmatch(user):
        raise UsageError(
            said("{where}: {quoted} is not a user name (in {quoted2})", where, _quoted(user), _quoted(piece))
        )
    address, port = _split_port(address, where)
    if address == LOCAL:
        raise UsageError(
            said(
                "{where}: {quoted}: 'local' is this machine without ssh and takes no user or port",
                where,
                _quoted(piece),
            )
        )
    return [Host(name, name, user or None, port) for name in _names(address, where)]


def _split_port(address: str, where: str) -> tuple[str, int | None]:
    bracketed = re.fullmatch(r"\[([^\[\]]*:[^\[\]]*)\](?::(.*))?", address)
    if bracketed:
        return bracketed[1], None if bracketed[2] is None else _port(bracketed[2], where)
    if address.count(":") > 1:  # a bare IPv6 address
        return address, None
    name, colon, digits = address.partition(":")
    return name, _port(digits, where) if colon else None


def _port(digits: str, where: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", digits) or not 1 <= int(digits) <= 65535:
        raise UsageError(said("{where}: {quoted} is not a port (1-65535)", where, _quoted(digits)))
    return int(digits)


def _names(address: str, where: str) -> list[str]:
    """The names of one piece, the rightmost range running fastest."""
    if ":" in address:
        return [_checked_ipv6(address, where)]
    parts = re.split(r"\[([^\[\]]*)\]", address)
    if len(parts) > 15:
        raise UsageError(said("{where}: {quoted} has more than 7 ranges", where, _quoted(address)))
    ranges = [list(_ranges(part, address, where)) for part in parts[1::2]]
    if math.prod(sum(len(numbers) for numbers, _ in each) for each in ranges) > HOST_LIMIT:
        raise UsageError(
            said("{where}: {quoted} names more than {HOST_LIMIT} hosts", where, _quoted(address), HOST_LIMIT)
        )
    choices = [[str(n).zfill(width) for numbers, width in each for n in numbers] for each in ranges]
    return [
        _checked(parts[0] + "".join(n + text for n, text in zip(picked, parts[2::2], strict=True)), where)
        for picked in itertools.product(*choices)
    ]


def _ranges(text: str, address: str, where: str) -> Iterable[tuple[range, int]]:
    """``1-3,07-09/2`` -> the numbers as ranges, each with its width, in written order."""
    for piece in text.split(","):
        match = RANGE.fullmatch(piece)
        if not match:
            raise UsageError(
                said(
                    "{where}: {quoted} is not a number or range (in {quoted2}){guess}",
                    where,
                    _quoted(piece),
                    _quoted(address),
                    _guess(address),
                )
            )
        first, last, step = match[1], match[2] or match[1], int(match[3] or 1)
        if int(first) > int(last) or step < 1:
            raise UsageError(
                said(
                    "{where}: {quoted} runs backwards or not at all (in {quoted2})",
                    where,
                    _quoted(piece),
                    _quoted(address),
                )
            )
        padded = any(len(number) > 1 and number.startswith("0") for number in (first, last))
        if padded and len(first) != len(last):
            raise UsageError(
                said(
                    "{where}: {quoted} is padded to two widths (in {quoted2})", where, _quoted(piece), _quoted(address)
                )
            )
        yield range(int(first), int(last) + 1, step), len(first) if padded else 1


def _visible(name: str, where: str) -> str:
    """A name that came from elsewhere, from an environment or a program: it is printed, and goes into commands."""
    if not VISIBLE.fullmatch(name):
        raise UsageError(said("{where}: {quoted} is not a host name", where, _quoted(name)))
    return name


def _checked(name: str, where: str) -> str:
    if not NAME.fullmatch(name):
        raise UsageError(said("{where}: {quoted} is not a host name{guess}", where, _quoted(name), _guess(name)))
    return name


# What people write between hosts, or between the ends of a range, instead of a comma and of [1-3].
BETWEEN = re.compile(r"[\s\uff0c\u3001\uff1b]+")
GUESSED_LETTERS = 300  # two names of hosts at most: looking for a range takes as long as the text squared
SPAN = re.compile(r"(.*?)[\[{(]?([0-9]+)(?:\.\.+|~)(?:\1)?([0-9]+)[\]})]?(.*)")


def _guess(name: str) -> str:
    """The words "did you mean" with what was probably meant; "" where that is not known."""
    if len(name) > GUESSED_LETTERS:
        return ""
    span = SPAN.fullmatch(name)
    meant = ",".join(filter(None, BETWEEN.split(name)))
    if span:
        meant = f"{span[1]}[{span[2]}-{span[3]}]{span[4]}"
    pieces = [re.sub(r"\[[0-9-]+\]", "0", piece) for piece in meant.split(",")]
    if meant == name or not all(map(NAME.fullmatch, pieces)):
        return ""
    return said("; did you mean '{meant}'?", meant)


def _checked_ipv6(address: str, where: str) -> str:
    bare, percent, zone = address.partition("%")
    try:
        ipaddress.IPv6Address(bare)
    except ValueError:
        raise UsageError(said("{where}: {quoted} is not a host name or address", where, _quoted(address))) from None
    if percent and not ZONE.fullmatch(zone):
        raise UsageError(
            said("{where}: {quoted} is not an interface (in {quoted2})", where, _quoted(zone), _quoted(address))
        )
    return address


def _with_ports_where_shared(hosts: list[Host]) -> list[Host]:
    """The port becomes part of the name where two hosts share the name and differ in the port."""
    ports: dict[str, set[int | None]] = {}
    for host in hosts:
        ports.setdefault(host.name, set()).add(host.port)
    return [
        dataclasses.replace(host, name=f"[{host.name}]:{host.port}" if ":" in host.name else f"{host.name}:{host.port}")
        if len(ports[host.name]) > 1 and host.port is not None
        else host
        for host in hosts
    ]


def _read_hostfile(name: str) -> list[Host]:
    path = Path(name)
    try:
        if not path.is_file():  # a FIFO would hang, a device never end
            raise UsageError(said("--hosts: {name!r} is not a file that can be read", name))
        with path.open("rb") as stream:
            data = stream.read(HOSTFILE_LIMIT_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(said("--hosts: {name!r} cannot be read: {reason}", name, reason)) from None
    if len(data) > HOSTFILE_LIMIT_BYTES:
        raise UsageError(
            said("--hosts: {name!r} has more than {HOSTFILE_LIMIT_BYTES} MiB", name, HOSTFILE_LIMIT_BYTES >> 20)
        )
    hosts: list[Host] = []
    for number, line in enumerate(text.split("\n"), start=1):
        words = re.split(r"[ \t\r]+", line.split("#", 1)[0].strip(" \t\r"))
        if words != [""]:
            hosts.extend(_hostfile_line(words, f"{name if name.isprintable() else repr(name)}:{number}"))
        if len(hosts) > HOST_LIMIT:
            raise UsageError(said("--hosts: {name!r} names more than {HOST_LIMIT} hosts", name, HOST_LIMIT))
    if not hosts:
        raise UsageError(said("--hosts: {name!r} names no host", name))
    return hosts


def _hostfile_line(words: list[str], where: str) -> list[Host]:
    slots: int | None = None
    python: str | None = None
    for word in words[1:]:
        key, _, value = word.partition("=")
        if key == "slots" and slots is None and re.fullmatch(r"[0-9]{1,4}", value) and int(value) > 0:
            slots = int(value)
        elif key == "python" and python is None and PYTHON.fullmatch(value):
            python = value
        else:
            raise UsageError(said("{where}: {quoted} is not slots=N or python=PATH, each once", where, _quoted(word)))
    if words[0] == LOCAL or words[0].startswith("@"):
        raise UsageError(said("{where}: {quoted} has no place in a hostfile", where, _quoted(words[0])))
    return [
        dataclasses.replace(host, slots=slots, python=python)
        for piece in _split(words[0], where)
        for host in _expand(piece, where)
    ]
