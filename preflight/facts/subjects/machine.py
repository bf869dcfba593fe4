"""What does a node report of its processor, of what sets clock and network, of RDMA libraries and compilers?"""

from __future__ import annotations

from preflight.facts.value import NOT_REPORTED, Missing, Text, Value


class Machine(Value, frozen=True, kw_only=True):
    """What should be the same on the nodes of a job, beside Python packages."""

    cpu_model: Text | Missing
    time_services: tuple[Text, ...] | Missing  # programs that set the clock, of the processes that we see
    clock_is_synchronised: bool | Missing  # as the kernel says it
    rdma_core: Text | Missing  # the version in libibverbs' own name
    rdma_driver: Text | Missing  # of an OFED; the kernel's own drivers have none
    compilers: dict[Text, Text]  # cc, c++, nvcc, ninja -> where the job's PATH finds it
    # Who sets addresses and MTU at a boot: "netplan", "NetworkManager", "systemd-networkd" or "ifupdown".
    network_manager: Text | Missing = NOT_REPORTED
    instructions: tuple[Text, ...] | Missing = (
        NOT_REPORTED  # "avx2", "avx512f": those by which libraries choose their code
    )
