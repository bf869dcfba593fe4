"""Are findings right for the files of public repositories and of guides, and are they told once, the worst first?"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from preflight.facts.cluster import Cluster
from preflight.facts.subjects.environment import Environment, Variable
from preflight.facts.subjects.network import Gateway
from preflight.facts.subjects.trust import Login, Trust
from preflight.launch.read import read_files
from preflight.launch.rules.check import check_files, check_texts
from tests.launch.nodes import cluster, cluster_of, node
from tests.launch.samples import HOSTFILE, config, exports, failed, judged, pair, rules, torchrun

SHARED = Path(__file__).parents[4] / "shared"
FIELD, GUIDES = SHARED / "field-data", SHARED / "guides"
with_guides = pytest.mark.skipif(not GUIDES.exists(), reason="the guides are not here")
# The files whose line in INDEX.tsv names a mistake, and the rule that finds it.
MISTAKES = {
    "examples__config_yaml_templates__multi_node.yaml": "master_address_is_an_address",
    "tests__test_configs__0_30_0_sagemaker.yaml": "yaml_values_are_as_meant",
    "examples__accelerate__ds_multi_nodes.yaml": "num_machines_is_given",
    "micro-benchmarks__nccl-tests__kubernetes__nccl-tests.yaml": "placeholders_are_filled_in",
}


def rows():
    """The accelerate, deepspeed and k8s files of the index."""
    index = FIELD / "INDEX.tsv"
    if not index.exists():
        return []
    lines = [line.split("\t") for line in index.read_text().splitlines()[1:]]
    return [line[0] for line in lines if line[1] in ("accelerate", "deepspeed", "k8s")]


@pytest.mark.skipif(not rows(), reason="the files of the field are not here")
@pytest.mark.parametrize("name", rows())
def test_a_file_of_the_field(name):
    """A known mistake gives exactly its finding, anything else no fail."""
    findings = check_files(read_files([str(FIELD / name)]))
    found = [f.check.removeprefix("launch.") for f in findings if str(f.verdict) == "fail"]
    mistake = MISTAKES.get(Path(name).name)
    assert found == ([mistake] if mistake else [])


@pytest.mark.skipif(not rows(), reason="the files of the field are not here")
def test_all_files_of_the_field_at_once():
    """Unrelated files are not taken for one job."""
    findings = check_files(read_files([str(FIELD / name) for name in rows()]))
    found = sorted(f.check.removeprefix("launch.") for f in findings if str(f.verdict) == "fail")
    assert found == sorted(MISTAKES.values())


def guide(name, start, end):
    """A piece of a guide, between two of its lines."""
    return (GUIDES / name).read_text().partition(start)[2].partition(end)[0]


@with_guides
def test_the_guide_of_accelerate():
    """As printed it is full of placeholders; filled in it is silent, with one rank twice it fails."""
    text = guide("amphion-accelerate.txt", "配置文件(default_config.yaml)\n", "启动命令")
    assert set(failed({"n0.yaml": text})) == {"master_address_is_an_address", "numbers_are_numbers"}
    for old, new in (
        ("主节点IP", "10.0.0.1"),
        ("通信端口", "29500"),
        ("参与训练的机器总数", "2"),
        ("总进程数(通常等于总GPU数)", "16"),
    ):
        text = text.replace(old, new)
    second = text.replace("machine_rank: 0", "machine_rank: 1")
    assert rules({"n0.yaml": text, "n1.yaml": second}) == []
    assert failed({"n0.yaml": text, "n1.yaml": text}) == ["ranks_are_distinct"]


@with_guides
def test_the_guide_of_torchrun():
    """$RANDOM as rdzv_id comes out different on each node; $head_node_ip, which is set nowhere, is told."""
    text = guide("sana-torchrun.txt", "典型的双节点训练启动命令示例:\n", "参数详解")
    assert failed({"n.sh": text}) == ["rendezvous_id_is_the_same_everywhere"]
    assert any("$head_node_ip is set nowhere" in one.message for one in judged({"n.sh": text}))
    for name, value in {"$RANDOM": "sana1", "$head_node_ip": "10.0.0.1", "$config": "a", "$output_dir": "b"}.items():
        text = text.replace(name, value)
    assert rules({"n.sh": text.replace("$job_name", "c")}) == []


@with_guides
def test_the_guide_of_variables():
    """WORLD_SIZE as the number of machines is told; a rank twice fails."""
    text = guide("minimind-env.txt", "主节点(机器0)配置:\n", "从节点").replace("<主节点IP>", "10.0.0.1")
    second = text.replace("RANK=0\nexport M", "RANK=1\nexport M")
    assert rules({"n0.sh": text, "n1.sh": second}) == ["world_size_counts_processes"]
    assert failed({"n0.sh": text, "n1.sh": text}) == ["ranks_are_distinct"]


@with_guides
def test_the_guide_of_deepspeed():
    """Printed without indentation it is refused; four files of four ranks are right, three are not."""
    text = guide("diffsynth-accelerate-deepspeed.txt", "YAML 配置文件示例:\n", "在多机多卡分布式训练中")
    assert set(failed({"n0.yaml": text})) == {"keys_are_indented", "master_address_is_an_address"}
    for key in (
        "deepspeed_multinode",
        "gradient_acc",
        "gradient_clip",
        "offload_",
        "zero",
        "dynamo_backend",
        "dynamo_mode",
        "dynamo_use",
    ):
        text = text.replace(f"\n{key}", f"\n  {key}")
    text = text.replace("10.233.xx.xx", "10.233.0.1")
    files = {f"n{rank}.yaml": text.replace("machine_rank: 0", f"machine_rank: {rank}") for rank in range(4)}
    # It offloads parameters at stage 2, which does nothing.
    assert set(rules(files)) == {"settings_fit_the_zero_stage"}
    del files["n3.yaml"]
    assert failed(files) == ["every_node_has_its_file"]


def test_two_nodes_with_their_own_number_of_processes():
    """The same field on both machines: 7 on one and 2 on the other never meet."""
    text = (
        "distributed_type: MULTI_GPU\nmachine_rank: {}\nmain_process_ip: 10.0.0.1\nmain_process_port:"
        " 29500\nnum_machines: 2\nnum_processes: {}\n"
    )
    found = judged({"n0.yaml": text.format(0, 7), "n1.yaml": text.format(1, 2)})
    assert {f.check for f in found} == {"launch.fields_agree", "launch.num_processes_divides"}


def test_the_worst_stands_first_then_files_and_lines_in_their_order():
    """A fail before a warning before a file that was not judged."""
    texts = {"notes.txt": "some words\n", "b.sh": torchrun(), "a.sh": torchrun(), **pair(exports)}
    found = judged(texts)
    verdicts = [str(finding.verdict) for finding in found]
    assert verdicts == sorted(verdicts, key=("fail", "error", "warn", "pass", "skip").index)
    assert {"fail", "warn", "skip"} <= set(verdicts)
    places = [(str(f.verdict), f.where[0].file, f.where[0].line) for f in found if f.where]
    fails = [place for place in places if place[0] == "fail"]
    assert fails == sorted(fails)


def test_the_same_finding_in_several_places_is_one():
    """With all of them, each once."""
    line = "torchrun --nnodes=two --nproc_per_node=8 --node_rank=0 --master_addr=10.0.0.1 t.py\n"
    found = [finding for finding in judged({"n.sh": line * 3}) if finding.check == "launch.numbers_are_numbers"]
    assert [[where.line for where in finding.where] for finding in found] == [[1, 2, 3]]


def test_no_secret_stands_in_a_finding():
    """A message that shows a command or value hides what is named like one."""
    text = torchrun(more="--nnodes=--api-key=hunter2x")
    assert all("hunter2x" not in finding.message + finding.fix for finding in judged({"n.sh": text}))


def test_nodes_are_compared_only_where_their_facts_are_there():
    """Without a cluster, or with one that nobody answered in, the files are judged by themselves."""
    eight, two = pair(torchrun), cluster_of(node(0), node(1, gpus=2))
    assert rules(eight) == rules(eight, Cluster(())) == []
    assert rules(eight, cluster()) == []
    assert rules(eight, two) != []


def test_right_files_give_no_finding_and_what_they_say():
    """Also where nothing is wrong the files are read: the plan is what a report shows."""
    findings, files = check_texts({"n.yaml": config()})
    assert findings == ()
    assert [plan.where.file for plan in files.plans] == ["n.yaml"]


WORDS = {
    "semicolon": "; touch BROKEN_OUT #",
    "every": "$(touch BROKEN_OUT)`touch BROKEN_OUT`' ; touch BROKEN_OUT ; '\" && touch BROKEN_OUT \"",
    "line": "\ntouch BROKEN_OUT\n",
}
ENDPOINT = (
    "torchrun --nnodes=2 --nproc_per_node=8 --rdzv_backend=c10d --rdzv_id=a --rdzv_endpoint=10.0.0.1:29500 t.py\n"
)
SERVER = "vllm serve m -tp 8 --nnodes 2 --node-rank {} --master-addr 10.0.0.1\n"
FITS = "export NCCL_SOCKET_IFNAME=ib9 GLOO_SOCKET_IFNAME=ib9 NCCL_IB_HCA=mlx9 NCCL_IB_GID_INDEX=9\n"


def lying(index, words):
    """A node whose every name, path and version ends with these words."""
    held = node(
        index,
        interfaces=(f"eth0{words}", f"eth1{words}"),
        hcas=(f"mlx5_0{words}",),
        python=f"/usr/bin/python{words}",
        model=f"Tesla V100{words}",
        listening=(29500,),
        conf=(("NCCL_IB_USE_INLINE", "1"),),
        packages={"accelerate": f"1.0{words}"} if index else (),
    )
    named = {"hostname": f"node{index + 1}{words}", "fqdn": f"node{index + 1}.lan{words}"}
    held.subjects["identity"] = msgspec.structs.replace(
        held.subjects["identity"], hostname_addresses=("127.0.1.1",), **named
    )
    away = (Gateway(f"eth1{words}", "10.1.0.254", "inet"),)
    held.subjects["network"] = msgspec.structs.replace(held.subjects["network"], gateways=away)
    held.subjects["environment"] = Environment(
        variables={"NCCL_IB_USE_INLINE": Variable("1", f"/etc/nccl.conf{words}")}
    )
    held.subjects["trust"] = Trust(logins=(Login("10.0.0.2", f"Permission denied{words}", 0.1, ""),))
    return held


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_no_word_of_a_node_becomes_a_command_or_a_line(tmp_path, words):
    """What a fix says to type is run by a shell that has `touch` alone; a line of a file is written anew by none."""
    nodes = cluster_of(lying(0, words), lying(1, words))
    files = (
        pair(config),
        {name: FITS + text for name, text in pair(torchrun).items()},
        {"n0.sh": "accelerate launch --config_file n0.yaml train.py\n", "n0.yaml": config()},
        {"run.sh": ENDPOINT},
        {f"n{rank}.sh": SERVER.format(rank) for rank in (0, 1)},
        {"run.sh": "deepspeed --hostfile=hostfile train.py\n", "hostfile": HOSTFILE.replace("worker-", "node")},
    )
    found = [finding for texts in files for finding in check_texts(texts, nodes)[0]]
    spoken = {finding.check for finding in found if "BROKEN_OUT" in finding.message + finding.fix}
    assert len(spoken) >= 6, spoken
    assert not any("BROKEN_OUT" in line for finding in found for edit in finding.edits for line in edit.lines)
    (tmp_path / "touch").symlink_to(shutil.which("touch") or "/bin/touch")
    for fix in {finding.fix for finding in found}:
        marked = re.findall(r"`([^`]*)`", fix) if "`" not in words else ()
        for typed in (fix, *marked, *re.findall(r"export [^`]*", fix)):
            there = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
            subprocess.run(
                ["/bin/sh", "-c", typed], cwd=tmp_path, env=there, check=False, capture_output=True, timeout=60
            )
            assert not (tmp_path / "BROKEN_OUT").exists(), typed


def test_what_is_wrong_in_a_loop_is_told_once():
    """Each turn is a start of its own with its own values; the line that is wrong is one."""
    start = "accelerate launch OMP_NUM_THREADS=8 --num_machines 1 --num_processes 4 t.py --lr $lr"
    text = f"for lr in 1 2; do\n  {start}\ndone\n"
    findings, files = check_texts({"sweep.sh": text})
    assert len(files.plans) == 2
    assert [(one.check, one.where[0].line) for one in findings] == [("launch.program_is_given", 2)]
    assert "--lr 1" in findings[0].fix
