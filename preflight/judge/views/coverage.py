"""Which nodes took part in a job whose result is judged?"""

from __future__ import annotations

from collections.abc import Collection

from preflight.facts.results import Bench, Mesh, Training

SHIFTS = 16  # how many peers each node of a large mesh connects to, at least


def without_part(result: Mesh | Bench | Training, names: Collection[str]) -> tuple[str, ...]:
    """Those of these nodes that the job was not started on.

    Reports of earlier versions do not hold the nodes: there the ranks tell, or how many connections were tried. Of a
    job that failed they tell nothing; its checks give no pass.
    """
    if result.node_names:
        took_part: Collection[str] = set(result.node_names)
    elif isinstance(result, Mesh):
        count = len(names)
        took_part = names if result.edges >= count * min(count - 1, SHIFTS) else ()
    elif result.ranks and not result.not_measured:
        took_part = {rank.node for rank in result.ranks}
    else:
        took_part = names
    return tuple(name for name in names if name not in took_part)
