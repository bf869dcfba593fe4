"""What do the ranks of whole jobs record, field by field? ``python -m tests.job.ranks.told`` writes it.

Each scenario is a job of forked ranks, on the processor or on the GPUs that tests/cuda stands in for. What a machine or
its hour decides is left out: of a time or rate stands whether it is more than nothing, of an error of rounding how
large it is about, of a digest which ranks have the same.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from typing import Any

from tests.house import ROOT
from tests.job.ranks.conftest import Ranks
from tests.scratch import of_a_program

FILE = ROOT / "tests" / "data" / "said" / "ranks.txt"
# As many bytes or products as this machine has room or time for, and errors that are none or those of rounding.
OF_THE_MACHINE = ("products", "room_bytes", "memory_peak_bytes", "temperature_celsius")
OF_ROUNDING = ("gradient_error", "parameters_error", "accumulation_error")
OF_THE_HOUR = ("quota_periods", "quota_periods_stopped")
OF_A_GPU = {"matmul_tflops_per_s": 720.0, "memory_gbytes_per_s": 2900.0, "to_device_gbytes_per_s": 55.0}
FASTEST = 400.0  # GB/s between two of these ranks: none is there without a wait for the message
OF_A_SENSOR = ("sm_", "memory_mhz", "memory_celsius", "memory_limit", "pcie_", "power_")
FEW = {"warmup": 1, "min_iterations": 6, "max_iterations": 6, "sizes": [4096]}
EVERY = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "all_to_all", "sendrecv"),
    *("gather", "scatter"),
)
GROUPS = [
    [{"name": "a", "ranks": [0, 2]}, {"name": "b", "ranks": [1, 3]}],
    [{"name": "c", "ranks": [1, 2, 3]}],
]
PAIRS = [[[0, 1]], [[1, 2]], [[2, 0]]]
SPOIL_THE_THIRD = """
import torch.distributed as dist
whole, calls = dist.all_reduce, []
def all_reduce(tensor, *args, **kwargs):
    done = whole(tensor, *args, **kwargs)
    calls.extend([1] * (tensor.numel() > 1000))
    if len(calls) == 3:
        tensor[1023] += 1
    return done
