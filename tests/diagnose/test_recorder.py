"""Do dumps of the flight recorder name the collective that hung and the rank that was not in it?"""

from __future__ import annotations

import json
import os
import pickle

import pytest

from preflight.diagnose import diagnose_files
from preflight.diagnose.recorder import is_dump
from preflight.said.errors import UsageError


def entry(sequence: int, operation: str = "all_reduce", size: int = 64, state: str = "completed") -> dict:
    """A collective as torch records it."""
    return {
        "collective_seq_id": sequence,
        "p2p_seq_id": 0,
        "is_p2p": False,
        "process_group": ("0", "default_pg"),
        "profiling_name": f"nccl:{operation}",
        "input_sizes": ((size,),),
        "state": state,
        "frames": [],
    }


def dumps(folder, ranks: dict[int, list[dict]], *, as_json: bool = False) -> list[str]:
    """The files that torch would leave."""
    for rank, entries in ranks.items():
        record = {"version": "2.10", "pg_config": {}, "pg_status": {}, "entries": entries}
        data = json.dumps(record).encode() if as_json else pickle.dumps(record, protocol=2)
        (folder / f"nccl_trace_rank_{rank}").write_bytes(data)
    return [str(folder / f"nccl_trace_rank_{rank}") for rank in ranks]


@pytest.mark.parametrize("as_json", [False, True])
def test_the_rank_that_never_enqueued_it_is_named(as_json, tmp_path):
    """The others have started, or only scheduled, what it does not have."""
    ranks = {rank: [entry(7), entry(8, state="started")] for rank in (0, 1, 3)}
    diagnosis = diagnose_files(dumps(tmp_path, {**ranks, 2: [entry(6), entry(7)]}, as_json=as_json))
    hang = diagnosis.job.hang
    assert hang is not None
    assert (hang.sequence, hang.operation, hang.waiting, hang.missing) == (8, "ALL_REDUCE", (0, 1, 3), (2,))
    assert "rank 2, which had not come to it" in diagnosis.causes[0].detail


def test_calls_that_do_not_match_are_the_cause(tmp_path):
    """Another operation, or another size, at the same place of the sequence."""
    for other in (entry(8, "all_gather", state="started"), entry(8, size=65, state="started")):
        ranks = {0: [entry(7), entry(8, state="started")], 1: [entry(7), other]}
        assert diagnose_files(dumps(tmp_path, ranks)).causes[0].cause.name == "nccl-mismatched-call"


def test_a_job_whose_collectives_all_ended_hung_in_none(tmp_path):
    """The dump alone is no failure."""
    diagnosis = diagnose_files(dumps(tmp_path, {rank: [entry(7), entry(8)] for rank in (0, 1)}))
    assert diagnosis.job.hang is None
    assert not diagnosis.has_failed


class Code:
    """A pickle that would run a program when it is loaded."""

    def __reduce__(self):
        return os.system, ("touch /tmp/preflight-pickle-ran",)


@pytest.mark.parametrize(
    "data", [pickle.dumps(Code()), pickle.dumps({"entries": 7}), b"\x80\x04garbage", b'{"pg_config": 1}']
)
def test_a_pickle_that_is_no_dump_is_refused(data, tmp_path):
    """Code in it is never run."""
    (tmp_path / "trace_0").write_bytes(data)
    assert is_dump(data)
    with pytest.raises(UsageError, match="trace_0: not a readable dump"):
        diagnose_files([str(tmp_path / "trace_0")])
    assert not os.path.exists("/tmp/preflight-pickle-ran")
