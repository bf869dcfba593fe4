"""Is the line named at which a script stops, or a command that cannot be run?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.job.measure.rehearsal.scripts import judged, refused, stray, unseen
from tests.job.measure.rehearsal.stories import cast, node, rank, story, torchrun

GOOD = node("node1", rank(0, "node1"), words=torchrun(0))


def test_a_script_that_comes_to_its_ranks_is_good():
    """Nothing is said of it."""
    assert list(judged(story(), cast())) == []


def test_the_command_is_named_that_ended_a_script():
    """With set -e it is the last one; the words of the shell about that line are its reason."""
    err = "/srv/run.sh: line 3: conda: command not found\nbye\n"
    (cause,) = judged(story(GOOD, node("node2", code=127, lines=((2, 0), (3, 0)), err=err)), cast())
    assert (cause.nodes, cause.where) == (("node2",), (("run.sh", 3),))
    assert cause.message.startswith(
        "the script on node2 stopped at run.sh:3 (`export NCCL_SOCKET_IFNAME=eth0`) with 127"
    )
    assert cause.message.endswith(": conda: command not found")


def test_what_fails_behind_the_training_is_a_warning():
    """It may need what the reference job did not write."""
    nodes = (
        node("node1", rank(0, "node1"), words=torchrun(0)),
        node("node2", rank(1, "node2"), code=1, words=torchrun(1)),
    )
    (cause,) = judged(story(*nodes), cast())
    assert cause.is_advisory
    assert "the ranks were done by then" in cause.message


def test_a_trap_for_the_exit_is_not_the_line():
    """What runs behind the failure has its status before it."""
    (cause,) = judged(story(GOOD, node("node2", code=1, lines=((2, 0), (3, 0), (1, 1)))), cast())
    assert cause.where == (("run.sh", 3),)


def test_nodes_with_the_same_fault_share_one_cause():
    """A launcher that does not know an option fails everywhere."""
    nodes = [node(name, code=2, err="torchrun: error: unrecognized arguments: --new\n") for name in ("node1", "node2")]
    (cause,) = judged(story(*nodes), cast())
    assert cause.nodes == ("node1", "node2")
    assert "the script on node[1-2] stopped at run.sh:4" in cause.message


def test_a_command_that_is_not_found_is_named_though_the_script_goes_on():
    """It is only a warning where the ranks came to their end all the same."""
    broken = node("node2", rank(1, "node2"), lines=((2, 0), (3, 127), (4, 0)), words=torchrun(1))
    (cause,) = judged(story(GOOD, broken), cast())
    assert (cause.where, cause.is_advisory) == ((("run.sh", 2),), True)


def test_a_script_that_ends_before_the_launch_is_named():
    """It ended with 0, and no rank of it came."""
    (cause,) = judged(story(GOOD, node("node2", lines=((2, 0),))), cast())
    assert cause.nodes == ("node2",)
    assert "ended with 0 at run.sh:2" in cause.message


def test_a_script_that_a_node_lacks_is_a_warning():
    """Or has with another text: which of the two was run is said."""
    lacks, differs = (
        node("node2", rank(1, "node2"), words=torchrun(1)),
        node("node2", rank(1, "node2"), words=torchrun(1)),
    )
    lacks.began = msgspec.structs.replace(lacks.began, path="/dev/shm/preflight-1/run.sh")
    lacks.rows = []
    differs.began = msgspec.structs.replace(differs.began, differs=True)
    (cause,) = judged(story(GOOD, lacks), cast())
    assert (cause.nodes, cause.is_advisory) == (("node2",), True)
    assert cause.message == "/srv/run.sh is not on node2: the text from here was run there, in /srv"
    (cause,) = judged(story(GOOD, differs), cast())
    assert cause.message.endswith("that of the node was run")


def test_a_login_that_does_not_come_to_the_script_is_named():
    """~/.bashrc may exit."""
    broken = node("node2", code=3, lines=(), err="license expired\n", has_begun=False)
    (cause,) = judged(story(GOOD, broken), cast())
    assert "the login shell on node2 ended with 3 before the script began: license expired" in cause.message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("docker run --gpus all image torchrun --nnodes=2 train.py", "-e PYTHONPATH"),
        ("srun --export=NONE torchrun --nnodes=2 train.py", "--export=ALL"),
        ("mpirun -np 2 -H node1,node2 -x NCCL_DEBUG python train.py", "-x PYTHONPATH"),
        ("ssh node2 torchrun --nnodes=2 --node_rank=1 --master_addr=node1 train.py", "PYTHONPATH=$PYTHONPATH"),
        ("env -i torchrun --nnodes=2 train.py", "env -i"),
        ("export PYTHONPATH=/srv\ntorchrun --nnodes=2 train.py", ":$PYTHONPATH"),
    ],
)
def test_what_would_start_the_real_program_is_not_run(line, words):
    """The line and the words to add are said."""
    causes = list(refused(cast(line + "\n")))
    assert causes
    assert all(cause.is_unmeasured and words in cause.fix and cause.where == (("run.sh", 1),) for cause in causes)


@pytest.mark.parametrize(
    "line",
    [
        "docker run -e PYTHONPATH --ipc=host image torchrun --nnodes=2 train.py",
        "mpirun -np 2 -H node1,node2 -x PYTHONPATH python train.py",
        "export PYTHONPATH=/srv:$PYTHONPATH\ntorchrun --nnodes=2 train.py",
        "sudo nvidia-smi -pm 1\ntorchrun --nnodes=2 train.py",
    ],
)
def test_a_start_that_our_hook_reaches_is_run(line):
    """It has the words already, or the command is another one."""
    assert list(refused(cast(line + "\n"))) == []


def test_a_real_program_that_ran_is_told_and_not_measured():
    """It was seen on its node, and ended."""
    broken = node("node2", code=None)
    broken.stray = "python train.py"
    (cause,) = stray(story(GOOD, broken), cast())
    assert (cause.nodes, cause.is_unmeasured, cause.where) == (("node2",), True, (("run.sh", 4),))


def test_a_start_of_which_no_rank_reports_is_not_measured():
    """Actors of Ray are no ranks, and that is said."""
    nodes = [node(name) for name in ("node1", "node2")]
    assert all(cause.is_unmeasured for cause in unseen(story(*nodes), cast()))
    late = story(node("node1", code=None, lines=((2, 0),)), node("node2", code=None, lines=((2, 0),)))
    assert [cause.message for cause in unseen(late, cast())] == [
        f"the script on {name} was still at run.sh:2 (`cd /srv`) when the time was over" for name in late.nodes
    ]
    (cause, _) = unseen(story(*nodes), cast("ray start --head\npython serve.py\n"))
    assert "starts actors and no ranks" in cause.message
