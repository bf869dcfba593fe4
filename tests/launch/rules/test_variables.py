"""NCCL, Gloo and CUDA variables."""

from __future__ import annotations

import pytest

from tests.launch.samples import DEEPSPEED, HOSTFILE, exports, failed, judged, rules, torchrun


@pytest.mark.parametrize(
    "line",
    ["NCCL_DEBUG=INFO", "NCCL_IB_GID_INDEX=3", "NCCL_SOCKET_IFNAME=^docker,lo", "NCCL_SOCKET_IFNAME==eth0",
     "GLOO_SOCKET_IFNAME=eth0,eth1",
     "TORCH_NCCL_ASYNC_ERROR_HANDLING=1", "NCCL_IB_HCA=mlx5_0:1", "CUDA_LAUNCH_BLOCKING=0",
     "NCCL_IB_DISABLE=0", "NCCL_DEBUG_SUBSYS=INIT,NET", "NCCL_IB_TIMEOUT=22", "NCCL_IB_RETRY_CNT=7", "NCCL_IB_TC=-1",
     "NCCL_IB_GID_INDEX=", "NCCL_P2P_LEVEL=NVL", "NCCL_IB_HCA=^mlx5_bond_0", "NCCL_IB_HCA=ibp24s0,ibp25s0",
     "NCCL_NET_PLUGIN=none", "NCCL_FASTRAK_IFNAME=eth1,eth2", "NCCL_TIMEOUT=1800",
     "NCCL_EXCLUDE_IB_HCA=mlx5_an0", "NCCL_SOCKET_IFNAME=^docker0,lo", "NCCL_SOCKET_IFNAME=br0"],
)  # fmt: skip
def test_right_variables_are_silent(line):
    """Values as NCCL, torch and Gloo read them."""
    assert rules({"n.sh": f"export {line}\n" + torchrun()}) == []


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("NCCL_SOKET_IFNAME=eth0", "nccl_variables_are_known"),
        ("NCCL_IB_DISABLE=true", "variables_have_values_that_count"),
        ("NCCL_IB_GID_INDEX=three", "variables_have_values_that_count"),
        ("NCCL_SOCKET_IFNAME='eth0, eth1'", "variables_have_values_that_count"),
        ("GLOO_SOCKET_IFNAME=^lo", "variables_have_values_that_count"),
        ("NCCL_DEBUG=verbose", "variables_have_values_that_count"),
        ("NCCL_SOCKET_IFNAME=lo", "interface_leads_to_other_nodes"),
        ("GLOO_SOCKET_IFNAME=lo", "interface_leads_to_other_nodes"),
        ("NCCL_SOCKET_IFNAME=docker0", "interface_leads_to_other_nodes"),
        ("GLOO_SOCKET_IFNAME=virbr0", "interface_leads_to_other_nodes"),
        ("NCCL_SOCKET_IFNAME=^docker0", "interface_leads_to_other_nodes"),
        ("NCCL_SOCKET_IFNAME=lo,eth0", "interface_leads_to_other_nodes"),
        ("NCCL_SOCKET_IFNAME=10.0.0.1", "variables_have_values_that_count"),
        ("GLOO_SOCKET_IFNAME=10.0.0.0/24", "variables_have_values_that_count"),
        ("CUDA_LAUNCH_BLOCKING=1", "cuda_launches_do_not_block"),
        ("NCCL_IB_USE_INLINE=1", "nccl_variables_are_safe"),
        ("NCCL_IB_TIMEOUT=50", "variables_have_values_that_count"),
        ("NCCL_IB_RETRY_CNT=13", "variables_have_values_that_count"),
        ("NCCL_IB_TC=300", "variables_have_values_that_count"),
        ("NCCL_NET_GDR_LEVEL=NEAR", "variables_have_values_that_count"),
        ("NCCL_ALGO=Star", "variables_have_values_that_count"),
        ("TORCH_NCCL_BLOCKING_WAIT=maybe", "variables_have_values_that_count"),
        ("NCCL_SOCKET_TIMEOUT=600", "nccl_variables_are_known"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLNG=1", "nccl_variables_are_known"),
        ("NCCL_IB_HCA=eth0", "adapters_are_adapters"),
        ("NCCL_IB_HCA=^bond0", "adapters_are_adapters"),
        ("NCCL_IB_HCA='mlx5_0, mlx5_1'", "variables_have_values_that_count"),
    ],
)
def test_wrong_variables_are_told_at_their_line(line, rule):
    """Each with its rule, at the line that sets it."""
    (found,) = judged({"n.sh": f"#!/bin/bash\nexport {line}\n" + torchrun()})
    assert found.check == f"launch.{rule}"
    assert found.where[0].line == 2


def test_a_typo_is_corrected():
    """The nearest known name stands in the fix."""
    (found,) = judged({"n.sh": "export NCCL_SOKET_IFNAME=eth0\n" + torchrun()})
    assert found.fix == "line 1: export NCCL_SOCKET_IFNAME=eth0"


def test_a_left_over_nccl_conf():
    """The settings of a file are judged without any script."""
    assert rules({"nccl.conf": "NCCL_IB_USE_INLINE=1\nNCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS=1\n"}) == [
        "nccl_variables_are_safe"
    ]
    assert rules({"nccl.conf": "NCCL_DEBUG=WARN\n"}) == []


