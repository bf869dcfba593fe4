"""Are nodes that are started one after the other, and jobs that are given together, told for what they are?"""

from __future__ import annotations

import pytest

from tests.launch.samples import failed, judged, rules, torchrun

RUN = "torchrun --nnodes=2 --nproc_per_node=8 --node_rank={} --master_addr={} --master_port={} t.py"
LOOP = "i=0\nfor h in a b; do\n  ssh {}$h 'torchrun --nnodes=2 --node_rank=$i --master_addr=a t.py' {}\ndone\nwait\n"


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        (LOOP.format("", ""), True),
        (LOOP.format("", "&"), False),
        (LOOP.format("-f ", ""), False),
        (LOOP.format("", "< /dev/null > log 2>&1 &"), False),
        ("for h in a b; do ssh $h 'pip list'; done\n" + RUN.format(0, "a", 29500), False),
        ("while read h; do ssh $h 'torchrun --nnodes=2 --master_addr=a t.py' &\ndone < hosts\n", True),
        (
            "while read h; do ssh -n $h 'torchrun --nnodes=2 --node_rank=$i --master_addr=a t.py' &\ndone < hosts\n",
            False,
        ),
    ],
)
def test_a_loop_starts_every_node_before_it_waits(text, is_told):
    """Without an &, and where ssh reads the list of hosts, only the first node is started."""
    assert ("every_node_is_started" in failed({"x.sh": text})) is is_told


def test_two_nodes_on_one_machine_are_right_side_by_side():
    """localhost leads to both of them; one after the other they wait for ever, and on two ports they never meet."""
    right = RUN.format(0, "localhost", 29500) + " &\n" + RUN.format(1, "localhost", 29500) + "\nwait\n"
    assert rules({"x.sh": right}) == []
    assert failed({"x.sh": right.replace(" &\n", "\n")}) == ["every_node_is_started"]
    assert failed({"x.sh": right.replace("29500", "29501", 1)}) == ["fields_agree"]
    assert failed({"x.sh": RUN.format(1, "localhost", 29500)}) == ["master_address_leads_to_rank_0"]


@pytest.mark.parametrize("address", ["$(hostname -i || echo localhost)", "${MASTER_ADDR:-127.0.0.1}"])
def test_a_way_back_to_the_node_itself_is_told(address):
    """Where the first way fails, every node of several waits for itself."""
    text = f"export MASTER_ADDR={address}\n" + RUN.format("$R", "$MASTER_ADDR", 29500)
    assert "master_address_leads_to_rank_0" in rules({"x.sh": text})
    assert "master_address_leads_to_rank_0" not in rules({"x.sh": text.replace("--nnodes=2", "--nnodes=1")})


def test_two_whole_jobs_are_not_accused_of_differing():
    """Batch scripts are jobs of their own; files alike by name that differ in several things are taken for two."""
    batch = "#!/bin/bash\n#SBATCH --nodes=2\nsrun torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=$H:29500 {}\n"
    assert failed({"ddp.sbatch": batch.format("a.py"), "fsdp.sbatch": batch.format("b.py --x")}) == []
    texts = {"run1.sh": torchrun(0, port=29500), "run2.sh": torchrun(0, port=29600, program="other.py")}
    (found,) = judged(texts)
    assert found.check == "launch.jobs_are_told_apart"
    assert "port, program" in found.message


STEPS = """#!/bin/bash
#SBATCH --nodes=2
for i in 0 1; do
  srun -N1 -n1 -w node$i torchrun --nnodes=2 --node_rank=$i --master_addr=node0 --master_port=29500 t.py &
done
"""


@pytest.mark.parametrize(
    ("ending", "is_told"), [("", True), ("echo started\n", True), ("wait\n", False), ("tail -f log\n", False)]
)
def test_a_batch_script_waits_for_its_steps(ending, is_told):
    """Where it ends, Slurm ends the job; whatever else runs in the foreground keeps it."""
    assert ("every_node_is_started" in failed({"x.sh": STEPS + ending})) is is_told


PDSH = 'pdsh -R ssh -w {} "torchrun --nnodes=4 --rdzv_id=7 --rdzv_backend=c10d --rdzv_endpoint=n1:29500 t.py"\n'


@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ("n1,n2,n3,n4", []),
        ("n[1-4]", []),
        ("n1,n[2-3]", ["every_node_is_started"]),
        ("n[1-5]", ["every_node_is_started"]),
        ("$HOSTS", []),
        ("^hosts", []),
        ("n[1-5] -x n2", []),
    ],
)
def test_pdsh_starts_as_many_nodes_as_it_names_hosts(hosts, found):
    """Groups, files and hosts that are left out are not counted."""
    assert failed({"go.sh": PDSH.format(hosts)}) == found


def test_two_starts_of_pdsh_are_not_counted():
    """Each may be for some of the hosts."""
    assert failed({"go.sh": PDSH.format("n[1-2]") + PDSH.format("n[3-4]")}) == []


LOOP = """NAMES=3
for i in 0 1 2; do
  kubectl exec gpu-$i -- bash -c "torchrun --nnodes=$NAMES --node_rank=$i --master_addr=gpu-0.gpu t.py" > log.$i &
done
wait
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", []),
        ("NAMES=3", "NAMES=4", ["every_node_is_started"]),
        ("log.$i &", "log.$i", ["every_node_is_started"]),
        ("--node_rank=$i", "--node_rank=0", ["ranks_are_distinct"]),
        ("kubectl exec gpu-$i --", "pbs_tmrsh n$i", []),
    ],
)
def test_a_loop_over_pods_is_one_over_nodes(old, new, found):
    """kubectl exec waits for what it started, as ssh does."""
    assert old in LOOP
    assert failed({"go.sh": LOOP.replace(old, new) if old else LOOP}) == found


XARGS = 'cat hosts | xargs {}-I%% ssh %% "torchrun --nnodes=3 --rdzv_backend=c10d --rdzv_endpoint=n1:29500 t.py"\n'


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("-P 3 ", []),
        ("-P3 ", []),
        ("-P 0 ", []),
        ("--max-procs=8 ", []),
        ("-P $N ", []),
        ("-P 2 ", ["every_node_is_started"]),
        ("", ["every_node_is_started"]),
    ],
)
def test_xargs_starts_all_nodes_at_once(given, found):
    """One after the other each waits for the next."""
    assert failed({"go.sh": XARGS.format(given)}) == found


SCRIPTS = """#!/bin/bash
#SBATCH --nodes=2
./start_head.sh &
sleep 10
./start_worker.sh &
{after}
"""


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("wait", []),
        ("python client.py --address head:6379", []),
        ("./wait_ready.sh\n./client.sh", []),
        ("echo started", ["every_node_is_started"]),
    ],
)
def test_scripts_in_the_background_are_waited_for_by_what_comes_behind_them(after, found):
    """A client in the foreground keeps the batch script there; the scripts themselves may end where they like."""
    inner = {
        "start_head.sh": "ray start --head --port=6379 --block\n",
        "start_worker.sh": "ray start --address=head:6379 --block\n",
    }
    assert failed({"job.sbatch": SCRIPTS.format(after=after), **inner}) == found
