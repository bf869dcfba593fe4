"""Is a mistake seen that only a GPU would show? Each is planted into the program, which tests/cuda then contradicts."""

from __future__ import annotations

import json

import pytest

from tests.job.ranks import told

EVERY = {**told.FEW, "operations": told.EVERY}
PIPELINED = {**EVERY, "mode": "pipelined"}
PAIRS = {"operations": [], "pairs": told.PAIRS, "pair_bytes": 4 << 20}
LONG_PAIRS = {**PAIRS, "pair_bytes": 64 << 20}
GROUPS = {**told.FEW, "rounds": told.GROUPS}
TRAIN = {"steps": 2}
SHARDS = {**TRAIN, "strategy": "fsdp"}
KEPT = {"steps": 4, "checkpoint_dir": "FOLDER"}
HOST = {**told.GPU, "figures": ["host"]}
THERE = "there = torch.zeros(HOST_BYTES, dtype=torch.uint8"
IN_TRAINS = {**GROUPS, "mode": "pipelined"}
RING = {**told.FEW, "holds_to_ring": True}
SIZES = {**told.FEW, "sizes": [4096, 1 << 19]}
LARGE = {**SIZES, "described": {**told.CUDA, "free_bytes": 1 << 20}}
SHARED = {**SIZES, "described": {**told.CUDA, "free_bytes": 1 << 20, "integrated": True}}
RESUMED = "resumed = Trainee(start, "
LATER = '.to("cpu", non_blocking=True)'  # who reads that at once reads what was there before
# Program, ranks, settings -> what is planted into it: a text of the program, and what stands there instead.
MISTAKES = {
    "devices: no synchronize": ("devices", 2, told.GPU, "wait = cuda.synchronize if", "wait = cuda.is_initialized if"),
    "devices: another GPU": ("devices", 2, told.GPU, "torch.cuda.set_device(device)", "torch.cuda.set_device(0)"),
    "devices: an ordinal of the node": ("devices", 2, told.GPU, 'os.environ.get("LOCAL_RANK", "0")', '"9"'),
    "devices: a sum on the host": (
        "devices",
        2,
        told.GPU,
        "int64, device=device)\n    products",
        "int64)\n    products",
    ),
    "host copies: no synchronize": ("devices", 2, HOST, "wait = cuda.synchronize if", "wait = cuda.is_initialized if"),
    "host copies: within the host": ("devices", 2, HOST, THERE + ", device=device)", THERE + ")"),
    "collectives: another GPU": ("collectives", 2, EVERY, "torch.cuda.set_device(device)", "torch.cuda.set_device(0)"),
    "collectives: a wait that is left out": ("collectives", 2, PIPELINED, "finish(work)", "str(work)"),
    "collectives: no synchronize": ("collectives", 2, EVERY, "ended.synchronize()", "str(ended)"),
    "collectives: a tensor of the host": ("collectives", 2, EVERY, "torch.int64, device=place.device)", "torch.int64)"),
    "collectives: events without time": ("collectives", 2, EVERY, "event(enable_timing=True), event", "event(), event"),
    "pairs: no synchronize": ("collectives", 3, PAIRS, "ended.synchronize()", "str(ended)"),
    "pairs: another GPU": ("collectives", 3, PAIRS, "torch.cuda.set_device(device)", "torch.cuda.set_device(0)"),
    "pairs: a message of the host": ("collectives", 3, PAIRS, "torch.uint8, device=place.device)", "torch.uint8)"),
    "pairs: a wait that is left out": ("collectives", 3, LONG_PAIRS, "finish(dist.batch_isend", "str(dist.batch_isend"),
    "groups: another GPU": ("collectives", 4, GROUPS, "torch.cuda.set_device(device)", "torch.cuda.set_device(0)"),
    "groups: a vector of the host": ("collectives", 4, GROUPS, "torch.float64, device=place.device)", "torch.float64)"),
    "groups: no synchronize": ("collectives", 4, GROUPS, "ended.synchronize()", "str(ended)"),
    "groups: a wait that is left out": ("collectives", 4, IN_TRAINS, "finish(work)", "str(work)"),
    "ring: another algorithm": ("collectives", 2, RING, '"NCCL_ALGO"] = "Ring"', '"NCCL_ALGO"] = "Tree"'),
    "ring: no group of its own": ("collectives", 2, RING, "group=dist.new_group(timeout=patience)", "group=None"),
    "ring: no synchronize": ("collectives", 2, RING, "ended.synchronize()", "str(ended)"),
    "sizes: more than there is room for": ("collectives", 2, LARGE, "(place.device) / 4 /", "(place.device) * 4 /"),
    "sizes: memory that is never full": ("collectives", 2, LARGE, "return memory_of(device)[0]", "return 1 << 40"),
    "sizes: memory that files fill": ("collectives", 2, SHARED, '"is_integrated", False', '"is_shared", False'),
    "train: no synchronize": ("train", 2, TRAIN, "torch.cuda.synchronize()", "torch.cuda.is_initialized()"),
    "train: another GPU": ("train", 2, TRAIN, "torch.cuda.set_device(device)", "torch.cuda.set_device(0)"),
    "train: a model on the host": (
        "train",
        2,
        TRAIN,
        "build_model(data.shape).to(place.device)",
        "build_model(data.shape)",
    ),
    "train: samples on the host": ("train", 2, TRAIN, "in chosen], device=self.place.device)", "in chosen])"),
    "train: a gradient that is read too soon": ("train", 2, TRAIN, ".flatten().cpu()", ".flatten()" + LATER),
    "train: events without time": ("train", 2, TRAIN, "event = event(enable_timing=True)", "event = event()"),
    "shards: another GPU": ("train", 2, SHARDS, "torch.cuda.set_device(device)", "torch.cuda.set_device(0)"),
    "shards: samples on the host": ("train", 2, SHARDS, "in chosen], device=self.place.device)", "in chosen])"),
    "checkpoint: bits that are read too soon": ("train", 2, KEPT, "whole(tensor).cpu()", "whole(tensor)" + LATER),
    "checkpoint: resumed on the host": ("train", 2, KEPT, RESUMED, 'resumed = Trainee(start.to("cpu"), '),
}


@pytest.fixture(scope="module")
def played(forked_scenarios, tmp_path_factory):
    """Each program with its mistake and without it, by the name of the mistake."""
    right: dict[str, list[str]] = {}

    def lines(program: str, scenario: dict) -> list[str]:
        folder = str(tmp_path_factory.mktemp("kept"))
        whole = json.loads(json.dumps(scenario).replace("FOLDER", folder))
        return list(told.lines_of(forked_scenarios(program, {"": whole})[""], folder))

    def play(name: str) -> tuple[list[str], list[str]]:
        program, ranks, settings, old, new = MISTAKES[name]
        described = settings.get("described", told.CUDA)
        asked = {name: value for name, value in settings.items() if name != "described"}
        own = {"described": described, "variables": {"TMPDIR": "FOLDER"}, "has_node": settings is RING}
        waits = {} if program == "devices" else {"wait_seconds": 3}
        scenario = told.on_gpus(ranks, {**asked, **waits}, **own)
        key = f"{program} {scenario}"
        if key not in right:
            right[key] = lines(program, scenario)
        return right[key], lines(program, {**scenario, "changed": [[old, new]]})

    return play


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_shows_in_what_the_ranks_record(name, played):
    """Another figure, wrong elements, or an error that names what CUDA found."""
    right, wrong = played(name)
    assert right[0].split() == ["ended", *["0"] * MISTAKES[name][1]]
    assert right != wrong
