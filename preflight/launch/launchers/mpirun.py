"""What is a command behind mpirun? One start for all nodes, which preflight reads and judges, and does not start."""

from __future__ import annotations

from preflight.launch.launcher import Launcher

PROGRAMS = ("mpirun", "mpiexec")

MPIRUN = Launcher(
    name="mpirun",
    starts_all_nodes=True,
    numbers_processes=True,
    wrappers=PROGRAMS,
    claims=lambda plan: bool(plan.wraps & set(PROGRAMS)),
    refusal="mpirun starts it",
)
