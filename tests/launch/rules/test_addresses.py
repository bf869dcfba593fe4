"""The address of rank 0: one that exists, leads elsewhere, and is the same on every node."""

from __future__ import annotations

import pytest

from tests.launch.samples import SBATCH, config, exports, failed, judged, pair, rules, torchrun

C10D = (
    "torchrun --nnodes={nodes} --nproc_per_node=8 --rdzv_backend=c10d --rdzv_id={id} --rdzv_endpoint={endpoint} t.py\n"
)


def test_localhost_with_several_nodes_fails():
    """And is right on one node; rank 0's own file works with it, as long as the others name its address."""
    assert failed({"n.sh": torchrun(1, address="localhost")}) == ["master_address_leads_to_rank_0"]
    (found,) = judged({"n.sh": torchrun(0, address="localhost")})
    assert (found.check, str(found.verdict)) == ("launch.master_address_leads_to_rank_0", "warn")
    assert failed({"n.yaml": config(main_process_ip="0.0.0.0")}) == ["master_address_leads_to_rank_0"]
    assert failed(pair(exports, address="127.0.0.1")) == ["master_address_leads_to_rank_0"]
    assert rules({"n.sh": torchrun(nodes=1, address="localhost")}) == []


def test_an_address_is_wanted_for_several_nodes():
    """Without one every node takes itself for rank 0."""
    assert failed({"n.yaml": config(main_process_ip=None)}) == ["master_address_is_given"]
    assert failed({"n.sh": torchrun().replace("--master_addr=10.0.0.1", "")}) == ["master_address_is_given"]


def test_standalone_is_for_one_node():
    """--standalone listens on localhost."""
    assert failed({"n.sh": "torchrun --standalone --nnodes=2 --nproc_per_node=8 t.py\n"}) == [
        "master_address_leads_to_rank_0"
    ]
    assert rules({"n.sh": "torchrun --standalone --nproc_per_node=8 t.py\n"}) == []
    assert rules({"n.sh": "torchrun --standalone --nnodes=$1 --nproc_per_node=8 t.py\n"}) == []
    open_nodes = {"n.sh": "torchrun --standalone --nnodes=$1 --node_rank=$2 --nproc_per_node=8 t.py\n"}
    assert (rules(open_nodes), failed(open_nodes)) == (["master_address_leads_to_rank_0"], [])


def test_a_random_rendezvous_id_is_different_on_every_node():
    """Run by hand it fails; in a batch script one shell works it out for all."""
    script = C10D.format(nodes=2, id="$RANDOM", endpoint="10.0.0.1:29500")
    (found,) = judged({"n.sh": script})
    assert (found.check, str(found.verdict)) == ("launch.rendezvous_id_is_the_same_everywhere", "fail")
    assert judged({"n.sbatch": SBATCH.replace("$SLURM_JOB_ID", "$RANDOM")}) == ()
    assert rules({"n.sh": C10D.format(nodes=1, id="$RANDOM", endpoint="localhost")}) == []


def test_random_inside_quotes_of_srun_is_worked_out_on_every_node():
    """`srun bash -c '... $RANDOM'` is not the batch shell's to expand."""
    quoted = SBATCH.replace("srun torchrun", "srun bash -c 'torchrun").replace("train.py", "train.py'")
    (found,) = judged({"n.sbatch": quoted.replace("$SLURM_JOB_ID", "$RANDOM")})
    assert (found.check, str(found.verdict)) == ("launch.rendezvous_id_is_the_same_everywhere", "fail")


def test_the_own_hostname_as_endpoint():
    """Silent in a batch script and on one node; run on every node it makes each its own rank 0."""
    assert rules({"n.sbatch": SBATCH.replace("$MASTER_ADDR:29500", "$(hostname)")}) == []
    assert rules({"n.sh": C10D.format(nodes=1, id="1", endpoint="$(hostname)")}) == []
    script = C10D.format(nodes=2, id="1", endpoint="$(hostname)")
    assert rules({"n.sh": script}) == ["master_address_is_the_same_everywhere"]


