"""Launch files against the nodes that are there."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from preflight.facts.cluster import Cluster
from preflight.said import value_in
from tests.launch.nodes import cluster, cluster_of, node
from tests.launch.samples import HOSTFILE, config, exports, failed, judged, pair, rules, torchrun

HOSTS = HOSTFILE.replace("worker-", "node")


@pytest.mark.parametrize("make", [config, torchrun])
def test_files_that_fit_the_cluster_are_silent(make):
    """Two nodes of eight GPUs, rank 0 on the first."""
    assert rules(pair(make), cluster()) == []


@pytest.mark.parametrize(
    ("nodes", "rule"),
    [
        (cluster(3), "nodes_are_the_hosts"),
        (cluster(gpus=4), "processes_fit_gpus"),
        (cluster_of(node(0), node(1, gpus=2)), "processes_fit_gpus"),
        (cluster_of(node(1), node(0)), "master_address_is_rank_0s"),
        (cluster_of(node(4), node(5)), "master_address_is_rank_0s"),
        (cluster(listening=(29500,)), "master_port_is_free"),
    ],
    ids=["a host too many", "fewer GPUs", "uneven GPUs", "another node's address", "nobody's address", "port in use"],
)
def test_files_that_do_not_fit_fail(nodes, rule):
    """Each with its rule, for both launchers."""
    assert rule in failed(pair(config), nodes)
    assert rule in failed(pair(torchrun), nodes)


@pytest.mark.parametrize("make", [config, torchrun])
def test_the_fix_of_a_busy_port_names_another_one(make):
    """Never the one that is taken, nor one that somebody else listens on."""
    found = judged(pair(make), cluster(listening=(29500, 29501)))
    (one,) = (finding for finding in found if finding.check == "launch.master_port_is_free")
    assert "29502 in every file" in one.fix
    assert "29500" not in one.fix


def test_uneven_gpus_are_torchruns_right():
    """A file for each node may name that node's own number, where the rule knows whose file it is."""
    (found,) = [f for f in judged(pair(config), cluster_of(node(0), node(1, gpus=2))) if str(f.verdict) == "fail"]
    assert found.nodes == ("node2",)


def test_a_single_file_of_a_set_is_told_with_hosts():
    """The file of rank 0 of 2 alone."""
    assert failed({"node0.yaml": config(0)}, cluster()) == ["every_node_has_its_file"]
    assert failed({"rank0.sh": exports(0)}, cluster()) == ["every_node_has_its_file"]


def test_idle_gpus_are_counted():
    """WORLD_SIZE=2 on two nodes of eight GPUs leaves fourteen idle."""
    found = [f for f in judged(pair(exports), cluster()) if "GPUs stay idle" in f.message and f.nodes]
    assert "14 GPUs stay idle" in found[0].message
    assert [f for f in judged(pair(exports), cluster(gpus=0)) if f.nodes] == []


def test_the_address_is_on_the_training_interface():
    """10.1.0.1 is the first node's, on another interface."""
    found = judged(pair(config, main_process_ip="10.1.0.1"), cluster(interfaces=("eth0", "eth1")))
    assert [f.check for f in found] == ["launch.master_address_is_on_the_training_interface"]


def test_names_that_a_node_calls_itself_by():
    """A hostname or FQDN of the first node is rank 0's."""
    assert rules(pair(torchrun, address="node1.lan"), cluster()) == []
    assert failed(pair(torchrun, address="node2"), cluster()) == ["master_address_is_rank_0s"]


def test_one_file_for_all_nodes_has_no_siblings():
    """accelerate hands the start to pdsh over a hostfile: one YAML with machine_rank 0 is the whole job."""
    text = config(0).replace("distributed_type: MULTI_GPU", "distributed_type: DEEPSPEED")
    text += "deepspeed_config:\n  deepspeed_multinode_launcher: pdsh\n  deepspeed_hostfile: hostfile\n"
    assert "every_node_has_its_file" not in rules({"c.yaml": text}, cluster())


def test_an_address_of_a_service_is_no_failure():
    """Outside of all networks of the nodes it may lead there by NAT; inside them it is nobody's."""
    for address, verdict in (("172.30.9.9", "warn"), ("10.0.0.77", "fail")):
        files = {name: text.replace("10.0.0.1", address) for name, text in pair(torchrun).items()}
        told = [found for found in judged(files, cluster()) if found.check == "launch.master_address_is_rank_0s"]
        assert [str(found.verdict) for found in told] == [verdict]


@pytest.mark.parametrize("make", [config, torchrun])
def test_a_host_that_cannot_be_reached_is_no_fault_of_the_files(make):
    """Three nodes in the files and three hosts, of which two answer: nothing is said of those; a fourth is too many."""
    nodes = {"num_machines": 3, "num_processes": 24} if make is config else {"nodes": 3}
    files = {f"node{rank}": make(rank, **nodes) for rank in range(3)}
    texts = {f"{name}.{'yaml' if make is config else 'sh'}": text for name, text in files.items()}
    whole = cluster(3).nodes
    for silent in whole:
        answered = tuple(node for node in whole if node is not silent)
        assert failed(texts, Cluster(answered, asked=3)) == []
        assert failed(texts, Cluster(answered, asked=4)) == ["nodes_are_the_hosts"]


