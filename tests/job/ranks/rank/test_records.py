"""Does a record reach the node, or the terminal, as one line?"""

from __future__ import annotations

import json
import socket
import uuid

from preflight.job.ranks.rank.records import Records


def test_by_hand_a_record_is_a_line_with_its_rank(monkeypatch, capfd):
    """Ranks share a terminal."""
    monkeypatch.delenv("PREFLIGHT_RECORDS", raising=False)
    Records(rank=3).send({"record": "done"})
    assert json.loads(capfd.readouterr().out) == {"rank": 3, "record": "done"}


def test_a_node_hears_the_rank_first_and_lets_it_go(monkeypatch):
    """A stage is remembered: a hang is found by it."""
    name = f"preflight-test-{uuid.uuid4().hex}"
    monkeypatch.setenv("PREFLIGHT_RECORDS", name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen(1)
        records = Records(rank=2)
        node, _ = listener.accept()
        with node, node.makefile() as lines:
            node.sendall(b"go\n")
            records.await_go()
            records.stage("running", op="all_reduce")
            assert records.at == "running"
            assert json.loads(lines.readline()) == {"rank": 2}
            assert json.loads(lines.readline()) == {"record": "stage", "stage": "running", "op": "all_reduce"}
        records.socket.close()
