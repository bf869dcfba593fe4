"""What launch files are right for these nodes?

    files = write_files("torchrun", cluster, folder="/shared/launch", program=("train.py", "--epochs", "3"))

gives the text of every file by its name; the caller puts them into `folder`, which is the same path on every node.
`like` is the text of a file of the user's, whose other settings are kept where the launcher has such files.
"""

from __future__ import annotations

from preflight.facts.cluster import Cluster
from preflight.launch.launchers import LAUNCHERS, writable
from preflight.launch.layout import layout_of
from preflight.said import said
from preflight.said.errors import UsageError


def write_files(
    launcher: str,
    cluster: Cluster,
    *,
    folder: str,
    program: tuple[str, ...] = ("train.py",),
    like: str = "",
    python: str = "",
    start_in: str = "",
) -> dict[str, str]:
    """The launch files for the nodes of a cluster, by name; `python` starts them where one was asked for.

    The program's own path begins in `start_in`, a folder that every node has; "" leaves that to whoever starts them.
    """
    row = LAUNCHERS.get(launcher)
    if row is None or row.write is None:
        raise UsageError(
            said("--launcher {launcher}: launch files are written for {writable}", launcher, ", ".join(writable()))
        )
    if like and not row.takes_like:
        keeping = " or ".join(name for name, other in LAUNCHERS.items() if other.takes_like)
        raise UsageError(
            said(
                "--like: keeps the settings of a file for {keeping}; --launcher {launcher} has none", keeping, launcher
            )
        )
    if not cluster.nodes or len(cluster) < cluster.asked:
        raise UsageError(
            said(
                "{cluster} of {max} hosts answered: launch files are written for all of them or none",
                len(cluster),
                max(cluster.asked, 1),
            )
        )
    layout = layout_of(cluster, folder, program, like, equal_ranks=row.equal_ranks, python=python, start_in=start_in)
    return row.write(layout)