def test_same_network_with_c10d_has_no_endpoint():
    """accelerate's --same_network gives torchrun what c10d does not read."""
    line = (
        "accelerate launch --multi_gpu --num_machines 2 --num_processes 16 --machine_rank 0"
        " --main_process_ip 10.0.0.1 {} t.py\n"
    )
    assert failed({"n.sh": line.format("--rdzv_backend c10d --same_network")}) == ["same_network_fits_the_rendezvous"]
    assert rules({"n.sh": line.format("--rdzv_backend c10d")}) == []


@pytest.mark.parametrize(
    "name",
    ["AZ_BATCH_MASTER_NODE", "SM_HOSTS", "SLURM_NODELIST", "SLURM_SUBMIT_HOST", "SKYPILOT_NODE_IPS", "PBS_NODEFILE"],
)
def test_some_variables_of_a_scheduler_are_no_address(name):
    """They hold a port too, a list, or another machine."""
    text = "torchrun --nnodes=2 --node_rank=$R --master_addr={} t.py\n"
    assert failed({"n.sh": text.format(f"${name}")}) == ["master_address_is_an_address"]
    assert failed({"n.sh": f"export MASTER_ADDR=${{{name}}}\n" + text.format("$MASTER_ADDR")}) == [
        "master_address_is_an_address"
    ]
    assert failed({"n.sh": text.format("${AZ_BATCH_MASTER_NODE%:*}")}) == []


def test_an_empty_default_is_for_whoever_starts_the_script():
    """${MASTER_ADDR:-} is asked for a line later."""
    text = 'MASTER_ADDR=${MASTER_ADDR:-}\ntorchrun --nnodes=2 --node_rank=$R --master_addr "$MASTER_ADDR" t.py\n'
    assert rules({"n.sh": text}) == []


ENDPOINT = "torchrun --nnodes 2 --nproc_per_node=8 --rdzv_id 1 --rdzv_backend c10d --rdzv_endpoint {}:29500 train.py\n"


@pytest.mark.parametrize(
    ("before", "address", "is_told"),
    [
        ("", "$head_node_ip", True),
        ("", '"${head_node_ip}"', True),
        ("head_node_ip=$(scontrol show hostnames | head -n 1)\n", "$head_node_ip", False),
        ("read -r head_node_ip < head\n", "$head_node_ip", False),
        ("source cluster.env\n", "$head_node_ip", False),
        (". ./cluster.env\n", "$head_node_ip", False),
        ("", "$MASTER_ADDR", False),
        ("", "$1", False),
    ],
)
def test_a_variable_of_a_guide_that_is_set_nowhere_is_told(before, address, is_told):
    """Whoever starts the script may export it; what a scheduler, an argument or another file sets needs no word."""
    texts = {"n.sh": before + ENDPOINT.format(address)}
    assert any("set nowhere" in one.message for one in judged(texts)) == is_told
    assert set(rules(texts)) <= {"outside_variables_are_set", "file_is_judged"}


@pytest.mark.parametrize(
    ("line", "address", "meant"),
    [
        ("head_node_ip=$(hostname -i)", "$head_nodeip", "$head_node_ip"),
        ("export MASTER_ADDR=10.0.0.1", "$MASTER_ADR", "$MASTER_ADDR"),
        ("head_node=$(hostname)", "$HEAD_NODE_IP", ""),
        ("head_node_1_ip=10.0.0.1", "$head_node_2_ip", ""),
        ("export MASTER_PORT=29500", "$MASTER_ADDR", ""),
    ],
)
def test_a_variable_that_is_misspelt_is_told_with_the_one_that_is_set(line, address, meant):
    """The script sets one name and asks for another that is nearly so: nobody exports that."""
    found = [one for one in judged({"n.sh": f"{line}\n" + ENDPOINT.format(address)}) if str(one.verdict) == "fail"]
    assert [(one.check, one.fix) for one in found] == [("launch.master_address_is_given", meant)] * bool(meant)


@pytest.mark.parametrize("written", ["10.0.0.1:29500", "http://10.0.0.1", "tcp://10.0.0.1:29500/"])
def test_the_address_within_a_text_is_the_fix(written):
    """What was meant is known: no placeholder stands in its place."""
    found = judged({"n.sh": torchrun(address=written)})
    assert [one.fix for one in found if one.check == "launch.master_address_is_an_address"] == [
        "--master_addr: 10.0.0.1"
    ]
