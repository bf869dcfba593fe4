"""Do the options of Open MPI and Hydra tell how many processes run where?"""

from __future__ import annotations

import pytest

from tests.launch.plans import launch, values


@pytest.mark.parametrize(
    ("words", "shape"),
    [
        ("-np 16 -H a:8,b:8", (2, 8, 16)),
        ("-n 16 -N 8", (2, 8, 16)),
        ("--np 16 --map-by ppr:8:node", (2, 8, 16)),
        ("-np 4 -npernode 2 -x NCCL_DEBUG=INFO -mca btl ^openib --allow-run-as-root", (2, 2, 4)),
        ("-n 8 -ppn 4 -hosts a,b -genv NCCL_DEBUG INFO", (2, 4, 8)),
        ("-np 8", (None, None, 8)),
        ("-H a,b", (2, None, None)),
        ("-H a,b,a,b -np 4", (2, 2, 4)),
    ],
)
def test_its_options_tell_the_shape_of_the_job(words, shape):
    """Of Open MPI and of Hydra, with one dash or two: nodes, processes on each, and all of them."""
    found = values(launch(f"mpirun {words} python t.py --x 1\n"))
    assert tuple(found.get(name) for name in ("nodes", "processes_per_node", "world_size")) == shape
    assert found["program"] == "t.py"
