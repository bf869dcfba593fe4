"""What must be the same in every file of a job."""

from __future__ import annotations

import pytest

from preflight.launch.rules.agreement import by_option
from tests.launch.samples import config, failed, judged, pair, rules, torchrun


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_machines", "3"),
        ("num_processes", "8"),
        ("main_process_ip", "10.0.0.2"),
        ("main_process_port", "29501"),
        ("mixed_precision", "fp16"),
        ("distributed_type", "FSDP"),
    ],
)
def test_a_field_that_differs_fails(field, value):
    """Both places are named, the odd one first."""
    assert "fields_agree" in failed({"n0.yaml": config(0), "n1.yaml": config(1, **{field: value})})


def test_sections_must_agree():
    """ZeRO stage 2 on one node and 3 on the other."""
    section = "deepspeed_config:\n  deepspeed_multinode_launcher: standard\n  zero_stage: {}\n"
    files = {f"n{rank}.yaml": config(rank, distributed_type="DEEPSPEED") + section.format(2 + rank) for rank in (0, 1)}
    (found,) = judged(files)
    assert "deepspeed_config.zero_stage differs: 2 in n0.yaml:18; 3 in n1.yaml:18" in found.message


def test_different_arguments_warn():
    """--lr 1 against --lr 2; a path with the node's number in it may differ."""
    other = {"n0.sh": torchrun(0, program="train.py --lr 1"), "n1.sh": torchrun(1, program="train.py --lr 2")}
    assert rules(other) == ["programs_agree"]
    paths = {f"n{rank}.sh": torchrun(rank, program=f"train.py --out out/{rank}") for rank in (0, 1)}
    assert rules(paths) == []


def test_unrelated_single_node_files_are_no_set():
    """Two files of one machine each, called alike, are two jobs."""
    alone = {"num_machines": "1", "main_process_ip": None}
    assert rules({"a_1.yaml": config(0, **alone), "a_2.yaml": config(0, **alone)}) == []
    assert rules(pair(config)) == []


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        ("--seq 4096 --lr 1", "--seq 2048 --lr 1", "--seq of the program differs: 4096 in n0.sh; 2048 in n1.sh"),
        ("--seq=4096", "--seq=2048", "--seq of the program differs: 4096 in n0.sh; 2048 in n1.sh"),
        ("model.seq=1", "model.seq=2", "model.seq of the program differs: 1 in n0.sh; 2 in n1.sh"),
        ("--bf16", "", "--bf16 of the program differs: given in n0.sh; absent in n1.sh"),
        ("--node-rank 0", "--node-rank 1", ""),
        ("--out /data/node0", "--out /data/node1", ""),
    ],
)
def test_arguments_that_differ_are_named_by_their_option(first, second, named):
    """With both values; what tells a node from the others may differ."""
    files = pair(torchrun)
    given = zip(files.values(), (first, second), strict=True)
    texts = [text.replace("train.py", f"train.py {words}") for text, words in given]
    found = judged(dict(zip(("n0.sh", "n1.sh"), texts, strict=True)))
    assert [finding.message for finding in found] == ([named] if named else [])


def test_numbers_of_processes_that_differ_are_a_warning():
    """torchrun allows it where the GPUs of the nodes differ."""
    files = pair(torchrun)
    other = {name: text.replace("nproc_per_node=8", f"nproc_per_node={8 - 4 * place}")
             for place, (name, text) in enumerate(files.items())}  # fmt: skip
    assert other != files
    assert rules(other) == ["processes_agree"]


def test_nobody_is_advised_to_take_the_loopback():
    """Though two of three files say so."""
    addresses = ("10.0.0.1", "127.0.0.1", "127.0.0.1")
    texts = {f"n{rank}.sh": torchrun(rank, nodes=3, address=address) for rank, address in enumerate(addresses)}
    (found,) = (found for found in judged(texts) if found.check == "launch.fields_agree")
    assert "10.0.0.1" in found.fix
    assert "127.0.0.1" not in found.fix


