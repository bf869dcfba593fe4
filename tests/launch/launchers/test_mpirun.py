"""Is a command behind mpirun read as one start for all nodes, and left to mpirun?"""

from __future__ import annotations

import pytest

from preflight.launch.read import read_texts
from preflight.launch.start import starting_of
from tests.launch.plans import launch


@pytest.mark.parametrize("program", ["mpirun", "mpiexec", "/usr/lib/openmpi/bin/mpirun"])
def test_a_python_behind_it_is_a_start_of_all_nodes(program):
    """With the variables of the job around it."""
    text = f"export MASTER_ADDR=n1 MASTER_PORT=29500\n{program} -np 4 python t.py\n"
    assert launch(text)["launcher"] == "mpirun"


@pytest.mark.parametrize("command", ["python t.py", "torchrun --nnodes 2 t.py"])
def test_what_it_starts_is_not_started_here(command):
    """Neither a python nor another launcher."""
    found = starting_of(read_texts({"n.sh": f"export MASTER_ADDR=n1 MASTER_PORT=29500\nmpirun -np 2 {command}\n"}))
    assert (found.starts, found.refusal) == ((), "n.sh:2: mpirun starts it")
