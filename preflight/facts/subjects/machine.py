"""What does a node tell of its processor, its clock's keepers, its RDMA libraries and its compilers?"""

from __future__ import annotations

from preflight.facts.value import Missing, Text, Value


class Machine(Value, frozen=True, kw_only=True):
    """What the nodes of a job should have alike, beside what Python packages tell."""

    cpu_model: Text | Missing
    time_services: tuple[Text, ...]  # programs that set the clock, of the processes that we see
    clock_is_synchronised: bool | Missing  # as the kernel says it
    rdma_core: Text | Missing  # the version in libibverbs' own name
    rdma_driver: Text | Missing  # of an OFED; the kernel's own drivers tell none
    compilers: dict[Text, Text]  # cc, c++, nvcc, ninja -> where the job's PATH finds it
