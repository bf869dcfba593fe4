"""Which script starts on which node, with which words, and which of its programs is the one that is exchanged?"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from preflight.launch.field import Sourced, firm
from preflight.launch.plan import LaunchFiles, Plan
from preflight.launch.read import read_files
from preflight.launch.reading.bundle import expanded, read_file
from preflight.said import said
from preflight.said.errors import UsageError

SHEBANG = re.compile(r"#!\s*(\S.*?)\s*$")
BATCH = re.compile(r"^#SBATCH\b", re.MULTILINE)
OF_SHELLS = ("bash", "sh", "dash", "zsh", "ksh")


@dataclass(frozen=True)
class Script:
    """A script as its user starts it: by which program, under which path, with which words after it."""

    name: str  # as it was given
    path: str
    text: str
    shell: tuple[str, ...]
    words: tuple[str, ...] = ()

    @property
    def is_batch(self) -> bool:
        """Whether it is written for sbatch."""
        return bool(BATCH.search(self.text))


# Programs that change something outside of the job, at the beginning of a command.
WRITES = re.compile(
    r"(?:^|[;&|(]|\bthen\b|\bdo\b|\bsudo\b)\s*"
    r"(rm|mv|cp|ln|mkdir|chmod|chown|dd|tar|unzip|rsync|scp|git|pip3?|conda|mamba|uv|apt|apt-get|yum|dnf|npm|make"
    r"|aws|gsutil|gcloud|az|rclone|s3cmd|wandb|huggingface-cli|hf|modelscope|curl|wget|docker|kubectl|systemctl"
    r"|sysctl|ulimit|mount|umount|kill|pkill|killall|reboot|python[0-9.]*\s+-m\s+pip)\b"
)


def writing_lines(script: Script) -> tuple[tuple[int, str], ...]:
    """The lines of a script whose commands change something outside of it, as far as reading tells."""
    lines = enumerate(script.text.splitlines(), 1)
    return tuple((number, line.strip()) for number, line in lines if WRITES.search(line.partition(" #")[0]))


@dataclass(frozen=True)
class Cast:
    """The script of each node that starts one, in HOSTS order, and what their files say that they start."""

    scripts: Mapping[str, Script]
    nodes: tuple[str, ...]  # all of them, those too on which the ranks are started from another node
    plans: tuple[Plan, ...] = ()

    @property
    def programs(self) -> tuple[str, ...]:
        """The names of the programs that are ranks; () where a start does not tell its own."""
        named = [plan.program for plan in self.plans]
        if not named or not all(isinstance(program, Sourced) for program in named):
            return ()
        names = (program.value for program in named if isinstance(program, Sourced))
        return tuple(dict.fromkeys(name.rpartition("/")[2] for name in names))

    @property
    def ranks(self) -> int:
        """How many ranks the files promise, all together; 0 where they leave it open."""
        worlds = {_world(plan) for plan in self.plans}
        return worlds.pop() if len(worlds) == 1 else 0

    def where(self, node: str, line: int) -> str:
        """A line of the script of a node, as people name it."""
        return f"{self.scripts[node].name}:{line}"


def _world(plan: Plan) -> int:
    nodes, each = firm(plan.nodes), firm(plan.processes_per_node)
    return firm(plan.world_size) or ((nodes or 0) * (each or 0))


def scripts_of(given: Sequence[str]) -> tuple[Script, ...]:
    """The scripts that the words of the command line name, each a file or a file and its words: 'run.sh 0'."""
    found: list[Script] = []
    for each in given:
        if os.path.isfile(each) or any(letter in each for letter in "*?["):
            found += [_script(name, ()) for name in expanded([each])]
            continue
        try:
            first, *words = shlex.split(each) or [each]
        except ValueError as error:
            raise UsageError(said("rehearse: {each!r}: {error}", each, error)) from None
        found.append(_script(first, tuple(words)))
    return tuple(found)


def _script(name: str, words: tuple[str, ...]) -> Script:
    text = read_file(name)
    first = SHEBANG.match(text.split("\n", 1)[0])
    program = shlex.split(first[1]) if first else ["bash"]
    names = [os.path.basename(word) for word in program]
    is_shell = bool({*names} & {*OF_SHELLS})
    # `bash run.sh` is what people type; only what is submitted, or no shell script, is started by its first line.
    by_hand = ("zsh",) if "zsh" in names else ("bash",)
    shell = by_hand if is_shell and not BATCH.search(text) else tuple(program)
    return Script(name, str(Path(name).absolute()), text, shell, words)


def read_scripts(scripts: Sequence[Script]) -> LaunchFiles:
    """What the scripts say; nothing where they are of a kind that cannot be read: they are run all the same."""
    try:
        return read_files(dict.fromkeys(script.name for script in scripts))
    except UsageError:
        return LaunchFiles()


def cast(scripts: Sequence[Script], files: LaunchFiles, nodes: Sequence[str]) -> Cast:
    """Which node starts which script. UsageError where their numbers do not fit."""
    if len(scripts) == 1:
        starts_all = scripts[0].is_batch or any(_starts_all(plan) for plan in files.plans)
        starting = nodes[:1] if starts_all else nodes
        return Cast(dict.fromkeys(starting, scripts[0]), tuple(nodes), files.plans)
    if len(scripts) != len(nodes):
        raise UsageError(
            said(
                "rehearse: {scripts} files for {nodes} nodes: give one for all, or one for each",
                len(scripts),
                len(nodes),
            )
        )
    return Cast(dict(zip(nodes, scripts, strict=True)), tuple(nodes), files.plans)


def _starts_all(plan: Plan) -> bool:
    """Whether one run of the script starts the ranks of all nodes."""
    return plan.is_whole or plan.start == "all nodes"
