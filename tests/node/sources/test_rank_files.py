"""Is what NCCL and torch wrote for a rank kept, bounded, and never run?"""

from __future__ import annotations

import json
import os
import pickle

import pytest

from preflight.node.sources import rank_files

RECORD = {
    "version": "2.10",
    "nccl_version": "2.27.3",
    "pg_status": {"0": {"last_enqueued_collective": 90, "last_completed_collective": 89}},
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "rank": 3,
    "entries": [
        {
            "frames": [{"name": "main", "filename": "train.py", "line": 7}] * 20,
            "collective_seq_id": number,
            "process_group": ("0", "default_pg"),
            "profiling_name": "nccl:all_reduce",
            "state": "completed" if number < 90 else "started",
            "input_sizes": ((4,),),
        }
        for number in range(1, 91)
    ],
}


class Evil:
    """Runs a command when it is loaded."""

    def __reduce__(self):
        return os.system, ("touch /tmp/preflight-was-here",)


@pytest.fixture
def scratch(tmp_path):
    """A node's scratch folder with the files of two ranks, and one that is no rank's."""
    (tmp_path / "preflight-nccl-rank0").write_text("first\n" + "x" * 10_000 + "\nlast\n")
    (tmp_path / "preflight-trace-rank3").write_bytes(pickle.dumps(RECORD, protocol=2))
    (tmp_path / "torchelastic_error.json").write_text("{}")
    return tmp_path


def test_each_file_is_told_with_its_rank_and_removed(scratch):
    """What is not a rank's stays for the keeper."""
    events = rank_files.kept(str(scratch), 4000)
    assert [(event["file"], event["rank"]) for event in events] == [("nccl", 0), ("trace", 3)]
    assert [path.name for path in scratch.iterdir()] == ["torchelastic_error.json"]


def test_of_a_long_log_the_beginning_and_the_end_are_kept(scratch):
    """How the communicator began, and what went wrong."""
    text = rank_files.kept(str(scratch), 4000)[0]["text"]
    assert text.startswith("first\n")
    assert text.endswith("\nlast\n")
    assert "bytes left out" in text
    assert len(text) < 4100


@pytest.mark.parametrize("most_bytes", [200_000, 4000])
def test_a_flight_recorder_becomes_json_with_the_last_collectives(scratch, most_bytes):
    """Without frames; where there is less room, fewer."""
    text = rank_files.kept(str(scratch), most_bytes)[1]["text"]
    told = json.loads(text)
    assert len(text) <= most_bytes
    assert told["pg_status"]["0"]["last_enqueued_collective"] == 90
    assert told["entries"][-1]["collective_seq_id"] == 90
    assert "frames" not in told["entries"][-1]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"junk",
        pickle.dumps(RECORD, protocol=2)[:500],
        pickle.dumps([1]),
        pickle.dumps({"entries": [1]}),
        pickle.dumps({"entries": [Evil()]}),
    ],
)
def test_a_file_that_is_no_flight_recorder_is_said_and_not_run(tmp_path, content):
    """Cut in mid-write, of another program, or an attack."""
    (tmp_path / "preflight-trace-rank0").write_bytes(content)
    (event,) = rank_files.kept(str(tmp_path), 4000)
    assert event["text"].startswith("not readable: ")
    assert not os.path.exists("/tmp/preflight-was-here")


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_values_are_read_as_pickle_reads_them(protocol):
    """Every protocol that torch or Python writes."""
    value = [RECORD, {"a": (1,), "b": ()}, [-1, 255, 65536, 1 << 40, -(1 << 40), 0.5, None, True, False], "ü" * 300]
    assert rank_files.plain(pickle.dumps(value, protocol=protocol)) == value


def test_a_node_without_a_scratch_folder_has_nothing(tmp_path):
    """The job may have ended before it made one."""
    assert rank_files.kept(str(tmp_path / "nothing"), 4000) == []
