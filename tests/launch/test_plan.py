"""Does a plan answer what rules ask of it, and keep apart what the file says from what it leaves open?"""

from __future__ import annotations

import pytest

from preflight.judge.ledger.findings import Where
from preflight.launch.field import Sourced, Unknown
from preflight.launch.plan import Slurm, fail, warn
from preflight.launch.read import read_texts
from tests.launch.samples import BATCHES, HOSTFILE, SBATCH, config, torchrun


def plan(text: str, name: str = "n.sh"):
    (found,) = read_texts({name: text}).plans
    return found


@pytest.mark.parametrize(
    ("words", "spans", "may_span"),
    [
        ("--nnodes=2", True, True),
        ("--nnodes=1", False, False),
        ("", False, False),
        ("--nnodes=$N", False, True),
        ("--nnodes=${N:-1}", False, True),
        ("--nnodes=${N:-2}", False, True),
        ("$ARGS", False, True),
    ],
)
def test_a_file_may_leave_open_how_many_nodes_take_part(words, spans, may_span):
    """A default that the environment replaces is no proof in either direction."""
    found = plan(f"torchrun {words} t.py\n")
    assert (found.spans_nodes, found.may_span_nodes) == (spans, may_span)


def test_a_setting_of_the_tool_is_told_where_the_file_tells_it():
    """An unknown one is not told, and neither is one that is not there."""
    found = plan("torchrun --max_restarts=3 --role=$ROLE t.py\n")
    assert [found.setting(name) for name in ("max_restarts", "role", "log_dir")] == ["3", None, None]
    assert plan(config(gpu_ids="'0,1'"), "n.yaml").setting("gpu_ids") == "0,1"


def test_the_words_around_a_launcher_are_known_by_their_programs():
    """Wherever they are installed."""
    found = plan("/usr/bin/srun --label docker run image bash -c 'torchrun t.py'\n")
    assert {"srun", "docker", "bash"} <= found.wraps
    assert plan(torchrun()).wraps == frozenset()


@pytest.mark.parametrize(
    ("text", "number"),
    [("4", 4), ("2-4", 4), ("gpu:h100:8", 8), ("2(x2)", 2), ("many", "many"), ("", ""), ("1234567890", "1234567890")],
)
def test_a_number_for_slurm_has_several_forms(text, number):
    """Of a range the most; what is no number is unknown, with what is written there."""
    found = Slurm({"nodes": Sourced(text, "j.sbatch", 2)}).number("nodes")
    assert (found.value if isinstance(found, Sourced) else found.expression) == number
    assert found.line == 2


def test_the_first_of_several_options_counts():
    """Unknown ones too; where none is given there is no number."""
    slurm = Slurm({"ntasks": Sourced("4", "j", 1), "nodes": Unknown("$N", "j", 2)})
    assert slurm.number("tasks_per_node", "ntasks").value == 4
    assert slurm.number("nodes", "ntasks") == Unknown("$N", "j", 2)
    assert slurm.number("gpus") is None


def test_a_finding_names_each_place_once_in_its_order():
    """And the rule by its whole name."""
    found = fail(
        "ranks_are_distinct", "two files disagree", Where("b", 1), Where("a", 2), Where("b", 1), fix="change one"
    )
    assert (found.check, str(found.verdict), found.fix) == ("launch.ranks_are_distinct", "fail", "change one")
    assert found.where == (Where("b", 1), Where("a", 2))
    assert str(warn("nodes_are_granted", "slow").verdict) == "warn"


def test_a_batch_script_tells_what_slurm_is_asked_for():
    """Beside the command that runs in it."""
    found = plan(SBATCH, "job.sbatch")
    assert found.slurm.number("gpus_per_node").value == 8
    assert found.slurm.has_directives
    assert plan(torchrun()).slurm is None


def test_a_plan_calls_address_and_port_what_its_files_call_them():
    """Whoever wrote --rdzv_endpoint is not told of a --master_port that is in none of the files."""
    endpoint = plan("torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=n1:40000 t.py\n").field_names
    assert (endpoint.address, endpoint.port) == ("the address of --rdzv_endpoint", "the port of --rdzv_endpoint")
    master = plan("torchrun --nnodes=2 --node_rank=0 --master_addr=n1 --master_port=40000 t.py\n").field_names
    assert (master.address, master.port) == ("--master_addr", "--master_port")


