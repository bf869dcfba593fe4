"""Is a fix shown only where it was made, and the files are right then?"""

from __future__ import annotations

import pytest

from preflight.judge.ledger.findings import Verdict
from preflight.launch.diff import fixed
from preflight.launch.fixes.pasted import edits_of
from preflight.launch.fixes.trial import Reading, edited, holds
from preflight.launch.rules.check import check_texts
from preflight.said import leaves
from preflight.said.errors import UsageError
from tests.launch import truth
from tests.launch.nodes import cluster
from tests.launch.samples import FORMATS, SBATCH, config, judged, mutated
from tests.shares import shares

MUTATIONS = 120
TORCHRUN = (
    "torchrun --nnodes=2 --node_rank={rank} --nproc_per_node=8 --master_addr={address} --master_port=29500 t.py\n"
)
SLURM = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH {tasks}
#SBATCH --gpus-per-node=8
head_node_ip=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
{command}
"""
C10D = "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_id=1 --rdzv_backend=c10d --rdzv_endpoint=$head_node_ip:29500 t.py"
INDEXED = """apiVersion: batch/v1
kind: Job
metadata: {{name: train}}
spec:
  completions: 4
  parallelism: {parallel}
  completionMode: Indexed
  template:
    spec:
      subdomain: train
      restartPolicy: Never
      containers:
      - name: train
        image: pytorch/pytorch
        command: [torchrun, --nnodes=4, --nproc_per_node=1, --node_rank=$(JOB_COMPLETION_INDEX),
          --master_addr=train-0.train, --master_port=29500, train.py]
"""
MPIJOB = """apiVersion: kubeflow.org/v2beta1
kind: MPIJob
spec:
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
          - command: [mpirun, -np, "16", python, t.py]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - resources: {limits: {nvidia.com/gpu: 8}}
            volumeMounts: [{name: shm, mountPath: /dev/shm}]
          volumes: [{name: shm, emptyDir: {medium: Memory}}]
"""


def shown(texts, nodes=None):
    """The fixes by rule, in the order of the findings."""
    return [(found.check.removeprefix("launch."), found.fix) for found in judged(texts, nodes)]


def fixes(texts, rule, nodes=None):
    """The fixes of one rule."""
    return [fix for name, fix in shown(texts, nodes) if name == rule]


def reading(texts):
    """What the texts say, and what is wrong with them; None where they cannot be read."""
    try:
        found, files = check_texts(texts)
    except UsageError:
        return None
    return Reading(files, found)


def made(texts):
    """Every finding of the texts whose fix can be made, with its edits: one place, or all that it is for."""
    lines = {name: text.split("\n") for name, text in texts.items()}
    for finding in check_texts(texts)[0]:
        if finding.verdict in (Verdict.FAIL, Verdict.WARN):
            ways = [edits_of(finding.fix, finding, lines, every=every) for every in (False, True)]
            yield finding, [finding.edits] if finding.edits else [way for way in ways if way]


@pytest.mark.parametrize("share", shares(9))
def test_a_fix_that_is_shown_was_made_and_holds(share):
    """Its finding is gone, no other has come, the start has its program and ranks; made twice it is the same."""
    for case in share.of(truth.cases()):
        before = reading(case.texts)
        for finding, ways in made(case.texts):
            if not ways:
                continue
            results = [edited(case.texts, way) for way in ways]
            after = [reading(result) for result in results]
            same = [one for one in before.findings if one.check == finding.check and one.fix == finding.fix]
            is_shared = len(same) > 1  # files of several nodes, each to be changed alike
            assert is_shared or any(holds(before, [finding], one) for one in after), (case.name, finding)
        once = fixed(case.texts).texts
        assert fixed(once).texts == once, case.name


@pytest.mark.parametrize("share", shares(9))
def test_no_fix_has_the_sign_of_a_new_line(share):
    """A block of YAML is written in one line."""
    found = [finding for case in share.of(truth.cases()) for finding in check_texts(case.texts)[0]]
    assert [finding for finding in found if "\n" in finding.fix] == []


def test_no_fix_is_cut():
    """A command has all of its words, however long."""
    long = SLURM.format(tasks="--ntasks-per-node=1", command=C10D + " --option=" + "x" * 300 + " --last=1")
    (fix,) = fixes({"j.sbatch": long}, "every_node_is_started")
    assert fix == f"srun {C10D} --option={'x' * 300} --last=1"


def test_edits_of_broken_files_hold():
    """Whatever stands in a file: what a patch makes of it is judged right, and never lacks its program."""
    for seed in range(MUTATIONS):
        file, text = list(FORMATS.values())[seed % len(FORMATS)]
        try:
            done = fixed({file: mutated(text, seed)})
        except UsageError:
            continue
        if done.findings:
            left = {(one.check, one.message) for one in check_texts(done.texts)[0]}
            assert not left & {(one.check, one.message) for one in done.findings}


TORN = {
    "a comment within": "torchrun --standalone \\\n# --nnodes=1\n  --standalone\n",
    "a blank behind the backslash": "torchrun --standalone \\ \n  --standalone\n",
    "no backslash": "torchrun --standalone\n--standalone\n",
}


@pytest.mark.parametrize("name", TORN)
def test_a_start_without_its_program_is_no_result(name):
    """Nothing makes `torchrun --standalone --standalone` of two lines."""
    text = {"a.sh": "#!/bin/bash\n" + TORN[name]}
    assert fixed(text).texts == text
    assert [found.fix for found in judged(text) if found.check == "launch.commands_are_continued"] == [""]


def test_a_job_with_fewer_pods_than_completions_gets_one_fix():
    """parallelism, by which both findings go; --nnodes=2 would leave two of the four pods."""
    for text in (INDEXED.format(parallel=2), INDEXED.format(parallel=1).replace("  parallelism: 1\n", "")):
        found = shown({"job.yaml": text})
        of_counts = {fix for rule, fix in found if rule in ("gang_is_the_whole_job", "nodes_are_counted_right")}
        assert of_counts == {"parallelism: 4"}


def test_processes_for_every_gpu_want_slots():
    """-np 16 for 2 x 8 GPUs was meant: the slots are too few, not the processes too many."""
    assert {fix for rule, fix in shown({"job.yaml": MPIJOB}) if rule == "mpi_slots_are_enough"} == {"slotsPerWorker: 8"}


def test_a_number_of_nodes_fits_the_ranks_that_are_there():
    """1 stands in the first file, and in most of them; rank 1 needs two nodes."""
    for wrong in ("n0.sh", "n1.sh"):
        texts = {f"n{rank}.sh": TORCHRUN.format(rank=rank, address="10.0.0.1") for rank in (0, 1)}
        texts[wrong] = texts[wrong].replace("nnodes=2", "nnodes=1")
        assert fixes(texts, "fields_agree") == ["--nnodes: 2 in every file"]


def test_tasks_are_corrected_by_the_number_that_was_given():
    """--ntasks=4 becomes 2 for two nodes; --ntasks-per-node=1 beside it would be refused."""
    text = SLURM.format(tasks="--ntasks=4", command=f"srun {C10D}")
    assert fixes({"j.sbatch": text}, "slurm_tasks_are_counted_once") == ["line 3: #SBATCH --ntasks=2"]


def test_a_variable_is_not_renamed_to_one_of_another_unit():
    """60 seconds are not 60 milliseconds; a slip in the name is mended."""
    text = "export {}\n" + TORCHRUN.format(rank="$R", address="10.0.0.1")
    for other in ("NCCL_SOCKET_TIMEOUT=60", "NCCL_TIMEOUT=1800"):
        assert not any("MSEC" in fix or "=" in fix for _, fix in shown({"a.sh": text.format(other)})), other
    mended = fixes({"a.sh": text.format("NCCL_SOCKET_IFNAMES=ib0")}, "nccl_variables_are_known")
    assert mended == ["line 1: export NCCL_SOCKET_IFNAME=ib0"]


def test_what_the_script_works_out_is_the_address():
    """$head_node_ip or $MASTER_ADDR of the script; and the first node's address where --hosts tells it."""
    command = "srun " + TORCHRUN.format(rank="0", address="localhost").strip()
    text = SLURM.format(tasks="--ntasks-per-node=1", command=command)
    assert fixes({"j.sbatch": text}, "master_address_leads_to_rank_0") == ["--master_addr=$head_node_ip"]
    named = text.replace("head_node_ip=", "export MASTER_ADDR=")
    assert fixes({"j.sbatch": named}, "master_address_leads_to_rank_0") == ["--master_addr=$MASTER_ADDR"]
    nodes = cluster()
    plain = {"a.sh": TORCHRUN.format(rank="$R", address="localhost")}
    assert "<address of rank 0's node>" in fixes(plain, "master_address_leads_to_rank_0")[0]
    assert fixes(plain, "master_address_leads_to_rank_0", nodes) == [f"--master_addr={nodes.at(0).address_for_peers()}"]


