"""Which ranks did not join, joined twice, or count another number of ranks than the others?"""

from __future__ import annotations

from dataclasses import replace

from preflight.diagnose.derived.wording import made, ranks_text
from preflight.diagnose.facts import Facts
from preflight.diagnose.found import Finding
from preflight.said import joined, said


def unjoined(facts: Facts) -> list[Finding]:
    """Ranks that began to join with numbers given twice, or left out."""
    members = facts.members
    if not members or facts.is_complete:
        return []
    size = facts.world_size
    twice = sorted(rank for rank, count in members.items() if count > 1)
    missing = sorted(set(range(size)) - set(members))
    if twice and missing:
        words = said(
            "{ranks_text} began to join more than once, {ranks_text2} never",
            ranks_text(tuple(twice)),
            ranks_text(tuple(missing)),
        )
        return [made("same-rank-twice", words)]
    return (
        [made("not-all-joined", said("{members} of {size} ranks began to join", len(members), size))] if missing else []
    )


def sizes(facts: Facts) -> list[Finding]:
    """Ranks that count more or fewer ranks than most, where they did not find each other."""
    counted: dict[int, list[int]] = {}
    for rank, size in sorted(facts.size_of.items()):
        counted.setdefault(size, []).append(rank)
    if len(counted) < 2:
        return []
    usual = max(counted, key=lambda size: (len(counted[size]), -counted[size][0]))
    others = {size: ranks for size, ranks in counted.items() if size != usual}
    words = joined([said("{ranks_text}: {size}", ranks_text(tuple(ranks)), size) for size, ranks in others.items()])
    told = said("world size by rank: {words}; {ranks_text}: {usual}", words, ranks_text(tuple(counted[usual])), usual)
    return [
        replace(made("world-size-mismatch", told), ranks=tuple(rank for ranks in others.values() for rank in ranks))
    ]


def with_awaited(finding: Finding, facts: Facts) -> Finding:
    """To a rank that waited in the store, the one whose address it waited for."""
    if finding.cause.name != "store-wait-timeout" or not facts.awaited:
        return finding
    awaited = set(facts.awaited.values())
    ranks, missing = ranks_text(tuple(sorted(facts.awaited))), ranks_text(tuple(sorted(awaited)))
    words = said("{ranks} waited for the address of {missing}", ranks, missing)
    if not awaited & facts.heard and facts.heard - set(facts.awaited):
        words = said(
            "{words}, whose log is not here: it did not start, or the world size of {ranks} is too large", words, ranks
        )
    return replace(finding, detail=words)