@pytest.mark.parametrize(
    ("around", "is_one_step"),
    [
        ("srun {} &\nwait", False),
        ("srun -N1 -n1 {} &\nwait", True),
        ("srun -N1 -n1 {}", False),
        ("srun -N2 -n2 {} &\nwait", False),
        ("srun --nodelist=n1 {}", True),
        ("for node in n1 n2; do\n  srun {}\ndone", True),
        ("for node in n1 n2; do\n  {}\ndone", False),
    ],
)
def test_a_step_beside_others_is_of_some_nodes_only(around, is_one_step):
    """One node in the background, one that is named, or one of a loop; and always a step of srun."""
    command = "torchrun --nnodes=2 --nproc_per_node=8 --node_rank=$SLURM_NODEID --master_addr=n1 t.py"
    text = f"#!/bin/bash\n#SBATCH --nodes=2\n{around.replace('{}', command)}\n"
    plans = read_texts({"job.sbatch": text}).plans
    assert {found.is_one_step for found in plans} == {is_one_step}


@pytest.mark.parametrize(
    ("words", "is_open", "says_something"),
    [
        ("--nnodes=$N", True, False),
        ("--nnodes=$N --master_port=29500", False, False),
        ("--nnodes=$N --node_rank=$R --master_addr=$A --master_port=$P --nproc_per_node=$G", True, False),
        ("--nnodes=$N --nproc_per_node=8", False, True),
        ("--nnodes=$N --master_addr=n1", False, True),
        ("--nnodes=2", False, True),
        ("", False, False),
    ],
)
def test_a_file_is_open_where_all_that_counts_comes_from_outside(words, is_open, says_something):
    """A single number, address or port of its own is something to hold other files against."""
    found = plan(f"torchrun {words} t.py\n")
    assert (found.is_open, found.says_something) == (is_open, says_something)


@pytest.mark.parametrize(
    ("around", "is_logged_in"),
    [("ssh n2 {}", True), ("kubectl exec pod-1 -- {}", True), ("bash -c '{}'", False), ("docker exec box {}", False)],
)
def test_a_login_on_another_node_is_told_from_a_shell(around, is_logged_in):
    """kubectl counts only where it runs something in a pod."""
    found = plan(around.replace("{}", "torchrun --nnodes=2 --node_rank=1 --master_addr=n1 t.py") + "\n")
    assert found.is_logged_in is is_logged_in


def test_files_are_open_where_all_their_starts_are_and_nothing_stands_beside_them():
    """A hostfile, batch figures or variables are something to hold them against; so is one start that says more."""
    opens, says = "torchrun --nnodes=$N t.py\n", "torchrun --nnodes=2 t.py\n"
    assert read_texts({"a.sh": opens, "b.sh": opens}).are_open
    assert not read_texts({"a.sh": opens, "b.sh": says}).are_open
    assert not read_texts({}).are_open
    for name, text in (("hostfile", HOSTFILE), ("ds.json", BATCHES), ("nccl.conf", "NCCL_DEBUG=INFO\n")):
        assert not read_texts({"a.sh": opens, name: text}).are_open


def test_of_what_is_left_out_the_starts_are_unjudged():
    """A file of another kind is no start of a job."""
    files = read_texts({"notes.txt": "some words\n", "b.sh": "torchrun --nnodes=2 $X t.py\n"})
    assert {skip.file for skip in files.skips} == {"notes.txt", "b.sh"}
    assert {skip.file for skip in files.unjudged} == {"b.sh"}


def test_a_rule_gives_no_verdict_that_its_row_does_not_name():
    """Else what is shown of it in the docs would be wrong."""
    with pytest.raises(ValueError, match="gives fail, and never warn"):
        warn("ranks_are_distinct", "message")
    with pytest.raises(KeyError):
        fail("no_such_rule", "message")
