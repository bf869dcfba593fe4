"""Interfaces, adapters, hostfiles and precisions against the nodes."""

from __future__ import annotations

import pytest

from preflight.facts.cluster import Cluster
from tests.launch.nodes import cluster, cluster_of, node
from tests.launch.samples import DEEPSPEED, HOSTFILE, SBATCH, config, failed, judged, pair, rules, torchrun

HOSTS = HOSTFILE.replace("worker-", "node")


def with_variable(line):
    """The two right scripts with one more export."""
    return {name: f"export {line}\n" + text for name, text in pair(torchrun).items()}


@pytest.mark.parametrize(
    "line",
    [
        "NCCL_SOCKET_IFNAME=eth",
        "NCCL_SOCKET_IFNAME=^docker,lo",
        "GLOO_SOCKET_IFNAME=eth0",
        "NCCL_IB_HCA=mlx5",
        "NCCL_IB_GID_INDEX=3",
    ],
)
def test_variables_that_fit(line):
    """Prefixes and exclusions as NCCL reads them."""
    assert rules(with_variable(line), cluster(hcas=("mlx5_0",))) == []


@pytest.mark.parametrize(
    "line", ["NCCL_SOCKET_IFNAME=ib0", "GLOO_SOCKET_IFNAME=eth", "NCCL_IB_HCA=mlx4", "NCCL_IB_GID_INDEX=5"]
)
def test_variables_that_fit_nothing(line):
    """No such interface, adapter or row."""
    assert failed(with_variable(line), cluster(hcas=("mlx5_0",))) == ["variables_fit_the_nodes"]


def test_a_script_is_held_against_the_host_of_its_rank():
    """Where the first host is silent, the second script is still the second host's; the first is nobody's."""
    texts = {f"n{rank}.sh": f"export NCCL_SOCKET_IFNAME=eth{rank}\n" + torchrun(rank) for rank in range(2)}
    nodes = (node(0, interfaces=("eth0",)), node(1, interfaces=("eth1",)), node(2, interfaces=("eth2",)))
    assert "variables_fit_the_nodes" not in failed(texts, Cluster(nodes[1:], asked=3))
    by_name = {"n1-node1.sh": texts["n0.sh"], "n2-node2.sh": texts["n1.sh"]}
    assert "variables_fit_the_nodes" not in failed(by_name, Cluster(nodes[1:], asked=3))
    assert "variables_fit_the_nodes" in failed(texts, cluster_of(*nodes[1:]))


@pytest.mark.parametrize(
    ("value", "named"),
    [("mlx5_0,mlxl5_7", "mlxl5_7"), ("^mlx5_9", "mlx5_9"), ("^efa_9", "efa_9"), ("mlx5_0,mlx5_1", "")],
)
def test_entries_that_name_no_adapter(value, named):
    """One slip in a list, or in what is excluded, is named; what is there is silent."""
    found = judged(with_variable(f"NCCL_IB_HCA={value}"), cluster(hcas=("mlx5_0", "mlx5_1")))
    assert [finding.check for finding in found] == ["launch.adapters_are_adapters"] * bool(named)
    assert not named or found[0].message.startswith(f"{named} of NCCL_IB_HCA")


def test_hostfiles_against_hosts_and_gpus():
    """The same hosts, no more slots than GPUs."""
    files = {"hostfile": HOSTS, "run.sh": DEEPSPEED}
    assert rules(files, cluster()) == []
    assert failed(files, cluster(gpus=4)) == ["hostfile_slots_fit_gpus", "processes_fit_gpus"]
    assert "hostfile_is_the_hosts" in failed({"hostfile": HOSTFILE}, cluster())


def test_precision_against_models():
    """bf16 on a V100, fp8 on an A100."""
    assert failed(pair(config), cluster(model="Tesla V100-SXM2-32GB")) == ["precision_fits_gpus"]
    assert failed(pair(config, mixed_precision="fp8"), cluster(model="NVIDIA A100-SXM4-80GB")) == [
        "precision_fits_gpus"
    ]
    assert rules(pair(config), cluster(model="NVIDIA A100-SXM4-80GB")) == []


def test_deepspeed_starts_its_own_interpreter_everywhere():
    """Another path on node2 is not found there."""
    files = {"hostfile": HOSTS, "run.sh": DEEPSPEED}
    assert failed(files, cluster_of(node(0), node(1, python="/opt/py"))) == ["deepspeed_finds_its_python"]


