"""What does a script of a run inherit, and which limits has a session there?"""

from __future__ import annotations

from preflight.job.measure.rehearsal.whole import allocation, by_mpirun, dropped, limits_of, logs_of
from preflight.launch.cast import Cast, Script
from preflight.reach.hosts import parse_hosts
from preflight.testing import healthy
from tests.job.measure.rehearsal.stories import cast, node, story


def test_what_our_own_step_has_is_not_the_scripts():
    """On this machine it is the user's own environment, and all of it is kept."""
    (local,) = parse_hosts("local")
    (ssh,) = parse_hosts("node1")
    assert dropped(local) == ()
    assert "TORCHELASTIC_*" in dropped(ssh)
    assert "SLURM_*" not in dropped(ssh)
    assert allocation(cast(), {"node1": ssh, "node2": ssh}) == ()


def test_mpirun_is_asked_to_hand_the_hook_on():
    """Not beside options of the user's own, which it refuses."""
    plain = Script("run.sh", "/run.sh", "mpirun -np 2 python train.py\n", ("bash",))
    own = Script("run.sh", "/run.sh", "mpirun -x PATH -np 2 python train.py\n", ("bash",))
    assert by_mpirun(Cast({"node1": plain}, ("node1",)))[0][1]["OMPI_MCA_mca_base_env_list"].startswith("PYTHONPATH;")
    assert by_mpirun(Cast({"node1": own}, ("node1",))) == ()


def test_limits_are_numbers():
    """-1 where there is none."""
    run = healthy().broken("node1", "limits", nofile_soft=1024, memlock_soft_bytes="unlimited")
    held = limits_of(run.cluster["node1"])
    assert (held["nofile"], held["memlock"]) == (1024, -1)


def test_what_scripts_printed_is_kept():
    """Both streams of every node that ran one."""
    logs = logs_of(story(node("node1", err="bad\n")))
    assert logs["rehearse-node1.err.log"] == "bad\n"
