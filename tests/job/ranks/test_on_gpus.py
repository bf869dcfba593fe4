"""Is a mistake seen that only a GPU would show? Each is planted into the program, which tests/cuda then contradicts."""

from __future__ import annotations

import pytest

from tests.job.ranks import told

EVERY = {**told.FEW, "operations": told.EVERY}
PIPELINED = {**EVERY, "mode": "pipelined"}
PAIRS = {"operations": [], "pairs": told.PAIRS, "pair_bytes": 4 << 20}
# Program, ranks, settings -> what is planted into it: a text of the program, and what stands there instead.
MISTAKES = {
    "devices: no synchronize": ("devices", 2, told.GPU, "wait = cuda.synchronize if", "wait = cuda.is_initialized if"),
    "devices: another GPU": ("devices", 2, told.GPU, "torch.cuda.set_device(device)", "torch.cuda.set_device(0)"),
    "devices: an ordinal of the node": ("devices", 2, told.GPU, 'os.environ.get("LOCAL_RANK", "0")', '"9"'),
    "collectives: another GPU": ("collectives", 2, EVERY, "torch.cuda.set_device(device)", "torch.cuda.set_device(0)"),
    "collectives: a wait that is left out": ("collectives", 2, PIPELINED, "finish(work)", "str(work)"),
    "collectives: no synchronize": ("collectives", 2, EVERY, "ended.synchronize()", "str(ended)"),
    "pairs: no synchronize": ("collectives", 3, PAIRS, "ended.synchronize()", "str(ended)"),
    "train: no synchronize": ("train", 2, {"steps": 2}, "torch.cuda.synchronize()", "torch.cuda.is_initialized()"),
    "train: another GPU": ("train", 2, {"steps": 2}, "torch.cuda.set_device(device)", "torch.cuda.set_device(0)"),
}


@pytest.fixture(scope="module")
def played(forked_scenarios):
    """Each program with its mistake and without it, by the name of the mistake."""

    def play(name: str) -> tuple[list[str], list[str]]:
        program, ranks, settings, old, new = MISTAKES[name]
        scenario = told.on_gpus(ranks, {**settings, "wait_seconds": 3} if program != "devices" else settings)
        jobs = {"right": scenario, "wrong": {**scenario, "changed": [[old, new]]}}
        both = forked_scenarios(program, jobs)
        return tuple(list(told.lines_of(both[kind], "/nowhere")) for kind in jobs)

    return play


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_shows_in_what_the_ranks_record(name, played):
    """Another figure, wrong elements, or an error that names what CUDA found."""
    right, wrong = played(name)
    assert right[0].split() == ["ended", *["0"] * MISTAKES[name][1]]
    assert right != wrong
