"""What do the words of mpirun say, of Open MPI or Hydra: how many processes, where, and with which variables?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from preflight.judge.ledger.findings import Finding
from preflight.launch.field import Field, Sourced, value_of, whole, words
from preflight.launch.plan import Hostfile, fail
from preflight.launch.text.options import Reader, product
from preflight.launch.text.shell import Word
from preflight.launch.traits import Counts
from preflight.said import said

PROGRAMS = words("mpirun mpiexec mpiexec.hydra mpirun_rsh orterun prterun mpirun.openmpi mpirun.mpich")
COUNT = words("np n c")
HOSTS = words("H host hosts")
HOSTFILES = words("hostfile machinefile f default-hostfile machine machines")
EACH = words("N npernode ppn perhost pernode-count grr")
TWO = words("mca gmca prtemca pmixmca omca env genv tune-pair")
ONE = words(
    """
    x envlist genvlist wdir wd path prefix map-by rank-by bind-to rf rankfile launch-agent report-uri output-filename
    output timeout app am tune report-state-on-timeout max-restarts display mca-base-env-list iface rmk launcher
    bootstrap bootstrap-exec configfile print-rank-map outfile-pattern errfile-pattern stdin personality ompi-server
    server-wait-time cpu-list cpu-set xterm npersocket hosts-group
    """
)
PALS = words("cpu-bind mem-bind gpu-bind depth")
HYDRA_WORDS = frozenset(
    words("ppn perhost genv genvall genvlist genvnone hosts f iface rmk bootstrap launcher env envall")
)
PER_NODE = re.compile(r"ppr:(\d{1,5}):node")


@dataclass
class Given:
    """The words of mpirun up to the program: numbers, hosts with their slots, and variables that are handed on."""

    one: dict[str, Word] = field(default_factory=dict)
    forwards: dict[str, Word | None] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    rest: tuple[Word, ...] = ()

    def first(self, names: Iterable[str]) -> Word | None:
        """The first of these options that is there."""
        return next((self.one[name] for name in names if name in self.one), None)

    @property
    def is_hydra(self) -> bool:
        """Whether an option is Hydra's alone; it hands every variable on by itself."""
        return bool(HYDRA_WORDS & (self.one.keys() | self.flags))


def parse(given: tuple[Word, ...]) -> Given:
    """Options of Open MPI and Hydra, with one dash or two; the rest begins with the program."""
    found = Given()
    place = 0
    while place < len(given):
        word = given[place]
        name, equals, _ = word.plain.lstrip("-").partition("=")
        if re.fullmatch(r"[A-Z_][A-Z0-9_]*=.*", word.plain, re.DOTALL):  # mpirun_rsh, or behind `env`
            found.forwards[name] = Word(word.text.partition("=")[2], word.line)
        elif not word.plain.startswith("-") and word.plain != "env":
            break
        elif name in TWO:
            key = given[place + 1] if place + 1 < len(given) else word
            last = given[place + 2] if place + 2 < len(given) else key
            variable, is_one, _ = key.plain.partition("=")
            if name in ("genv", "env"):  # Hydra's name and value are two words, PALS's are one
                found.forwards[variable] = Word(key.text.partition("=")[2], key.line) if is_one else last
            place += 1 if is_one and name in ("genv", "env") else 2
        elif name in (*COUNT, *HOSTS, *HOSTFILES, *EACH, *ONE, *PALS) and word.plain.startswith("-"):
            held = Word(word.text.partition("=")[2], word.line) if equals else word
            if not equals:
                place += 1
                held = given[place] if place < len(given) else word
            _take(found, name, held)
        elif word.plain == "-d" and place + 1 < len(given) and given[place + 1].plain.isdigit():
            place += 1  # PALS: CPUs of a rank; Open MPI's -d stands alone
        else:
            found.flags.add(name)
        place += 1
    found.rest = given[place:]
    return found


def _take(found: Given, name: str, held: Word) -> None:
    if name == "x":
        variable, equals, _ = held.plain.partition("=")
        found.forwards[variable] = Word(held.text.partition("=")[2], held.line) if equals else None
    elif name in ("genvlist", "envlist"):
        found.forwards.update(dict.fromkeys(held.plain.split(",")))
    elif name == "map-by" and (match := PER_NODE.search(held.plain)):
        found.one["N"] = Word(match[1], held.line)
    else:
        found.one[name] = held


def counts(reader: Reader, given: Given) -> Counts:
    """How many nodes mpirun starts how many processes on, as far as its options and hostfile tell."""
    world, each = reader.number_of(given.first(COUNT), "-np"), reader.number_of(given.first(EACH), "-N")
    hosts = _listed(reader, given.first(HOSTS)) or _of_hostfile(reader, given.first(HOSTFILES))
    if "pernode" in given.flags and each is None:
        each = Sourced(1, reader.where.file, reader.where.line)
    nodes: Field[int] = None
    place = given.first((*HOSTS, *HOSTFILES))
    if hosts and place is not None:
        nodes = Sourced(len(hosts), reader.where.file, place.line)
        slots = set(hosts.values())
        if each is None and len(slots) == 1 and None not in slots:
            each = Sourced(max(filter(None, slots), default=1), reader.where.file, place.line)
        if each is None and len(slots) > 1 and None not in slots:
            reader.problems.extend(_unequal(given, world, hosts))
    if nodes is None and reader.slurm is not None:  # Open MPI and Hydra take the hosts of the allocation
        nodes = reader.slurm.number("nodes")
    nodes = nodes if nodes is not None else _divided(world, each)
    each = each if each is not None else _divided(world, nodes)
    return Counts(nodes, each, world if world is not None else product(nodes, each))


def _unequal(given: Given, world: Field[int], hosts: dict[str, int | None]) -> list[Finding]:
    """Hosts with different numbers of slots: together they have one for each process, or Open MPI refuses to start."""
    slots = sum(count or 0 for count in hosts.values())
    free = given.is_hydra or (given.flags | given.one.keys()) & {"oversubscribe", "map-by", *EACH}
    if not isinstance(world, Sourced) or world.value <= slots or free:
        return []
    message = said(
        "-np {value} on {hosts} host{s} with {slots} slot{s2}: Open MPI refuses to start",
        world.value,
        len(hosts),
        "s" * (len(hosts) != 1),
        slots,
        "s" * (slots != 1),
    )
    return [fail("mpi_slots_are_enough", message, world.where, fix=f"-np {slots}")]


def _divided(whole: Field[int], part: Field[int]) -> Field[int]:
    if not isinstance(whole, Sourced) or not isinstance(part, Sourced) or not part.value or whole.value % part.value:
        return None
    return Sourced(whole.value // part.value, whole.file, whole.line, whole.origin)


def _listed(reader: Reader, word: Word | None) -> dict[str, int | None]:
    """``a:8,b:8`` -> the hosts with their slots; empty where the list is not known."""
    found = reader.text(word)
    if not isinstance(found, Sourced):
        return {}
    hosts: dict[str, int | None] = {}
    for piece in found.value.split(","):
        name, _, slots = piece.partition(":")
        if name:
            count = whole(slots)
            # Without slots a host has one for each time it is listed.
            again = (hosts[name] or 1) + 1 if name in hosts else None
            hosts[name] = again if count is None else count
    return hosts


def _of_hostfile(reader: Reader, word: Word | None) -> dict[str, int | None]:
    held: Hostfile | None = reader.hostfiles.get(word.plain) if word is not None else None
    return {host.name: value_of(host.slots) for host in held.hosts} if held is not None else {}
