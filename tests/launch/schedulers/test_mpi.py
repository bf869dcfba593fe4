"""Are the hosts and slots of mpirun held against what the job in it counts on?"""

from __future__ import annotations

import pytest

from preflight.launch.read import read_texts
from preflight.launch.schedulers.mpi import horovodruns
from tests.launch.samples import failed, rules

START = "export MASTER_ADDR={} MASTER_PORT=29500\nmpirun -np {} {} -x MASTER_ADDR -x MASTER_PORT python t.py\n"


@pytest.mark.parametrize(
    ("address", "verdicts"),
    [
        ("n1", []),
        ("n2", ["master_address_is_rank_0s"]),
        ("n1.cluster.local", []),
        ("10.0.0.7", []),
    ],
)
def test_rank_0_is_on_the_first_host(address, verdicts):
    """Another host of the list is wrong; a longer name or a number may be the first one's."""
    assert failed({"go.sh": START.format(address, 16, "-H n1:8,n2:8")}) == verdicts


def test_a_host_that_is_not_in_the_list_is_told():
    """It may be another name of the first one, and most likely is not."""
    assert rules({"go.sh": START.format("n7", 16, "-H n1:8,n2:8")}) == ["master_address_is_rank_0s"]
    assert rules({"go.sh": START.format("n7", 16, "-H n1:8,n2:8 --rankfile r")}) == []


@pytest.mark.parametrize(
    ("count", "given", "is_refused"),
    [
        (16, "-H n1:8,n2:8 --map-by ppr:8:node", False),
        (24, "-H n1:8,n2:8 --map-by ppr:8:node", True),
        (24, "-H n1:8,n2:8 -N 8", True),
        (24, "-H n1:8,n2:8 --map-by slot", True),  # as 4.1.4 does: not enough slots available in the system
        (24, "-H n1:8,n2:8 --map-by slot:OVERSUBSCRIBE", False),
        (24, "-hosts n1,n2 -ppn 8", False),
    ],
)
def test_a_number_for_each_host_bounds_the_processes(count, given, is_refused):
    """Open MPI refuses more than ppr or -N lets on the hosts; Hydra begins with the first host again."""
    assert ("mpi_slots_are_enough" in failed({"go.sh": START.format("n1", count, given)})) is is_refused


@pytest.mark.parametrize(
    ("words", "is_one"),
    [
        ("horovodrun -np 4 -H n1:2,n2:2 python t.py", True),
        ("/opt/bin/horovodrun -np 4 --hosts n1:2 python t.py", True),
        ("horovodrun -np 4 --hostfile=hosts python t.py", True),
        ("horovodrun -np 4 -hostfile hosts python t.py", True),
        ("horovodrun -np 4 python t.py", False),
        ("mpirun -np 4 -H n1:2,n2:2 python t.py", False),
    ],
)
def test_horovodrun_reaches_other_hosts_where_it_names_them(words, is_one):
    """By an option of its own, behind which `=` may stand."""
    assert horovodruns(read_texts({"a.sh": f"echo start\n{words}\n"})) == ([tuple(words.split())] if is_one else [])
