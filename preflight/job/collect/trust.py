"""Which nodes can log in to which, where the launch needs it?"""

from __future__ import annotations

import asyncio
from typing import Any

from preflight.facts.decode import Answer
from preflight.facts.value import Missing
from preflight.job.options.options import Options
from preflight.reach.host import Host
from preflight.reach.session.connection import Session
from preflight.said import said
from preflight.said.errors import HostError

SECONDS = 40.0
EVERY_PAIR_UP_TO = 32  # nodes; beyond it the first one alone logs in to all, as a launcher would
# How a launcher names what starts the other nodes -> the program that it calls.
RUNNERS = {"pdsh": "pdsh", "openmpi": "mpirun", "mpich": "mpirun", "impi": "mpirun", "mvapich": "mpirun"}
RUNNERS |= {"slurm": "srun", "mpirun": "mpirun"}
BY_SSH = ("pdsh", "mpirun", "colossalai")
OF_HOROVOD = "HOROVOD_GLOO_IFACE"
NOT_ASKED = Missing("not asked for (--ssh-trust)", "absent")


async def collect(sessions: dict[str, Session], hosts: dict[str, Host], options: Options) -> dict[str, Answer]:
    """The subject trust of every node."""
    names = list(sessions)
    if not options.needs_trust or len(names) < 2:
        return {name: ({}, {"trust": NOT_ASKED}) for name in names}
    python = options.python or "python3"

    async def ask(name: str) -> tuple[str, Answer]:
        if len(names) > EVERY_PAIR_UP_TO and name != names[0]:
            return name, (
                {},
                {"trust": Missing(said("with this many nodes only {names} logs in to all", names[0]), "absent")},
            )
        # deepspeed, pdsh and colossalai reach the node they are started on by ssh, too.
        peers = [hosts[peer].address for peer in names if peer != name or name == names[0]]
        try:
            arguments = {"peers": peers, "python": python, "seconds": SECONDS - 5.0}
            asked = called(options) if name == names[0] else {}
            if asked:
                arguments |= {**asked, "environment": [list(layer) for layer in options.layers]}
            call = await sessions[name].start("trust", arguments, seconds=SECONDS)
            return name, ({"trust": {**await call.end(dict[str, Any]), "launchers": asked.get("launchers", [])}}, {})
        except HostError as error:
            return name, ({}, {"trust": Missing(error.reason)})

    return dict(await asyncio.gather(*(ask(name) for name in names)))


def called(options: Options) -> dict[str, list[str]]:
    """The programs that the launch calls, and logs in by, on its own node, and the variables that it takes for set."""
    from preflight.launch.launchers import logs_in  # imported here: not every run has launch files
    from preflight.launch.schedulers.mpi import horovodruns

    programs: list[str] = []
    unset: list[str] = []
    launchers: list[str] = []
    for plan in options.files.plans:
        if not logs_in(plan):
            continue
        if plan.launcher.name == "deepspeed":
            runner = str(plan.setting("launcher") or "pdsh").lower()
        elif plan.launcher.name == "accelerate":
            names = ("deepspeed_config.deepspeed_multinode_launcher", "deepspeed_multinode_launcher")
            runner = next(filter(None, map(plan.setting, names)), "pdsh").lower()
        else:
            runner = "pdsh" if "pdsh" in plan.wraps else plan.launcher.name
        program = RUNNERS.get(runner, "")
        programs += [program] if program else []
        launchers += [one for one in BY_SSH if one in (program, plan.launcher.name)][:1]
        if program == "mpirun" and "btl_tcp_if_" not in f"{plan.command} {plan.settings}":
            unset.append("OMPI_MCA_btl_tcp_if_exclude")
        unset += ["PDSH_SSH_ARGS_APPEND"] if runner == "pdsh" and plan.setting("ssh_port") else []
    for words in horovodruns(options.files):
        launchers.append("horovodrun")
        unset += [] if any(word.startswith("--network-interface") for word in words) else [OF_HOROVOD]
    found = {"programs": programs, "launchers": launchers, "variables": unset}
    return {name: list(dict.fromkeys(words)) for name, words in found.items()}