@pytest.mark.parametrize(("key", "value"), [("rdzv_backend", "c10d"), ("same_network", "false")])
def test_keys_that_accelerate_does_not_read_have_no_effect(key, value):
    """Its command line has defaults of its own for them: the job runs, and the difference is told as none."""
    (found,) = judged({"n0.yaml": config(0), "n1.yaml": config(1, **{key: value})})
    assert (found.check, str(found.verdict)) == ("launch.settings_have_an_effect", "warn")
    assert f"{key} differs, with no effect" in found.message


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        ("NCCL_IB_DISABLE=1", "NCCL_IB_DISABLE=0", "fail"),
        ("NCCL_IB_DISABLE=1", "A=1", "fail"),
        ("NCCL_ALGO=Ring", "NCCL_ALGO=Tree", "fail"),
        ("NCCL_P2P_DISABLE=1", "A=1", "warn"),
        ("NCCL_IB_DISABLE=0", "A=1", ""),
        ("NCCL_SOCKET_IFNAME=eth0", "NCCL_SOCKET_IFNAME=ens3", ""),
        ('NCCL_ALGO="$ALGO"', "NCCL_ALGO=Tree", ""),
    ],
)
def test_exports_that_differ_between_the_scripts(one, other, verdict):
    """What NCCL wants alike on all ranks fails, the rest warns; what is each node's own, or not known, is silent."""
    files = {f"n{rank}.sh": f"export {line}\n{torchrun(rank)}" for rank, line in enumerate((one, other))}
    found = [str(one.verdict) for one in judged(files) if one.check == "launch.exports_agree"]
    assert found == ([verdict] if verdict else [])


@pytest.mark.parametrize(
    ("ports", "odd"),
    [((29500, 29500, 29500, 29501), ["config4"]), ((29500, 29501, 29502, 29503), ["config2", "config3", "config4"])],
)
def test_every_file_of_four_is_named_by_its_own_name(ports, odd):
    """With its value and its line, the odd ones first; no name stands for several."""
    files = {f"config{rank + 1}.yaml": config(rank, num_machines="4", num_processes="8") for rank in range(4)}
    texts = {name: text.replace("29500", str(port)) for (name, text), port in zip(files.items(), ports, strict=True)}
    (found,) = [one for one in judged(texts) if one.check == "launch.fields_agree"]
    named = [where.file.removesuffix(".yaml") for where in found.where]
    assert named[: len(odd)] == odd
    assert sorted(named) == ["config1", "config2", "config3", "config4"]
    assert all(f"{name}.yaml:" in found.message for name in named)
    assert "#" not in found.message + found.fix


def test_nodes_that_run_different_images_warn():
    """docker run of one version here, of another there."""
    run = "docker run --gpus all --network=host --ipc=host --ulimit memlock=-1 nvcr.io/pytorch:24.{} torchrun "
    texts = {f"node{rank}.sh": torchrun(rank).replace("torchrun ", run.format(rank)) for rank in (0, 1)}
    assert rules(texts) == ["images_agree"]
    assert rules({name: text.replace("24.1", "24.0") for name, text in texts.items()}) == []


def test_the_field_that_differs_is_named():
    """As the files call it, with both values and places."""
    files = {}
    for rank in (0, 1):
        more = f"--rdzv_backend=c10d --rdzv_endpoint=10.0.0.1:29500 --rdzv_id=job{rank}"
        files[f"n{rank}.sh"] = f"torchrun --nnodes=2 --nproc_per_node=8 {more} train.py\n"
    (found,) = judged(files)
    assert (found.check, found.message) == (
        "launch.fields_agree",
        "--rdzv_id differs: job0 in n0.sh:1; job1 in n1.sh:1",
    )


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (["cfg.yaml", "--seq", "4096"], {"argument 1": "cfg.yaml", "--seq": "4096"}),
        (["--seq=4096", "x"], {"--seq": "4096", "argument 2": "x"}),
        (["model.seq=1", "--bf16"], {"model.seq": "1", "--bf16": ""}),
        (["--bf16", "--lr", "-1e-4"], {"--bf16": "", "--lr": "-1e-4"}),
        (["--from", "-"], {"--from": "-"}),
        (["-v", "-n", "2"], {"-v": "", "-n": "2"}),
    ],
)
def test_arguments_are_known_by_their_option_or_place(given, options):
    """A number below zero is a value, and what begins like an option is none."""
    assert by_option(given) == options
