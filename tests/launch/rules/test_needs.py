"""Logins, compilers, memory and names that a launch takes for granted, against the nodes."""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.cluster import Cluster
from preflight.facts.subjects.files import Files, Named
from preflight.facts.subjects.machine import Machine
from preflight.facts.subjects.network import Gateway
from preflight.facts.subjects.trust import Login, Trust
from preflight.facts.value import Missing
from tests.launch.nodes import cluster, cluster_of, node
from tests.launch.samples import HOSTFILE, config, failed, judged, pair, rules, torchrun

NO = Missing("no")
BY_RUNNER = {
    "hostfile": HOSTFILE.replace("worker-", "node"),
    "run.sh": "deepspeed --hostfile=hostfile --master_addr=10.0.0.1 train.py\n",
}


def with_subject(name, value, *, number=1, **changes):
    """Two nodes, one of which tells this of a subject."""
    nodes = [node(index, **changes) for index in range(2)]
    nodes[number].subjects[name] = value
    return cluster_of(*nodes)


@pytest.mark.parametrize(("trouble", "broken"), [("", []), ("Permission denied", ["launcher_reaches_every_host"])])
def test_a_runner_logs_in_to_every_host(trouble, broken):
    """The first node's own logins count; a launch that each node starts by itself needs none."""
    trust = Trust(logins=(Login("10.0.0.2", trouble, 0.1, "/usr/bin/python"),))
    nodes = with_subject("trust", trust, number=0)
    assert rules(BY_RUNNER, nodes) == broken
    assert rules(pair(torchrun), nodes) == []


def test_a_runner_on_a_host_that_did_not_answer_is_not_judged_by_another():
    """The second of three hosts cannot log in, and shows another address first; neither is asked for by the launch."""
    second = node(1, interfaces=("virbr1", "eth0"))
    second.subjects["network"] = msgspec.structs.replace(second.subjects["network"], training="eth0")
    second.subjects["trust"] = Trust(logins=(Login("10.0.0.2", "Permission denied", 0.1, "/usr/bin/python"),))
    texts = {**BY_RUNNER, "run.sh": "deepspeed --hostfile=hostfile train.py\n"}
    told = failed(texts, Cluster((second, node(2)), asked=3))
    assert not {"launcher_reaches_every_host", "deepspeed_tells_the_right_address"} & set(told)
    assert "deepspeed_tells_the_right_address" in failed(texts, cluster_of(second, node(2)))


def test_a_runner_tells_the_first_address_of_its_node():
    """A card in front of the training interface, and no --master_addr: the others look for rank 0 there."""
    texts = {**BY_RUNNER, "run.sh": "deepspeed --hostfile=hostfile train.py\n"}
    front = [node(index, interfaces=("virbr1", "eth0")) for index in range(2)]
    for facts in front:
        facts.subjects["network"] = msgspec.structs.replace(facts.subjects["network"], training="eth0")
    assert rules(texts, cluster()) == []
    assert failed(texts, cluster_of(*front)) == ["deepspeed_tells_the_right_address"]
    assert failed({**texts, "run.sh": texts["run.sh"].replace("train.py", "--master_addr=10.1.0.1 train.py")}) == []


def test_a_runner_takes_what_a_start_file_prints_for_the_address():
    """Its first word, where the login to the own node prints something; another node's is asked for nothing."""
    texts = {**BY_RUNNER, "run.sh": "deepspeed --hostfile=hostfile train.py\n"}
    names = [facts.name for facts in cluster()]
    for printing, broken in ((names[0], ["deepspeed_tells_the_right_address"]), (names[1], [])):
        logins = tuple(
            Login(name, "", 0.1, "/usr/bin/python", "/root/a.rc read" * (name == printing)) for name in names
        )
        assert rules(texts, with_subject("trust", Trust(logins=logins), number=0)) == broken
    first = with_subject("trust", Trust(logins=(Login(names[0], "", 0.1, "python", "/root/a.rc read"),)), number=0)
    (finding,) = (one for one in judged(texts, first) if one.check.endswith("deepspeed_tells_the_right_address"))
    assert finding.message.startswith("every node gets /root/a.rc for the address of rank 0: ")


