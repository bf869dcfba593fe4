"""Does the whole path of a GPU cluster run over two hosts of several ranks, with NCCL's ways of failing?

Above torch everything is ours and real: ssh, node agents, ranks, records, logs, blame, report. Below it `standin`
stands for CUDA, NCCL and NVML. What only a GPU shows (speed, P2P, GDR, kernels) is not shown here.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack

import pytest

from tests import cuda
from tests.cuda import perftest
from tests.lab import rdma

WAIT_SECONDS = 5.0
# Acts in the sixth collective of that rank whose data is large: the measurement is under way.
ACT = """
import os, signal, torch.distributed as dist
whole, calls = dist.all_reduce, []
def all_reduce(tensor, *words, **named):
    calls.append(tensor.numel() > 10000)
    if sum(calls) == 6 and os.environ.get("RANK") == "2":
        os.kill(os.getpid(), signal.{signal})
    return whole(tensor, *words, **named)
dist.all_reduce = all_reduce
"""


@pytest.fixture
def lab2(make_lab):
    """Two hosts without GPUs."""
    return make_lab(hosts=2, rate=None)


@pytest.fixture
def run(lab2, tmp_path):
    """A verb over both hosts with backend nccl; its report, the seconds that it took, and its logs."""

    def run_verb(verb, *words, gpus=2, plant="", of_node2=None, **described):
        folder = tmp_path / verb
        argv = [sys.executable, "-m", "preflight", verb, f"--hosts={lab2.names}", f"--python={sys.executable}"]
        before, began = lab2.residue(), time.monotonic()
        with ExitStack() as planted:
            for name in ("node1", "node2"):
                own = {**described, **((of_node2 or {}) if name == "node2" else {})}
                planted.enter_context(cuda.plant(lab2[name], plant, gpus=gpus, **own))
            more = ["--backend=nccl", f"--ranks-per-node={gpus}", f"--report-dir={folder}"]
            done = lab2.run([*argv, *more, *words], timeout_s=200)
        seconds = time.monotonic() - began
        assert (folder / "report.json").exists(), done.stdout + done.stderr
        assert lab2.left_since(before) == {}
        report = json.loads((folder / "report.json").read_text())
        return report, seconds, {path.name: path.read_text() for path in (folder / "logs").iterdir()}, done

    return run_verb


NINE = ("bench", "--op=all", "-b", "64K", "-e", "64K", "--iters=6")


def nine_are_right(bench, logs, done, *, ranks):
    """Every operation over all ranks, and of each rank the network, its interface and its paths."""
    assert bench, done.stdout + done.stderr
    assert bench["not_measured"] == "", done.stdout + done.stderr
    assert {(result["ranks"], result["wrong"]) for result in bench["results"]} == {(ranks, 0)}
    assert len({result["op"] for result in bench["results"]}) == 9
    assert [rank["nccl"] for rank in bench["ranks"]] == ["2.27.3 linked into torch"] * ranks
    assert {use["network"] for use in bench["transports"]} == {"Socket"}
    assert {way for use in bench["transports"] for way in use["between_nodes"]} == {"NET/Socket"}
    assert {way for use in bench["transports"] for way in use["within_node"]} == {"P2P/CUMEM"}
    assert not any("-nccl.log" in name for name in logs)
    assert len(bench["devices"]) == ranks
    assert all(device["products"] > 100 and not device["wrong_products"] for device in bench["devices"])


def test_nine_collectives_are_right_and_ncclls_log_is_read(run):
    """One after the other over four ranks, and every GPU at its own clock."""
    report, _, logs, done = run(*NINE, "--mode=blocking")
    nine_are_right(report["bench"], logs, done, ranks=4)
    assert {device["sm_mhz"] for device in report["bench"]["devices"]} == {1980.0}
    assert "NCCL_ALGO=Ring" in {result["group"] for result in report["bench"]["results"]}
    assert {use["algorithm"] for use in report["bench"]["transports"] if use["algorithm"]} == {"TREE SIMPLE"}


def test_a_nccl_that_does_not_read_its_variable_again_is_measured_over_no_ring(run):
    """Its log shows that: the second all-reduce is left out, and what was measured counts.

    So are two GPUs of node2 named whose products are not what they were, and not the same by another way.
    """
    asked = ("bench", "-b", "64K", "-e", "64K", "--iters=6")
    report, _, _, done = run(*asked, gpus=3, deaf=True, of_node2={"wrong": [1], "crooked": [0]})
    assert {result["group"] for result in report["bench"]["results"]} == {""}, done.stdout + done.stderr
    why = "all_reduce with NCCL_ALGO=Ring: NCCL's log says that it took TREE SIMPLE"
    assert report["bench"]["left_out"] == [why]
    check = "bench.gpus_multiply_alike_every_time"
    (told,) = [one for one in report["findings"] if one["check"] == check and one["verdict"] == "fail"]
    crooked, wrong = told["message"].split("; ")
    assert told["nodes"] == ["node2"]
    assert crooked.startswith("GPU-00000000 0000:10:00.0 (cuda:0) of node2"), done.stdout
    assert crooked.endswith("9216 elements of one exact product differ by two ways")
    assert wrong.startswith("GPU-00000001 0000:11:00.0 (cuda:1) of node2")
    assert wrong.endswith("products differ from those of the same product before")


def test_a_gpu_at_half_its_clock_is_named_with_the_reason(run, lab2):
    """By default, in the ranks of the benchmark: board 2 of each node, with what NVML tells of it under load.

    So is the slow link of board 1. On node2 CUDA counts the boards from the last to the first: there they have other
    numbers. Pipelined over eight ranks, and all that they deliver is right.
    """
    told = {"slow": {"2": 0.5}, "reasons": {"2": 64}, "pcie": {"1": 3}}
    with lab2["node2"].environment(CUDA_VISIBLE_DEVICES="3,2,1,0"):
        report, _, logs, done = run(*NINE, "--mode=pipelined", gpus=4, **told)
    nine_are_right(report["bench"], logs, done, ranks=8)
    said: dict[str, str] = {}
    for finding in report["findings"]:
        if finding["verdict"] in {"fail", "warn"}:
            said[finding["check"]] = said.get(finding["check"], "") + finding["message"] + "\n"
    for node, number in (("node1", 2), ("node2", 1)):
        named = f"GPU-00000002 0000:12:00.0 (cuda:{number}) of {node}"
        assert f"{named} (NVIDIA H100 80GB HBM3) multiplies" in said["bench.no_gpu_is_slower_than_its_equals"]
        assert named in said["bench.no_gpu_is_slowed_down_under_load"]
        other = f"GPU-00000001 0000:11:00.0 (cuda:{3 - number}) of {node}"
        assert other in said["bench.no_gpu_is_slowed_down_under_load"]
        assert other not in said["bench.no_gpu_is_slower_than_its_equals"]
    assert "990 of 1980 MHz" in said["bench.no_gpu_is_slower_than_its_equals"], done.stdout
    assert "hardware thermal slow-down" in said["bench.no_gpu_is_slowed_down_under_load"]
    assert "its PCIe link runs at generation 3, and can at 5" in said["bench.no_gpu_is_slowed_down_under_load"]
    assert "memory 64 °C, PCIe Gen3 x16" in said["bench.no_gpu_is_slowed_down_under_load"]


@pytest.mark.parametrize(
    ("memory", "verdict", "words"),
    [
        (
            {"free_bytes": 3 << 30},
            "error",
            "other processes fill GPU-00000000 0000:10:00.0 (cuda:0) (NVIDIA H100 80GB HBM3): 3071 of its 81920 MiB",
        ),
        (
            {"free_bytes": 7 << 30, "memory_bytes": 8 << 30},
            "skip",
            "0000:10:00.0 (cuda:0) (NVIDIA H100 80GB HBM3) has 8192 MiB",
        ),
    ],
)
def test_gpus_without_room_are_told_and_those_of_the_other_node_are_compared(run, memory, verdict, words):
    """What others fill is not measured, a small GPU is skipped; GPU 1 of the other node is still named as slow."""
    asked = ("bench", "-b", "64K", "-e", "64K", "--iters=6")
    report, _, _, done = run(*asked, gpus=3, slow={"1": 0.4}, of_node2=memory)
    assert {device["node"] for device in report["bench"]["devices"]} == {"node1"}, done.stdout + done.stderr
    of_gpus = [one for one in report["findings"] if one["check"] == "bench.no_gpu_is_slower_than_its_equals"]
    told = {one["nodes"][0]: (one["verdict"], one["message"]) for one in of_gpus}
    assert told["node1"][0] == "fail"
    assert told["node1"][1].startswith("GPU-00000001 0000:11:00.0 (cuda:1) of node1")
    assert told["node2"][0] == verdict
    assert words in told["node2"][1]
    assert told["node2"][1].endswith(", and 2 more")
    assert report["verdict"] != "pass"


def test_the_reference_training_runs(run):
    """DDP over four ranks: losses fall, parameters agree to the last bit, gradients are what a peer computes."""
    report, _, _, done = run("train")
    training = report["training"]
    assert training["not_measured"] == "", done.stdout + done.stderr
    assert training["backend"] == "nccl"
    assert len(training["ranks"]) == 4
    assert len({rank["parameters_digest"] for rank in training["ranks"]}) == 1
    assert training["losses"][-1] < training["losses"][0]


@pytest.mark.parametrize(("act", "ended"), [("SIGKILL", "ended with -9"), ("SIGSTOP", "")])
def test_a_rank_that_is_killed_or_stopped_is_named_and_every_log_is_kept(run, lab2, act, ended):
    """The others die of it: by NCCL's async error, or by the watchdog's time-out. Nothing is left in a home."""
    words = {"wait_seconds": WAIT_SECONDS, "plant": ACT.format(signal=act)}
    report, seconds, logs, done = run("bench", "-b", "1M", "-e", "1M", "--iters=20", **words)
    bench = report["bench"]
    assert bench, done.stdout + done.stderr
    assert bench["not_measured_nodes"] == ["node2"], bench["not_measured"]
    assert bench["not_measured"].startswith("rank 2 on node2 stopped at stage running")
    assert ended in bench["not_measured"]
    assert seconds < 120
    for rank in range(4):
        log = logs[f"bench-rank{rank}-node{1 + rank // 2}-nccl.log"]
        assert "Init COMPLETE" in log
    recorded = [name for name in logs if "flight-recorder" in name]
    assert len(recorded) >= 2  # NCCL's error may end a rank of the same node before it has written
    assert all(json.loads(logs[name])["entries"][-1]["profiling_name"] == "nccl:allreduce" for name in recorded)
    assert "bench-rank2-node2-flight-recorder.log" not in logs


def test_a_slow_rail_is_named_by_pairs_of_ranks(make_lab, tmp_path):
    """Three hosts whose NCCL says InfiniBand: no TCP stream is asked, the pairs of ranks name host and direction."""
    lab = make_lab(hosts=3, rate="400mbit")
    lab["node3"].shape(egress="60mbit", ingress="400mbit")
    folder = tmp_path / "bench"
    argv = [sys.executable, "-m", "preflight", "bench", f"--hosts={lab.names}", f"--python={sys.executable}"]
    more = ["--backend=nccl", "--ranks-per-node=1", f"--report-dir={folder}", "-b", "1M", "-e", "1M", "--iters=6"]
    with ExitStack() as planted:
        for host in lab.hosts:
            planted.enter_context(cuda.plant(host, gpus=1, network="IB", ports=("mlx5_0:1/IB",)))
        done = lab.run([*argv, *more], timeout_s=200)
    bench = json.loads((folder / "report.json").read_text())["bench"]
    assert bench["streams"] == []
    assert [(one["nodes"], one["part"], one["direction"]) for one in bench["slow"]] == [
        (["node3"], "rail 0", "egress")
    ], done.stdout + done.stderr
    assert {one["network"] for one in bench["transports"]} == {"IB"}


@pytest.mark.parametrize(("rates", "direction"), [((48.5, 392.0), "egress"), ((392.0, 48.5), "ingress")])
def test_a_slow_rdma_port_is_named_by_ib_write_bw(rates, direction, make_lab, tmp_path):
    """One of two ports of a host, which NCCL's own pairs do not tell from its GPU: with its direction, and no other."""
    lab = make_lab(hosts=3, rate="400mbit")
    ports = [rdma.RdmaDevice(name=name, rate="400 Gb/sec (4X NDR)") for name in ("mlx5_0", "mlx5_1")]
    argv = [sys.executable, "-m", "preflight", "bench", f"--hosts={lab.names}", f"--python={sys.executable}"]
    more = ["--backend=nccl", "--ranks-per-node=1", f"--report-dir={tmp_path / 'bench'}", "--localize"]
    with ExitStack() as planted:
        for host in lab.hosts:
            described = {"gpus": 1, "network": "IB", "ports": ("mlx5_0:1/RoCE", "mlx5_1:1/RoCE")}
            planted.enter_context(cuda.plant(host, **described))
            planted.enter_context(host.rdma_tree(ports))
            planted.enter_context(perftest.plant(host, {"mlx5_1": rates} if host.name == "node3" else {}))
        before = lab.residue()
        done = lab.run([*argv, *more, "-b", "1M", "-e", "1M", "--iters=6"], timeout_s=200)
        assert lab.left_since(before) == {}
    report = json.loads((tmp_path / "bench/report.json").read_text())
    assert [(one["nodes"], one["part"], one["direction"]) for one in report["bench"]["slow"]] == [
        (["node3"], "RDMA port mlx5_1:1", direction)
    ], done.stdout + done.stderr
    said = [one["message"] for one in report["findings"] if one["check"] == "bench.no_node_is_slower_than_its_peers"]
    assert any("RDMA port mlx5_1:1" in message for message in said), said
