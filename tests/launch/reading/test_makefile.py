"""Are the recipes of a Makefile judged as what make runs, line by line?"""

from __future__ import annotations

import pytest

from preflight.launch.read import read_texts
from preflight.launch.reading.makefile import as_script, is_makefile, of_each_target
from preflight.launch.reading.scripts import TARGETS_LIMIT
from preflight.launch.rules.check import check_texts

RECIPE = """\
RANK = ${r}
PORT ?= 29500
ADDRESS := %s

ifdef np
  N_PROCS = ${np}
else
  N_PROCS = 1
endif

all: data
\t@echo "$$(hostname)"
\t-torchrun --nnodes=2 --nproc_per_node=${N_PROCS} --node_rank=$(RANK) \\
\t\t--master_addr=$(ADDRESS) --master_port=$(PORT) train.py
"""


def test_make_reads_files_of_these_names():
    """As make looks for them, and what is included."""
    assert all(
        map(is_makefile, ("Makefile", "makefile", "a/GNUmakefile", "train.mk", "Makefile.gpu", "ray-Makefile-old"))
    )
    assert not any(map(is_makefile, ("make.sh", "job.sbatch", "Makefiles/run.sh")))


def test_lines_stay_where_they_are_and_what_make_alone_knows_is_left_out():
    """A finding names the line of the Makefile; a branch, a target and make's own functions are no shell."""
    lines = as_script(RECIPE % "10.0.0.1").split("\n")
    assert len(lines) == RECIPE.count("\n") + 1
    assert lines[1:3] == ["PORT=${PORT:-29500}", "ADDRESS=10.0.0.1"]
    assert lines[4:9] == [""] * 5
    assert lines[10:12] == ["", 'echo "$(hostname)"']
    assert lines[12] == "torchrun --nnodes=2 --nproc_per_node=${N_PROCS} --node_rank=${RANK} \\"
    assert as_script("HEAD = $(shell hostname)") == ""


def test_a_good_makefile_is_silent_and_a_wrong_one_is_told():
    """As the same command in a script."""
    assert [found.check for found in check_texts({"Makefile": RECIPE % "10.0.0.1"})[0] if found.verdict == "fail"] == []
    told = check_texts({"Makefile": RECIPE % "127.0.0.1"})[0]
    assert [found.check for found in told] == ["launch.master_address_leads_to_rank_0"]
    assert {place.line for place in told[0].where} == {3, 13}


TARGETS = """\
IP ?= 10.0.0.1
head:
\tray start --head --port=6379 \\
\t\t--block
worker: data
\tray start --address=$(IP):6379 --block
first:
\ttorchrun --nnodes=2 --node_rank=0 --nproc_per_node=8 --master_addr=$(IP) --master_port=29500 t.py
second:
\ttorchrun --nnodes=2 --node_rank=1 --nproc_per_node=8 --master_addr=$(IP) --master_port={port} t.py
"""


def test_each_target_is_a_script_of_its_own():
    """make runs the one that it is asked for: no command waits for that of another target; as nodes they agree."""
    text = TARGETS.format(port=29500)
    parts = of_each_target(text, as_script(text), 9)
    assert [[number for number, line in enumerate(part.split("\n"), 1) if line] for part in parts] == [
        [1, 3, 4], [1, 6], [1, 8], [1, 10]
    ]  # fmt: skip
    assert check_texts({"Makefile": text})[0] == ()
    told = check_texts({"Makefile": TARGETS.format(port=29501)})[0]
    assert [found.check for found in told] == ["launch.fields_agree"]
    in_one = text.replace("worker: data\n", "")
    assert "launch.every_node_is_started" in [found.check for found in check_texts({"Makefile": in_one})[0]]


def test_a_target_without_a_launcher_is_not_told_beside_one_that_starts_a_job():
    """A Makefile cleans up and fetches data too; alone, such targets leave nothing judged."""
    clean = "clean:\n\trm -rf out\n"
    assert not check_texts({"Makefile": f"train:\n\ttorchrun --nproc_per_node=4 train.py\n{clean}"})[0]
    assert [one.check for one in check_texts({"Makefile": clean})[0]] == ["launch.file_is_judged"]


@pytest.mark.parametrize(("name", "first"), [("Makefile", ""), ("justfile", "x := 'a'\n")])
def test_so_many_targets_are_read_and_the_rest_is_said_to_be_unread(name, first):
    """Each is a script of its own, as long as the whole file."""
    some = [f"r{number}:\n\ttorchrun --standalone t.py\n" for number in range(TARGETS_LIMIT)]
    read = read_texts({name: first + "".join(some)})
    assert (len(read.plans), read.skips) == (TARGETS_LIMIT, ())
    read = read_texts({name: first + "".join(some) + "last:\n\ttorchrun --nnodes=0 t.py\n"})
    assert len(read.plans) == TARGETS_LIMIT
    assert f"its first {TARGETS_LIMIT} targets" in " ".join(skip.reason for skip in read.skips)