@pytest.mark.parametrize(("own", "broken"), [("10.0.0.1", []), ("127.0.1.1", ["rendezvous_endpoint_is_recognised"])])
def test_an_endpoint_is_recognised_by_its_node(own, broken):
    """torchrun compares an address with those of the host name, not with those of the interfaces."""
    command = "--nnodes=2 --nproc_per_node=8 --rdzv_id=a --rdzv_backend=c10d --rdzv_endpoint=10.0.0.1:29500"
    first = node(0)
    first.subjects["identity"] = msgspec.structs.replace(first.subjects["identity"], hostname_addresses=(own,))
    nodes = cluster_of(first, node(1))
    assert failed({"run.sh": f"torchrun {command} train.py\n"}, nodes) == broken
    assert failed({"run.sh": f"torchrun {command} --rdzv_conf is_host=1 train.py\n"}, nodes) == []


@pytest.mark.parametrize(
    ("found", "broken"), [({"gcc": "/usr/bin/gcc"}, []), ({"nvcc": "/x/nvcc"}, ["compile_finds_a_compiler"])]
)
def test_a_compiled_model_finds_a_compiler(found, broken):
    """By accelerate's section, on every node."""
    nodes = with_subject(
        "machine",
        Machine(
            cpu_model=NO, time_services=(), clock_is_synchronised=NO, rdma_core=NO, rdma_driver=NO, compilers=found
        ),
    )
    texts = {name: text + "dynamo_config:\n  dynamo_backend: INDUCTOR\n" for name, text in pair(config).items()}
    assert failed(texts, nodes) == broken
    assert failed(pair(config), nodes) == []


def test_offloaded_states_fit_into_the_memory_of_the_nodes():
    """70 billion parameters are 391 GiB on each of two nodes; 7 billion are a tenth of that."""
    small = [node(index) for index in range(2)]
    for facts in small:
        facts.subjects["identity"] = msgspec.structs.replace(facts.subjects["identity"], memory_bytes=256 << 30)

    def texts(model):
        return {
            "ds.json": '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}',
            **{
                name: text.replace("train.py", f"train.py --model_path org/{model}")
                for name, text in pair(torchrun).items()
            },
        }

    (found,) = judged(texts("Llama-2-70b-hf"), cluster_of(*small))
    assert (found.check, found.nodes) == ("launch.offload_fits_memory", ("node1", "node2"))
    assert "391 GiB on each of 2 nodes" in found.message
    assert judged(texts("Qwen2.5-7B"), cluster_of(*small)) == ()
    assert judged(texts("gpt2"), cluster_of(*small)) == ()


@pytest.mark.parametrize(
    ("named", "broken"),
    [
        (Named("/data/set", "", ()), []),
        (Named("/data/set", "No such file or directory", ()), ["paths_are_on_every_node"]),
        (Named("/data/set", "", ("a.mp4",)), ["data_is_no_lfs_pointer"]),
    ],
)
def test_paths_of_the_program_are_on_every_node(named, broken):
    """What one node lacks, or holds as a pointer of git-lfs only, is told with the line that names it."""
    nodes = with_subject("files", Files(places=(), mounts=(), shared=(), same=(), named=(named,)))
    texts = {name: text.replace("train.py", "train.py --data /data/set") for name, text in pair(torchrun).items()}
    assert rules(texts, nodes) == broken
    assert all(found.nodes == ("node2",) and found.where for found in judged(texts, nodes))


def test_nodes_that_were_not_asked_are_no_news():
    """Facts that nobody collected judge nothing."""
    assert rules(BY_RUNNER, cluster()) == []


def test_accelerate_is_told_of_nodes_without_gpus():
    """By the variable, in the script or on the nodes."""
    files = {
        "a.yaml": config(0, num_machines="2"),
        "a.sh": "accelerate launch --config_file a.yaml --machine_rank $1 t.py\n",
    }
    assert "cpu_ranks_form_one_world" in rules(files, cluster(gpus=0))
    assert "cpu_ranks_form_one_world" not in rules(files, cluster())
    aware = {**files, "a.sh": "export ACCELERATE_USE_CPU=true\n" + files["a.sh"]}
    assert "cpu_ranks_form_one_world" not in rules(aware, cluster(gpus=0))
    on_nodes = cluster(gpus=0, conf=(("ACCELERATE_USE_CPU", "true"),))
    assert "cpu_ranks_form_one_world" not in rules(files, on_nodes)