def test_variables_reach_the_program():
    """Set and not exported is not set; a prefix of the command is."""
    script = exports().replace("export RANK", "RANK")
    assert failed({"n.sh": script}) == ["variables_are_exported"]
    line = "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 python train.py\n"
    assert rules({"n.sh": line}) == []


def test_env_wants_all_four_variables():
    """RANK and WORLD_SIZE without MASTER_PORT."""
    assert failed({"n.sh": exports().replace("export MASTER_PORT=29500\n", "")}) == ["variables_are_set"]


def test_ranks_of_mpirun_want_an_address_too():
    """Where the script numbers them itself; -x hands on what is set before."""
    line = "mpirun -np 2 -H a,b {}bash -c 'export RANK=$OMPI_COMM_WORLD_RANK WORLD_SIZE=2; python train.py'\n"
    assert rules({"n.sh": line.format("")}) == ["variables_are_set"]
    assert rules({"n.sh": line.format("-x MASTER_ADDR -x MASTER_PORT=29500 ")}) == []


def test_a_variable_worked_out_by_the_shell_stays_there_too():
    """-x hands on a value, wherever it came from."""
    line = "export MASTER_ADDR=$(head -n1 hosts) MASTER_PORT=29500\nmpirun -np 2 -H a,b {}python train.py\n"
    (found,) = judged({"n.sh": line.format("-x MASTER_PORT ")})
    assert (found.check, found.fix) == ("launch.mpi_hands_variables_on", "-x MASTER_ADDR")
    assert rules({"n.sh": line.format("-x MASTER_ADDR -x MASTER_PORT ")}) == []


def test_what_pdsh_leaves_behind():
    """GLOO_SOCKET_IFNAME is not handed on, unless .deepspeed_env has it."""
    files = {"hostfile": HOSTFILE, "run.sh": "export GLOO_SOCKET_IFNAME=eth0\n" + DEEPSPEED}
    assert rules(files) == ["deepspeed_hands_variables_on"]
    assert rules({**files, ".deepspeed_env": "GLOO_SOCKET_IFNAME=eth0\n"}) == []


@pytest.mark.parametrize("name", ["PATH", "DATA", "NCCL_DEBUG"])
def test_what_pdsh_leaves_behind_without_harm(name):
    """Each node has a PATH of its own, and DeepSpeed hands on what begins with NCCL."""
    assert rules({"hostfile": HOSTFILE, "run.sh": f"export {name}=INFO\n" + DEEPSPEED}) == []


def test_a_value_out_of_range_is_corrected():
    """The nearest value that the library takes, or the digit of a word."""
    for line, fix in (("NCCL_IB_TIMEOUT=50", "NCCL_IB_TIMEOUT=31"), ("NCCL_IB_DISABLE=true", "NCCL_IB_DISABLE=1")):
        (found,) = judged({"n.sh": f"export {line}\n" + torchrun()})
        assert found.fix.endswith(fix)


def test_a_shell_of_its_own_sees_what_is_exported():
    """head is empty between single quotes, unless it was exported; between double quotes it is filled in before."""
    command = "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=$head:29500 --rdzv_id=1 t.py"
    text = f"head=$(cat /shared/head)\n{{}}srun -N2 bash -c '{command}'\n"
    assert failed({"n.sh": text.format("")}) == ["variables_are_exported"]
    for exported in ("export head\n", "set -a\nhead=$(cat /shared/head)\nset +a\n"):
        assert failed({"n.sh": text.format(exported)}) == []
    assert failed({"n.sh": text.format("").replace("'", '"')}) == []


def test_a_variable_of_the_script_itself_is_not_handed_on():
    """FINETUNE_GPU begins with the letters of libfabric's prefix, and is none of its names."""
    files = {"hostfile": HOSTFILE, "run.sh": "export FINETUNE_GPU=0\n" + DEEPSPEED}
    assert rules(files) == []


def test_nodes_are_not_told_apart_by_one_host_id():
    """One script for all nodes, or the same id in two; not an id of its own for each, nor what each works out."""
    own = {f"n{rank}.sh": "export NCCL_HOSTID={}\n" + torchrun(rank) for rank in (0, 1)}
    one = {name: text.format("gpu") for name, text in own.items()}
    each = {name: text.format(name) for name, text in own.items()}
    worked_out = {name: text.format("$(hostname)") for name, text in own.items()}
    (found,) = judged(one)
    assert (found.check, str(found.verdict)) == ("launch.variables_have_values_that_count", "fail")
    assert len(found.where) == 2
    assert rules(each) == rules(worked_out) == []
    script = "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_endpoint=h0:29500 --rdzv_id=1 t.py\n"
    assert failed({"run.sh": "export NCCL_HOSTID=gpu\n" + script}) == ["variables_have_values_that_count"]
    assert failed({"run.sh": "export NCCL_HOSTID=$(hostname)\n" + script}) == []


@pytest.mark.parametrize("value", ["^docker0", "^=docker0", "lo", "10.0.0.1"])
def test_the_fix_of_an_interface_makes_the_file_right(value):
    """Written in the place of the value, or with the line taken out where it is to be unset."""
    text = f"export NCCL_SOCKET_IFNAME={value}\n"
    (found,) = judged({"n.sh": text + torchrun()})
    assignment = found.fix.rpartition("export ")[2]
    mended = f"export {assignment}\n" if "=" in assignment else ""
    assert found.fix.endswith(("NCCL_SOCKET_IFNAME", f"NCCL_SOCKET_IFNAME={value},lo"))
    assert rules({"n.sh": mended + torchrun()}) == []