def test_nothing_of_a_silent_first_host_is_laid_to_the_second():
    """Neither its busy port, nor its fewer GPUs; what the second has itself is still told."""
    silent, *others = (node(0, gpus=4), node(1, gpus=8, listening=(29500,)), node(2, gpus=8))
    for make in (config, torchrun):
        texts = {f"{rank}.{'yaml' if make is config else 'sh'}": make(rank) for rank in range(2)}
        assert failed(texts, Cluster(tuple(others), asked=3)) == ["nodes_are_the_hosts"]
    texts = {f"{rank}.sh": torchrun(rank, nodes=3).replace("node=8", f"node={(4, 8, 8)[rank]}") for rank in range(3)}
    assert failed(texts, cluster_of(silent, node(1), node(2))) == []
    assert failed(texts, Cluster(tuple(others), asked=3)) == []
    texts["1.sh"] = texts["1.sh"].replace("node=8", "node=16")
    (found,) = [f for f in judged(texts, Cluster(tuple(others), asked=3)) if str(f.verdict) == "fail"]
    assert (found.check, found.nodes) == ("launch.processes_fit_gpus", ("node2",))


@pytest.mark.parametrize(("make", "option"), [(config, "--num_machines: 3"), (torchrun, "--nnodes: 3")])
def test_the_number_of_nodes_is_told_under_its_name(make, option):
    """A bare number says nothing; and a host that did not answer is a host all the same."""
    (found,) = [f for f in judged(pair(make), cluster(3)) if f.check == "launch.nodes_are_the_hosts"]
    assert option in found.fix
    assert "--hosts" in found.fix
    for alone in (node(0), node(1)):
        assert rules(pair(make), Cluster((alone,), asked=2)) == []


def test_processes_are_told_as_the_launcher_wants_them():
    """accelerate counts those of all nodes, torchrun those of one, and a world by hand needs all of its ranks."""
    few = cluster(gpus=4)
    fixes = {
        make: {f.fix for f in judged(pair(make), few) if f.check == "launch.processes_fit_gpus"}
        for make in (config, torchrun)
    }
    assert fixes == {config: {"num_processes: 8 (4 on every node)"}, torchrun: {"--nproc_per_node=4"}}
    (found,) = [f for f in judged(pair(exports), few) if "GPUs stay idle" in f.message and f.nodes]
    assert found.fix.startswith("WORLD_SIZE=8, and a process for each GPU: RANK 0 to 7")


def test_an_address_in_brackets_is_held_against_the_networks_of_the_nodes():
    """No network of theirs has it: a service may, so it only warns."""
    files = {name: text.replace("10.0.0.1", "[fd00::9]") for name, text in pair(torchrun).items()}
    told = [found for found in judged(files, cluster()) if found.check == "launch.master_address_is_rank_0s"]
    assert [str(found.verdict) for found in told] == ["warn"]
    assert "belongs to no host of --hosts, and lies in none of their networks" in told[0].message


@pytest.mark.parametrize(
    ("busy", "free"),
    [
        (range(29500, 29599), 29599),
        (range(29500, 29600), 20000),
        ((*range(29500, 29600), *range(20000, 20100)), 1024),
    ],
)
def test_a_free_port_is_of_the_usual_ones_as_long_as_one_is_left(busy, free):
    """Those that launchers take, then others that the kernel does not hand out, then any."""
    found = judged(pair(torchrun), cluster(listening=tuple(busy)))
    (one,) = (finding for finding in found if finding.check == "launch.master_port_is_free")
    assert value_in(one.fix, "free_port") == free


@pytest.mark.parametrize(("port", "is_told"), [(0, False), (1, True), (65535, True), (65536, False)])
def test_a_busy_port_is_told_where_it_is_a_port(port, is_told):
    """With the program that listens there, on the node that has the address."""
    found = judged({"n.sh": torchrun(port=port)}, cluster(listening=(port,)))
    busy = [one for one in found if one.check == "launch.master_port_is_free"]
    assert [(one.nodes, value_in(one.message, "value")) for one in busy] == [(("node1",), port)] * is_told
    assert all("(nginx)" in one.message for one in busy)


def test_a_port_of_one_node_alone_is_not_looked_up():
    """Only a job that may span nodes meets over it."""
    assert "master_port_is_free" not in rules({"n.sh": torchrun(nodes=1)}, cluster(1, listening=(29500,)))


@pytest.mark.parametrize(("listening", "is_told"), [(29500, True), (29501, False)])
@pytest.mark.parametrize("count", [1, 2])
def test_the_port_that_a_program_sets_itself_is_the_one_to_be_free(listening, is_told, count):
    """Whatever is exported has no effect."""
    program = (
        "import os\nos.environ['MASTER_PORT'] = '29500'\nimport torch.multiprocessing as mp\nmp.spawn(f, nprocs=8)\n"
    )
    texts = {"run.sh": "export MASTER_ADDR=10.0.0.1 MASTER_PORT=29501\npython train.py\n", "train.py": program}
    found = judged(texts, cluster(count, listening=(listening,)))
    busy = [one for one in found if one.check == "launch.master_port_is_free"]
    assert [(one.nodes, [(where.file, where.line) for where in one.where]) for one in busy] == (
        [(("node1",), [("train.py", 2)])] * is_told
    )


@pytest.mark.parametrize(("low", "high"), [(29500, 29500), (20000, 30000), (29501, 30000), (20000, 29499)])
def test_a_port_that_the_kernel_of_the_node_hands_out_is_warned_of(low, high):
    """Its own range counts, both ends of it too; the fix is a port outside of it."""
    nodes = [node(0), node(1)]
    for one in nodes:
        one.subjects["network"] = replace(one.subjects["network"], ephemeral_ports=(low, high))
    found = [one for one in judged(pair(torchrun), cluster_of(*nodes)) if "ephemeral" in one.check]
    assert [value_in(one.message, "low") for one in found] == [low] * len(found)
    assert {str(one.verdict) for one in found} == ({"warn"} if low <= 29500 <= high else set())
    assert not any(low <= value_in(one.fix, "free_port") <= high for one in found)