def test_a_server_finds_its_address_by_the_default_route():
    """Over another interface than the training one the others are told the wrong one; a variable says it right."""
    nodes = cluster(interfaces=("eth0", "eth1"))
    away = (Gateway("eth1", "10.1.0.254", "inet"),)
    for held in nodes:
        held.subjects["network"] = msgspec.structs.replace(held.subjects["network"], gateways=away)
    text = "vllm serve m -tp 8 --nnodes 2 --node-rank {} --master-addr 10.0.0.1\n"
    files = {f"n{rank}.sh": text.format(rank) for rank in (0, 1)}
    found = [held for held in judged(files, nodes) if held.check == "launch.servers_tell_the_right_address"]
    assert found[0].nodes == ("node1", "node2")
    own = {name: f"export VLLM_HOST_IP=10.0.0.{place + 1}\n{text}" for place, (name, text) in enumerate(files.items())}
    assert "servers_tell_the_right_address" not in rules(own, nodes)


ACCELERATE = {f"n{n}.sh": f"accelerate launch --config_file n{n}.yaml train.py\n" for n in (0, 1)}
CONFIGS = {f"n{n}.yaml": config(n) for n in (0, 1)}
BY_DEEPSPEED = {
    name: text.replace("MULTI_GPU", "DEEPSPEED") + "deepspeed_config:\n  deepspeed_multinode_launcher: standard\n"
    for name, text in CONFIGS.items()
}


@pytest.mark.parametrize(
    ("configs", "have", "lacking"),
    [
        (CONFIGS, (["accelerate"], ["accelerate"]), {}),
        (CONFIGS, (["accelerate"], []), {"accelerate": ("node2",)}),
        (CONFIGS, ([], []), {"accelerate": ("node1", "node2")}),
        (BY_DEEPSPEED, (["accelerate"], ["accelerate"]), {"deepspeed": ("node1", "node2")}),
        (BY_DEEPSPEED, (["accelerate", "deepspeed"], ["accelerate"]), {"deepspeed": ("node2",)}),
    ],
)
def test_what_the_files_start_with_is_installed_on_every_node(configs, have, lacking):
    """Absent on one node or on all, it fails with the nodes and the interpreter."""
    nodes = cluster_of(*(node(index, packages=packages) for index, packages in enumerate(have)))
    found = [one for one in judged({**ACCELERATE, **configs}, nodes) if one.check == "launch.packages_are_there"]
    assert {one.message.split()[0]: one.nodes for one in found} == lacking
    assert all(one.fix.startswith("/usr/bin/python -m pip install") for one in found)


@pytest.mark.parametrize("line", ["source venv/bin/activate", "conda activate train", "export PATH=/opt/env/bin:$PATH"])
def test_packages_of_an_environment_that_the_script_enters_are_not_known(line):
    """Another interpreter than the one that was asked."""
    nodes = cluster_of(node(0, packages=()), node(1, packages=()))
    files = {name: f"{line}\n{text}" for name, text in ACCELERATE.items()}
    assert "packages_are_there" not in rules({**files, **CONFIGS}, nodes)


def test_an_option_that_an_older_accelerate_does_not_know():
    """It is told with the node whose version stops; what the file says is another matter than the command."""
    command = "accelerate launch --config_file n{0}.yaml --rdzv_backend c10d train.py\n"
    files = {f"n{index}.sh": command.format(index) for index in range(2)} | CONFIGS
    for version, nodes in (("0.19.0", ("node2",)), ("0.20.3", ())):
        held = cluster_of(node(0, packages={"accelerate": "1.2.1"}), node(1, packages={"accelerate": version}))
        found = [one for one in judged(files, held) if one.check == "launch.options_are_known"]
        assert [one.nodes for one in found] == ([nodes] if nodes else [])
