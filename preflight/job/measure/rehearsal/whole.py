"""How is the script of the options rehearsed on the nodes of a run, and which of what it printed is kept?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.facts.results import Rehearsal
from preflight.job.measure.rehearsal.judged import judged, not_run
from preflight.job.options.options import Options
from preflight.job.start.rehearsal.run import rehearse as run
from preflight.job.start.rehearsal.story import Story
from preflight.job.start.run import INHERITED_NEVER
from preflight.launch.cast import Cast
from preflight.reach.host import Host
from preflight.reach.session.connection import Session
from preflight.said.errors import NotMeasured

ENDING_SECONDS = 12.0  # for what the nodes say at the end, and for the rest of the run
LEAST_SECONDS = 5.0
BY_LOGIN = ("ssh",)  # transports that stand for a person's own login
OF_A_STEP = ("SLURM_*", "SLURMD_*", "PMI*", "SRUN_*", "PALS_*", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
SUBMITTED = "PREFLIGHT_SUBMITTED"  # the job that waits for us to start the script in its batch shell


async def rehearse(
    sessions: Mapping[str, Session],
    cluster: Cluster,
    options: Options,
    say: Callable[[str], None],
    *,
    seconds: float,
) -> tuple[Rehearsal, dict[str, str]]:
    """The rehearsal, and what was printed by file name. NotMeasured where there is no time or no script."""
    cast = options.cast
    if cast is None:
        raise NotMeasured("no script was given to rehearse")
    refused = not_run(cast)
    if refused is not None:
        return refused, {}
    if seconds < LEAST_SECONDS:
        raise NotMeasured("the deadline leaves no time for a rehearsal: give a longer --deadline")
    hosts = {host.name: host for host in options.hosts}
    story = await run(
        sessions,
        cast,
        layers=(
            *by_mpirun(cast),
            *allocation(cast, hosts),
            *((n, dict(layer)) for n, layer in options.layers if n == "--env"),
        ),
        job=os.environ.get(SUBMITTED, ""),
        backend=options.backend,
        address=cluster.nodes[0].address_for_peers(),
        is_login={name: hosts[name].transport in BY_LOGIN and not options.wrap for name in cast.nodes},
        drop={name: dropped(hosts[name]) for name in cast.nodes},
        seconds=seconds,
        say=say,
    )
    backend = next((rank.loaded.nccl and "nccl" for rank in story.ranks if rank.loaded), "") or "gloo"
    limits = {node.name: limits_of(node) for node in cluster}
    return judged(story, cast, limits, backend=backend), logs_of(story)


def by_mpirun(cast: Cast) -> tuple[tuple[str, dict[str, str]], ...]:
    """What lets mpirun hand our hook on to other nodes; it refuses this beside options -x of the user's own."""
    texts = [script.text for script in cast.scripts.values()]
    if any(" -x " in text or "mca_base_env_list" in text for text in texts):
        return ()
    names = "PYTHONPATH;BASH_ENV;PREFLIGHT_REHEARSAL"
    return (("mpirun", {"OMPI_MCA_mca_base_env_list": names}),)


def dropped(host: Host) -> tuple[str, ...]:
    """What our own session has on a node and the user's script there has not."""
    if host.transport == "local":
        return ()
    return (*INHERITED_NEVER, *OF_A_STEP) if host.transport == "slurm" else INHERITED_NEVER


def allocation(cast: Cast, hosts: Mapping[str, Host]) -> tuple[tuple[str, dict[str, str]], ...]:
    """What the allocation around us gives a script that runs in it, in place of what it gives our own step."""
    if not any(hosts[name].transport == "slurm" for name in cast.nodes):
        return ()
    names = [name for name in os.environ if name.startswith(("SLURM_", "SRUN_"))]
    return (("allocation", {name: os.environ[name] for name in names}),)


def limits_of(node: NodeFacts) -> dict[str, int]:
    """The limits of our session on a node, -1 where there is none."""
    found: dict[str, int] = {}
    with suppress(NotMeasured, Exception):
        held = node.limits
        values = {"nofile": held.nofile_soft, "memlock": held.memlock_soft_bytes, "nproc": held.nproc_soft}
        found = {name: -1 if value == "unlimited" else int(value) for name, value in values.items()}
    return found


def logs_of(story: Story) -> dict[str, str]:
    """What the scripts printed, by the name of a file."""
    logs = {}
    for name, node in story.nodes.items():
        if node.output is not None and node.began is not None:
            logs[f"rehearse-{name}.out.log"] = node.output.out_before + node.output.out
            logs[f"rehearse-{name}.err.log"] = node.output.err_before + node.output.err
    return logs
