"""Does a rank that stands still end by itself, with the reason, and leave what explains it?"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from preflight.job.ranks.rank.traces import keep_what_is_written

STANDS_STILL = """
import time
from preflight.job.ranks.rank.records import Records
from preflight.job.ranks.rank.traces import watch
records = Records(rank=0)
records.stage("rendezvous")
watch(records, seconds=0.2, least=0.0, ranks={ranks})
time.sleep(50)
"""


@pytest.mark.parametrize(("ranks", "why"), [(2, "another rank does not answer"), (1, "a call into CUDA or NCCL hangs")])
def test_a_rank_that_stands_still_ends_with_its_reason(ranks, why):
    """Nothing else would end a call into NCCL."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("PREFLIGHT")}
    program = [sys.executable, "-c", STANDS_STILL.format(ranks=ranks)]
    done = subprocess.run(program, env=given, capture_output=True, text=True, timeout=120, check=False)
    told = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, told["record"], told["stage"]) == (1, "failed", "rendezvous")
    assert why in told["error"]


def test_a_rank_that_stands_in_what_it_does_alone_blames_no_other(tmp_path):
    """A file that is not read to its end, for one: the call is named."""
    os.mkfifo(tmp_path / "held")
    program = STANDS_STILL.format(ranks=2).replace(
        "time.sleep(50)", f"import pathlib; pathlib.Path({str(tmp_path / 'held')!r}).read_text()"
    )
    given = {name: value for name, value in os.environ.items() if not name.startswith("PREFLIGHT")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=given, capture_output=True, text=True, timeout=120, check=False
    )
    told = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, told["record"]) == (1, "failed")
    assert "nothing moved for 0 s at stage rendezvous: it stands in open (" in told["error"]
    assert "pathlib.py:" in told["error"]


def test_logs_and_traces_go_where_the_node_keeps_them(monkeypatch, tmp_path):
    """Not into the user's cache, over those of the user's own job."""
    monkeypatch.setattr("os.environ", {"TMPDIR": str(tmp_path), "TORCH_FR_DUMP_TEMP_FILE": "/root/.cache/own"})
    log = keep_what_is_written(4, subsystems="INIT")
    assert log == os.environ["NCCL_DEBUG_FILE"] == f"{tmp_path}/preflight-nccl-rank4"
    assert os.environ["NCCL_DEBUG_SUBSYS"] == "INIT"
    assert os.environ["TORCH_FR_DUMP_TEMP_FILE"] == f"{tmp_path}/preflight-trace-rank"
