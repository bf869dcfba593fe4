"""What did the rehearsal show, and of which node? The fixture `rehearsal`."""

from __future__ import annotations

from dataclasses import dataclass

from preflight.facts.cluster import Cluster
from preflight.facts.results.rehearsal import Rehearsal
from preflight.said.errors import Blame, BlameMany, BlockedBy, FactMissing

CHECKS = {
    "scripts": "rehearse.every_script_comes_to_its_ranks",
    "ranks": "rehearse.every_rank_comes_once",
    "alike": "rehearse.every_rank_is_given_the_same",
    "limits": "rehearse.limits_hold_inside_the_job",
    "training": "rehearse.all_ranks_meet_and_train",
    "pace": "rehearse.no_node_keeps_the_others_waiting",
}


@dataclass(frozen=True)
class RehearsalView:
    """The rehearsal over the nodes of `cluster`."""

    result: Rehearsal
    cluster: Cluster

    def judge(self, about: str) -> None:
        """Raise what does not hold; what could not be judged of a node is no pass."""
        for node, first in self.result.unjudged.get(about, {}).items():
            self.cluster.unmeasured[node] = BlockedBy(CHECKS[first])
        causes = [cause for cause in self.result.causes if cause.about == about]
        for cause in causes:
            if cause.is_unmeasured:
                for node in cause.nodes:
                    self.cluster.unmeasured[node] = FactMissing("the rehearsal", f"{cause.message}{_fix(cause.fix)}")
        blames = [
            Blame(cause.message, nodes=cause.nodes, fix=cause.fix, is_advisory=cause.is_advisory, where=cause.where)
            for cause in causes
            if not cause.is_unmeasured
        ]
        if blames:
            raise BlameMany(blames)


def _fix(fix: str) -> str:
    return f"; {fix}" if fix else ""
