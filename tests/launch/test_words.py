"""Does every option, wrapper and variable that is known count where it stands in a line, as tests/data/words.txt says?

A section is a line with a place for a word, what is read of it, and the words for which that is so: behind "=" what is
read otherwise of a word that nobody knows, behind "~" what any word would do there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache

import pytest

from preflight.launch.commands import PASSING, TALK
from preflight.launch.containers import FLAGS
from preflight.launch.field import value_of
from preflight.launch.launchers import slurm, torchrun, trainers
from preflight.launch.launchers.accelerate import command as accelerate
from preflight.launch.launchers.accelerate import file as accelerate_file
from preflight.launch.launchers.accelerate import schema as accelerate_schema
from preflight.launch.launchers.deepspeed import command as deepspeed
from preflight.launch.launchers.deepspeed import schema as deepspeed_schema
from preflight.launch.launchers.mpirun import options as mpirun
from preflight.launch.launchers.ray import command as ray
from preflight.launch.plan import STARTS_ALL, LaunchFiles
from preflight.launch.read import read_texts
from preflight.launch.reading import unset
from preflight.launch.reading.bare import FOREIGN
from preflight.launch.rules.addresses import NO_ADDRESS
from preflight.launch.rules.check import judge
from preflight.launch.text.options import Spec
from tests.house import ROOT

FILE = ROOT / "tests" / "data" / "words.txt"
EXPECTED: dict[str, Callable[[LaunchFiles, Callable[[], Collection[str]]], bool]] = {
    "the program is train.py": lambda files, _: [value_of(plan.program) for plan in files.plans] == ["train.py"],
    "no option is unknown": lambda _, told: "launch.options_are_known" not in told(),
    "the key is known": lambda _, told: "launch.keys_are_known" not in told(),
    "the value is allowed": lambda _, told: "launch.values_are_allowed" not in told(),
    "it is no address": lambda _, told: "launch.master_address_is_an_address" in told(),
    "the port is 7001": lambda files, _: [value_of(plan.master_port) for plan in files.plans] == [7001],
    "the world is of 2": lambda files, _: [value_of(plan.world_size) for plan in files.plans] == [2],
    "the step is of 7 nodes": lambda _, told: "launch.slurm_nodes_fit_the_job" in told(),
    "the container has the network of the host": lambda _, told: "launch.containers_share_the_network" not in told(),
    "the launcher counts its nodes": lambda files, _: [value_of(plan.nodes) for plan in files.plans] == [1],
    "all nodes are started": lambda files, _: [plan.is_whole for plan in files.plans] == [True],
    "nothing starts": lambda files, _: not files.plans,
    "nothing is unset": lambda files, _: [plan.unset for plan in files.plans] == [()],
    "it is unset": lambda files, _: [len(plan.unset) for plan in files.plans] == [1],
    "another tool starts it": lambda files, _: (
        [skip.reason.endswith("starts here is not read") for skip in files.skips] == [True]
    ),
}


def holds(form: str, expected: str, word: str) -> bool:
    """Is that read of a script of this line, or of the file named before it, with the word in its place?"""
    name, is_named, text = form.rpartition(" | ")
    text = text.replace("{}", word).replace("\\n", "\n")
    texts = {name: f"{text}\n"} if is_named else {"run.sh": f"#!/bin/bash\n{text}\n"}
    files = read_texts(texts)
    return EXPECTED[expected](files, lambda: {one.check for one in judge(files, None)})


def sections() -> Iterator[tuple[str, str, list[str]]]:
    """Line, what is read of it with its mark, and words."""
    for part in FILE.read_text(encoding="utf-8").split("%% ")[1:]:
        form, expected, *lines = part.splitlines()
        yield form, expected, " ".join(lines).split()


@cache
def listed() -> frozenset[str]:
    """All words that stand in a section, options by their names."""
    return frozenset(word.lstrip("-") for _, _, words in sections() for word in words)


@pytest.mark.parametrize(
    ("form", "expected", "words"), list(sections()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_word_of_a_section_is_read_as_it_says(form, expected, words):
    """An option takes its value and no more, a wrapper leaves the start behind it, a variable is somebody's."""
    mark, _, what = expected.partition(" ")
    assert [word for word in words if not holds(form, what, word)] == []
    stranger = "-" * (len(words[0]) - len(words[0].lstrip("-"))) + "zzz"
    assert holds(form, what, stranger) is (mark == "~")


def of(spec: Spec) -> tuple[str, ...]:
    """The options of a tool."""
    return (*spec.valued, *spec.flags)


@pytest.mark.parametrize(
    "table",
    [
        *map(of, (torchrun.SPEC, accelerate.SPEC, deepspeed.SPEC, slurm.SRUN_OPTIONS, ray.START, ray.SUBMIT)),
        *map(of, (trainers.OF_COMPOSER, trainers.OF_FABRIC, trainers.OF_COLOSSALAI)),
        *(
            mpirun.PROGRAMS,
            torchrun.TORCHRUN.modules,
            STARTS_ALL,
            mpirun.ONE,
            mpirun.TWO,
            mpirun.HOSTS,
            mpirun.HOSTFILES,
            mpirun.EACH,
            FLAGS,
            PASSING,
            TALK,
            FOREIGN,
        ),
        *(unset.EVERYWHERE, unset.GRID_ENGINE, NO_ADDRESS, accelerate_file.KEYS, accelerate_file.TYPES),
        *(deepspeed_schema.KEYS, deepspeed_schema.ZERO_KEYS),
        *accelerate_schema.ALLOWED.values(),
        *accelerate_schema.OF_VERSION_2.values(),
        *(tuple(f"{head}_{name}" for name in names) for head, names in unset.EXACT.items()),
    ],
    ids=lambda table: " ".join(sorted(table))[:40],
)
def test_a_new_word_of_a_table_has_its_line(table):
    """But for those that end the command or change what its program is, which the tests of their tools name."""
    assert {word.lstrip("-") for word in table} - listed() <= ELSEWHERE


ELSEWHERE = frozenset(["[", "command"])
