"""Does the table of a rehearsal say how far each rank came, and how long each stage took?"""

from __future__ import annotations

from preflight.facts.results.rehearsal import Rehearsal, RehearsedRank, RehearsedScript
from preflight.report.formats.rehearsal import rehearsal_table


def test_scripts_and_ranks_are_rows():
    """What a rank did not come to is empty."""
    rank = RehearsedRank(
        rank=1, world_size=2, node="node2", stage="rendezvous", interpreter="/p", seconds={"script": 0.2, "import": 3.0}
    )
    script = RehearsedScript(node="node2", file="run.sh", folder="/srv", code=None, line=7)
    text = rehearsal_table(Rehearsal(scripts=(script,), ranks=(rank,), causes=(), backend="gloo"))
    assert "# node2: run.sh in /srv, last at line 7, still running\n# 1 rank, gloo" in text
    assert text.splitlines()[-1].split() == ["1", "node2", "rendezvous", "0.2", "3"]