def test_the_number_of_a_task_is_left_to_the_task():
    """srun in front alone would give every node 0: the whole command is given, for a shell of the task."""
    command = TORCHRUN.format(rank="$SLURM_NODEID", address="$head_node_ip").strip()
    texts = {"j.sbatch": SLURM.format(tasks="--ntasks-per-node=1", command=command)}
    (found,) = [one for one in judged(texts) if one.check == "launch.every_node_is_started"]
    assert "SLURM_NODEID" in [*leaves(found.message)]
    inner = command.replace("$SLURM_NODEID", "\\$SLURM_NODEID")
    assert found.fix == f'srun bash -c "{inner}"'
    after = texts["j.sbatch"].replace(command, found.fix)
    assert [one for one in judged({"j.sbatch": after}) if one.verdict is Verdict.FAIL] == []


def test_the_file_of_the_other_node_is_named_where_it_is_there():
    """Two scripts over one YAML, and node2.yaml is given: no copy, which would double rank 0."""
    texts = {f"node{n}.sh": "accelerate launch --config_file node1.yaml t.py\n" for n in (1, 2)}
    texts |= {f"node{n}.yaml": config(n - 1) for n in (1, 2)}
    assert set(shown(texts)) == {
        ("ranks_are_distinct", "--config_file node2.yaml in node2.sh"),
        ("every_node_has_its_file", "--config_file node2.yaml in node2.sh"),
    }


def test_trials_are_few():
    """However many findings there are, the files are read again a few times, and what was not tried has no edit."""
    text = "".join(f"export NCCL_IB_TIMEOUT={99 + n}\n" for n in range(1))
    many = {
        f"n{n}.sh": text + TORCHRUN.format(rank=n, address="10.0.0.1").replace("29500", str(70000 + n))
        for n in range(40)
    }
    found = [one for one in judged(many) if one.check == "launch.master_port_is_valid"]
    assert 0 < sum(bool(one.edits) for one in found) < len(found)


def test_a_right_batch_script_gets_no_fix():
    """Nothing is proposed where nothing is wrong."""
    assert shown({"j.sbatch": SBATCH}) == []