dist.all_reduce = all_reduce
"""
CUDA = {"gpus": 4, "wait_seconds": 20, "slow": {"1": 0.5}}
GPU = {"seconds": 0.3, "device": "cuda"}
OWN = {"PREFLIGHT_OWN_GPUS": "1", "LOCAL_RANK": "2"}  # as the third task of a node has it, which sees no other GPU
SLICES = [[1, "3g.40gb", 40 << 30], [1, "3g.40gb", 40 << 30]]
ON_A_SLICE = {"CUDA_VISIBLE_DEVICES": "MIG-00001001-0000-0000-0000-000000001001"}
NCCL = {"backend": "nccl", "wait_seconds": 20}


def on_gpus(ranks: int, settings: dict, *, described: dict = CUDA, **more: Any) -> dict:
    """A scenario of ranks that have a GPU each."""
    variables = {"STAND_IN_CUDA": json.dumps(described), "NCCL_SOCKET_IFNAME": "lo", "NCCL_HOSTID": "host"}
    more["variables"] = {**variables, **more.get("variables", {})}
    return {"ranks": ranks, "settings": settings if "device" in settings else {**NCCL, **settings}, **more}


def scenarios(folder: str) -> dict[str, dict[str, dict]]:
    """Program -> the jobs that are started with it; they may write into this folder."""
    here = {"variables": {"TMPDIR": folder}, "has_node": True}
    kept = {"checkpoint_dir": folder}
    return {
        "collectives": {
            "every operation": {"ranks": 3, "settings": {**FEW, "operations": EVERY}, "has_node": True},
            "alone": {"ranks": 1, "settings": {**FEW, "operations": EVERY}},
            "pipelined": {"ranks": 2, "settings": {**FEW, "operations": EVERY, "mode": "pipelined", "dtype": "int32"}},
            "groups": {"ranks": 4, "settings": {**FEW, "operations": ["all_reduce", "reduce"], "rounds": GROUPS}},
            "two batches": {"ranks": 2, "settings": {**FEW, "max_iterations": 12, "ci": 0.0}},
            "pairs": {"ranks": 3, "settings": {"operations": [], "pairs": PAIRS, "pair_bytes": 4096}},
            "ring": {"ranks": 2, "settings": {**FEW, "holds_to_ring": True}},
            "an element": {"ranks": 3, "settings": FEW, "plants": {"1": SPOIL_THE_THIRD}},
            "no room": {"ranks": 1, "settings": {**FEW, "sizes": [4096, 1 << 60]}},
            "GPUs": on_gpus(2, {**FEW, "operations": EVERY, "device_seconds": 0.05}, **here),
            "trains on GPUs": on_gpus(2, {**FEW, "operations": EVERY, "mode": "pipelined"}),
            "pairs of GPUs": on_gpus(3, {"operations": [], "pairs": PAIRS, "pair_bytes": 4096}),
            "groups of GPUs": on_gpus(4, {**FEW, "rounds": GROUPS}, **here),
            "two ranks of one slice": on_gpus(
                2, FEW, described={**CUDA, "slices": SLICES}, variables={**ON_A_SLICE, "PREFLIGHT_OWN_GPUS": "1"}
            ),
            "one GPU too few": on_gpus(2, {**FEW, "join_seconds": 1}, described={"gpus": 1}),
        },
        "devices": {
            "processor": {"ranks": 1, "settings": {"seconds": 0.05}},
            "GPUs": on_gpus(2, GPU),
            "other ordinals": on_gpus(2, GPU, variables={"CUDA_VISIBLE_DEVICES": "1,0"}),
            "by UUID": on_gpus(2, GPU, variables={"CUDA_VISIBLE_DEVICES": "GPU-00000001,GPU-00000000"}),
            "a slice by its UUID": on_gpus(1, GPU, described={**CUDA, "slices": SLICES}, variables=ON_A_SLICE),
            "a GPU of its own alone": on_gpus(1, GPU, described={"gpus": 1}, variables=OWN),
            "a kernel that fails": on_gpus(2, GPU, described={**CUDA, "failing": [1]}),
            "slowed down": on_gpus(1, GPU, described={**CUDA, "reasons": {"0": 72}, "pcie": {"0": 4}}),
            "no room": on_gpus(1, GPU, described={**CUDA, "free_bytes": 1 << 30}),
        },
        "train": {
            "two": {"ranks": 2, "settings": {"steps": 3}, "has_node": True},
            "alone": {"ranks": 1, "settings": {"steps": 3, "accumulate": 2}},
            "checkpoint": {"ranks": 2, "settings": {"steps": 4, **kept}},
            "drill": {"ranks": 2, "settings": {"steps": 4, "drill": True, "dying_rank": 1, "dying_step": 1}, **here},
            "shards": {"ranks": 2, "settings": {"steps": 2, "strategy": "fsdp", **kept}},
            "no folder": {"ranks": 2, "settings": {"steps": 2, "checkpoint_dir": f"{folder}/nowhere"}},
            "GPUs": on_gpus(2, {"steps": 3, "precision": "bf16"}, **here),
            "shards on GPUs": on_gpus(2, {"steps": 2, "strategy": "fsdp"}),
            "checkpoint of GPUs": on_gpus(2, {"steps": 4, **kept}),
        },
    }


def lines_of(played: dict[str, Any], folder: str) -> Iterator[str]:
    """The exit codes, and what each rank recorded, a record a line; of ranks that recorded the same the first alone."""
    yield f"ended {' '.join(map(str, played['codes']))}"
    names: dict[str, str] = {}
    of_rank: dict[int, list[str]] = {}
    for record in played["records"]:
        if record["record"] == "progress" and any("  progress" in line for line in of_rank.get(record["rank"], ())):
            continue  # how many more there are the hour decides
        if record["record"] != "stage":
            told = f"  {record['record']} {' '.join(fields_of(record, names))}".replace(folder, "FOLDER")
            of_rank.setdefault(record["rank"], []).append(told.rstrip())
        else:
            bytes_of = f" {record['op']} {record['bytes']}" if "op" in record else ""
            of_rank.setdefault(record["rank"], []).append(f"  {record['stage']}{bytes_of}")
    for rank, lines in of_rank.items():
        same = next(one for one, others in of_rank.items() if others == lines)
        yield from [f"rank {rank}", *lines] if same == rank else [f"rank {rank} as {same}"]


def fields_of(record: dict[str, Any], names: dict[str, str]) -> Iterator[str]:
    """What a record says; of figures that belong together, how."""
    for name, value in record.items():
        if name not in ("record", "rank", "hostname", *OF_THE_HOUR):
            yield f"{name}={shown(name, value, names)}"
    for name, usual in OF_A_GPU.items():
        if record.get("device", "cpu") != "cpu" and name in record:
            yield f"{name.partition('_')[0]}_is={share_of(record[name] / usual)}"
    if "algbw_gbytes_per_s" in record:
        yield f"rate={record['algbw_gbytes_per_s'] * record['seconds_median'] * 1e9 / record['bytes']:.4f}"
        yield f"bus={record['busbw_gbytes_per_s'] / record['algbw_gbytes_per_s']:.4f}"
    if "gbytes_per_s" in record:
        yield f"rate={record['gbytes_per_s'] * record['seconds'] * 1e9 / record['bytes']:.4f}"
        yield f"possible={record['gbytes_per_s'] < FASTEST}"


def share_of(figure: float) -> str:
    """All of what a GPU can do, half of it, or another share: the clock that is kept for it costs some."""
    return "more" if figure > 1.2 else "all" if figure > 0.7 else "half" if figure > 0.35 else "less"


def shown(name: str, value: Any, names: dict[str, str]) -> str:
    """A value without what only this machine decides."""
    if name.endswith("digest"):
        return names.setdefault(value, f"#{len(names)}")
    if name == "losses":
        return " ".join(f"{one:.1f}" for one in value)
    if name.startswith(OF_A_SENSOR):
        return f"{value:.0f}"
    if isinstance(value, float) or name in OF_THE_MACHINE:
        return size_of(float(value), name)
    if name == "lines":
        kept = [re.sub(r"^.*INFO |\d+\.\d+\.\d+\.\d+<\d+>", "", line) for line in value]
        # How many times are compared at once, which the hour decides, shows in the small ones.
        return " / ".join(line[:60] for line in kept if not re.search(r": \d{1,3} Bytes", line))
    if isinstance(value, list):
        held = [shown(name, one, names) for one in value]
        same = len(held) > 1 and len(set(held)) == 1
        return f"{len(held)}x {held[0]}" if same else f"[{', '.join(held)}]"
    return str(value).partition(":")[0] if name == "error" else str(value)


def size_of(value: float, name: str) -> str:
    """About how large: a time or rate is more than nothing, an error is one of rounding or is not."""
    if name in OF_ROUNDING:
        return "rounding" if value < 2e-2 else "large"
    return "0" if value == 0 else "-" if value < 0 else "+"


def jobs(folder: str) -> dict[str, tuple[str, dict]]:
    """Each job by its name: the program and the scenario."""
    every = scenarios(folder).items()
    return {f"{program}: {name}": (program, one) for program, some in every for name, one in some.items()}


def listed() -> dict[str, list[str]]:
    """What was written: job -> lines."""
    _, *parts = f"\n{FILE.read_text(encoding='utf-8')}".split("\n##### ")
    return {head: lines for head, *lines in (part.removesuffix("\n").split("\n") for part in parts)}


def main() -> None:
    """Write all of it."""
    ranks, text = Ranks(), ""
    for name in jobs(""):
        with tempfile.TemporaryDirectory() as folder:  # each has one of its own, as in the test
            lines = lines_of(ranks.play(*jobs(folder)[name]), folder)
            text += "\n".join([f"##### {name}", *lines, ""])
    ranks.close()
    FILE.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    with of_a_program():
        main()