def test_a_left_over_nccl_conf_of_a_node():
    """/etc/nccl.conf on the nodes is read with the launch files."""
    (found,) = judged(pair(config), cluster(conf=(("NCCL_IB_USE_INLINE", "1"),)))
    assert found.check == "launch.nccl_variables_are_safe"
    assert found.message.startswith("/etc/nccl.conf sets NCCL_IB_USE_INLINE on node[1-2]: ")
    assert found.fix == "Delete NCCL_IB_USE_INLINE from /etc/nccl.conf."


def each(**values):
    """The right script of every node, by the node's name, with its own value of NCCL_SOCKET_IFNAME."""
    text = {name: f"export NCCL_SOCKET_IFNAME={value}\n" for name, value in values.items()}
    return {f"{name}.sh": line + torchrun(rank) for rank, (name, line) in enumerate(text.items())}


MIXED = cluster_of(node(0), node(1, interfaces=("ens3",)))


@pytest.mark.parametrize("files", [each(node1="eth0", node2="ens3"), each(start_1="eth0", start_2="ens3")])
def test_a_variable_that_is_right_on_each_node_passes(files):
    """The script of a node is judged against that node: by the name of the file, or by its rank."""
    assert failed(files, MIXED) == []


def test_a_variable_that_is_wrong_on_one_node_names_it_with_the_right_value():
    """No other node is blamed, and the fix is the interface that this node has."""
    (found,) = [one for one in judged(each(start_1="eth0", start_2="eth0"), MIXED) if "fit" in one.check]
    assert (found.nodes, found.fix) == (("node2",), "export NCCL_SOCKET_IFNAME=ens3")
    assert [where.file for where in found.where] == ["start_2.sh"]


def test_one_script_for_all_nodes_is_judged_against_all_of_them():
    """Every node that it does not fit is named, each with what it has."""
    (found,) = [one for one in judged({"run.sh": each(a="eth1")["a.sh"]}, MIXED) if "variables_fit" in one.check]
    assert found.fix == "export NCCL_SOCKET_IFNAME=eth0 on node1; export NCCL_SOCKET_IFNAME=ens3 on node2"


def test_loopback_is_no_interface_to_advise():
    """A value that leads home is taken away, whatever the interfaces are called."""
    (found,) = [one for one in judged(each(node1="lo", node2="eth0")) if "leads" in one.check]
    assert found.fix.endswith("unset NCCL_SOCKET_IFNAME")


def test_limits_of_a_login_say_nothing_of_those_of_slurmd():
    """Told once where memory is registered and the facts come over ssh; no word without RDMA, or without Slurm."""
    told = [found for found in judged({"j.sbatch": SBATCH}, cluster(hcas=("mlx5_0",))) if "slurmd" in found.check]
    assert [(str(found.verdict), len(found.nodes)) for found in told] == [("skip", 2)]
    assert "limits_are_those_of_slurmd" not in rules({"j.sbatch": SBATCH}, cluster())
    assert rules(with_variable("NCCL_DEBUG=INFO"), cluster(hcas=("mlx5_0",))) == []


def test_an_entry_is_a_slip_only_where_no_node_has_it():
    """Nodes may have different adapters; those of the first node are shown beside it."""
    nodes = cluster_of(node(0, hcas=("mlx5_0",)), node(1, hcas=("mlx5_1",)))
    assert rules(with_variable("NCCL_IB_HCA=mlx5_0,mlx5_1"), nodes) == []
    (found,) = judged(with_variable("NCCL_IB_HCA=mlx5_0,mlx5_1,mlx9_9"), nodes)
    assert found.message.startswith("mlx9_9 of NCCL_IB_HCA")
    assert "mlx5_0" in str(found.message).partition("(has ")[2]
    assert "mlx5_1" not in str(found.message).partition("(has ")[2]


def test_a_node_without_adapters_tells_nothing_of_them():
    """The entry is held against the nodes that have some; with none there is nothing to say."""
    nodes = cluster_of(node(0), node(1, hcas=("mlx5_1",)))
    assert rules(with_variable("NCCL_IB_HCA=mlx5_1"), nodes) == []
    assert "adapters_are_adapters" not in rules(with_variable("NCCL_IB_HCA=mlx9_9"), cluster())
    assert "adapters_are_adapters" not in rules(with_variable("NCCL_IB_HCA="), nodes)
