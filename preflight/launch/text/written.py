"""What does a script write into files itself, as far as its text tells, and in which of its lines?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from preflight.launch.text.marks import is_firm, plain

LINES_LIMIT = 4096  # of one file
# What prints nothing, whatever it is given.
SILENT = frozenset(
    [
        *("true", ":", "test", "[", "[[", "cd", "pushd", "popd", "export", "local", "declare", "set", "unset", "read"),
        *("shift", "let", "trap", "ulimit", "source", ".", "wait", "kill", "rm", "mkdir", "touch", "mv", "cp", "chmod"),
        *("chown", "sleep"),
    ]
)
# What leaves a file that it is given as it is; any other program may write into it.
READING = frozenset(
    [
        *("cat", "head", "tail", "wc", "grep", "cut", "diff", "cmp", "ls", "stat", "echo", "printf", "test", "[", "[["),
        *("touch", "mkdir", "sync", "dirname", "basename", "realpath", "readlink", "md5sum", "sha256sum", "nl"),
        *("export", "local", "declare", "read", "mapfile", "readarray", "chmod", "chown", "scp", "ssh", "source", "."),
        *("deepspeed", "ds", "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "horovodrun", "colossalai"),
        *(
            "torchrun",
            "accelerate",
            "srun",
            "pdsh",
            "pssh",
            "parallel-ssh",
            "parallel-scp",
            "clush",
            "deepspeed.launcher.runner",
        ),
    ]
)
ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}
ESCAPE = re.compile(r"\\(.)", re.DOTALL)
FORMAT = re.compile(r"%(?:%|s|d|i)|%.")
TURNS_LIMIT = 512  # of a format over its arguments


@dataclass
class Written:
    """A file that the script writes: pieces of its text, each with its line in the script, as long as all are known."""

    pieces: list[tuple[str, int]] = field(default_factory=list)
    is_known: bool = True

    @property
    def lines(self) -> list[tuple[str, int]]:
        """Each line, and where the script writes its beginning."""
        found: list[tuple[str, int]] = []
        begun = ""
        for text, number in self.pieces:
            first, *others = text.split("\n")
            place = number if not begun or not found else found[-1][1]
            if begun:
                found[-1] = (found[-1][0] + first, place)
            else:
                found.append((first, number))
            found.extend((one, number + after) for after, one in enumerate(others, 1))
            begun = found[-1][0]
            if not begun:
                found.pop()
        return found[:LINES_LIMIT]


@dataclass
class Files:
    """All of them, by their names; `sink` takes what is printed while the output of commands goes into one."""

    held: dict[str, Written] = field(default_factory=dict)
    sink: Written | None = None
    unsure: int = 0  # more than 0 in what may run any number of times

    def text_of(self, path: str) -> str | None:
        """The whole text of a file, where all of it is known."""
        found = self.known(path)
        return None if found is None else "\n".join(text for text, _ in found.lines)

    def known(self, path: str) -> Written | None:
        """A file of which all lines are known."""
        found = self.held.get(named(path))
        return found if found is not None and found.is_known and found.pieces else None

    def forget(self) -> None:
        """The walk ends before the script does: what else is written is not known."""
        for one in [*self.held.values(), *([self.sink] if self.sink is not None else [])]:
            one.is_known = False
        self.unsure += 1

    def begin(self, path: str, *, surely: bool = True) -> None:
        """It is emptied or removed."""
        before = self.held.get(named(path))
        if before is None or not before.pieces or surely:
            self.held[named(path)] = Written(is_known=before is None or before.is_known)
        else:
            before.is_known = False

    def take(self, path: str, given: Written, *, appends: bool, surely: bool) -> None:
        """What was printed goes into a file; one that is begun twice is not the same for all that read it."""
        before = self.held.get(named(path))
        is_known = given.is_known and surely and not self.unsure
        if appends:
            one = self.held.setdefault(named(path), Written())
            one.pieces.extend(given.pieces)
            one.is_known = one.is_known and is_known
        else:
            is_first = before is None or not before.pieces
            self.held[named(path)] = Written(list(given.pieces), is_known and is_first)

    @contextmanager
    def caught(self) -> Iterator[Written]:
        """What commands print, in place of what they printed into before."""
        outer, caught = self.sink, Written()
        self.sink = caught
        try:
            yield caught
        finally:
            self.sink = outer

    @contextmanager
    def in_unknown_turns(self, *, holds: bool = True) -> Iterator[None]:
        """A body that may run any number of times: what it prints is not known."""
        if holds and self.sink is not None:
            self.sink.is_known = False
        self.unsure += holds
        try:
            yield
        finally:
            self.unsure -= holds

    def hear(self, name: str, given: Sequence[str], line: int, *, surely: bool) -> None:
        """A command that runs: what it prints, and what it does to files that were written."""
        if name == "rm":
            for word in given:
                if is_firm(word) and not plain(word).startswith("-"):
                    self.begin(plain(word), surely=surely)
        elif name in ("cd", "pushd", "popd"):  # from there the same name is another file
            for path, one in self.held.items():
                one.is_known = one.is_known and path.startswith("/")
        elif READING.isdisjoint(plain(word).rpartition("/")[2] for word in (name, *given)):
            for word in given:
                for part in {plain(word), plain(word).rpartition("=")[2]}:
                    if (changed := self.held.get(named(part))) is not None:
                        changed.is_known = False
        if self.sink is None or name in SILENT:
            return
        text = printed(name, given)
        if text is None or not surely:
            self.sink.is_known = False
        elif len(self.sink.pieces) < LINES_LIMIT:
            self.sink.pieces.append((text, line))
        else:
            self.sink.is_known = False


def named(path: str) -> str:
    """A path as it is remembered."""
    return path.removeprefix("./")


def printed(name: str, given: Sequence[str]) -> str | None:
    """What ``echo`` or ``printf`` prints; None where it is not known, and for any other command."""
    if not all(map(is_firm, given)):
        return None
    texts = [plain(word) for word in given]
    if name == "echo":
        options = set()
        while texts and re.fullmatch(r"-[neE]+", texts[0]):
            options |= set(texts.pop(0)[1:])
        text = " ".join(texts)
        return (_unescaped(text) if "e" in options else text) + ("" if "n" in options else "\n")
    return _formatted(texts) if name == "printf" and texts else None


def _unescaped(text: str) -> str:
    return ESCAPE.sub(lambda found: ESCAPES.get(found[1], found[0]), text)


def _formatted(texts: list[str]) -> str | None:
    form, *given = texts if texts[0] != "--" else texts[1:] or [""]
    wants = [found[0] for found in FORMAT.finditer(form)]
    if form == "-v" or any(one not in ("%%", "%s", "%d", "%i") for one in wants):
        return None
    count = len(wants) - wants.count("%%")
    turns = max(1, -(-len(given) // count)) if count else 1
    if turns > TURNS_LIMIT:
        return None
    values: Iterable[str] = iter([*given, *[""] * (turns * count - len(given))])
    take = iter(values)
    return "".join(
        FORMAT.sub(lambda found: "%" if found[0] == "%%" else next(take), _unescaped(form)) for _ in range(turns)
    )
