"""What launch files are right for these nodes?

    files = write_files("torchrun", cluster, folder="/shared/launch", program=("train.py", "--epochs", "3"))

gives the text of every file by its name; the caller puts them into `folder`, which is the same path on every node.
`like` is the text of a user's accelerate file, whose other settings are kept.
"""

from __future__ import annotations

from collections.abc import Callable

from preflight.errors import UsageError
from preflight.facts.cluster import Cluster
from preflight.launch.launchers import accelerate, deepspeed, env, slurm, torchrun
from preflight.launch.layout import Layout, layout_of


def write_files(
    launcher: str, cluster: Cluster, *, folder: str, program: tuple[str, ...] = ("train.py",), like: str = ""
) -> dict[str, str]:
    """The launch files for the nodes of a cluster, by name."""
    if launcher not in WRITERS:
        raise UsageError(f"--launcher {launcher}: launch files are written for {', '.join(WRITERS)}")
    if like and launcher != "accelerate":
        raise UsageError(f"--like: keeps the settings of an accelerate configuration; --launcher {launcher} has none")
    if not cluster.nodes or len(cluster) < cluster.asked:
        raise UsageError(
            f"{len(cluster)} of {max(cluster.asked, 1)} hosts answered: launch files are written for all of"
            " them or none"
        )
    return WRITERS[launcher](layout_of(cluster, launcher, folder, program, like))


WRITERS: dict[str, Callable[[Layout], dict[str, str]]] = {
    "accelerate": accelerate.write,
    "torchrun": torchrun.write,
    "env": env.write,
    "deepspeed": deepspeed.write,
    "slurm": slurm.write,
}
