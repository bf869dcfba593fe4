"""Who does this node say it is, and what do its own names resolve to here?"""

from __future__ import annotations

import os

from preflight.node.agent import roots
from preflight.node.agent import sockets as socket
from preflight.node.agent.missing import missing, must_read
from preflight.node.sources.names import LIMIT_S, addresses_of, ask_all, for_resolver, full_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    from preflight.node.agent.missing import Missing
    from preflight.node.sources.names import Answer

CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")


def collect(arguments: dict[str, Any]) -> dict[str, Any]:
    """Facts of the subject identity."""
    roots.only_here(arguments)
    system = os.uname()
    return {
        "boot_id": boot_id(arguments["proc"]),
        "kernel": system.release,
        "machine": system.machine,
        "cpu_count": os.cpu_count() or 0,
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "user_id": os.getuid(),
        "context": context(),
        **names(socket.gethostname()),
    }


def boot_id(proc: str) -> str:
    """What two names of the same host have in common, and two hosts do not.

    Containers and network namespaces of one machine share its boot id, yet are hosts of their own to a job: the
    network namespace distinguishes them.
    """
    boot = must_read(f"{proc}/sys/kernel/random/boot_id")
    if isinstance(boot, dict):
        raise OSError(boot["missing"])
    return f"{boot}:{os.stat(f'{proc}/self/ns/net').st_ino}"


def names(hostname: str, *, limit_s: float = LIMIT_S) -> dict[str, Any]:
    """The host's name, its full name and what both resolve to, each asked as the job's libraries ask it."""

    def full() -> list[str]:
        found = full_name(hostname)
        return [found, *(addresses_of(found) if found != hostname else ())]

    answers = ask_all(
        {"own": lambda: own_addresses(hostname), "full": full, "localhost": lambda: addresses_of("localhost")},
        limit_s=limit_s,
    )
    own, fqdn = answers["own"], answers["full"]
    of_hostname = [] if isinstance(own, OSError) else list(dict.fromkeys(own[1:]))
    return {
        "hostname": hostname,
        "fqdn": hostname if isinstance(fqdn, OSError) else fqdn[0],
        "fqdn_addresses": of_hostname if isinstance(fqdn, OSError) or fqdn[0] == hostname else fqdn[1:],
        "hostname_address": missing(f"{hostname}: {own}") if isinstance(own, OSError) else own[0],
        "hostname_addresses": of_hostname,
        "localhost_addresses": localhost(answers["localhost"]),
    }


def localhost(answer: Answer[list[str]]) -> Union[list[str], Missing]:
    """The addresses of the name localhost; none where nobody knows it, missing where nobody answered in time."""
    if isinstance(answer, socket.gaierror):
        return []
    return missing(f"localhost: {answer}") if isinstance(answer, OSError) else answer


def own_addresses(hostname: str) -> list[str]:
    """The addresses of a host name; before them, once more, the one that gloo takes for it.

    That is the first, of either family, that can be bound on this node. Where none can be bound it is the first of all:
    gloo then falls back to loopback, and a check has to say so.
    """
    found = socket.getaddrinfo(for_resolver(hostname), None, type=socket.SOCK_STREAM)
    addresses = [str(address[0]).partition("%")[0] for *_, address in found]
    return [next((own for own, one in zip(addresses, found) if can_be_bound(one)), addresses[0]), *addresses]


def can_be_bound(found: tuple[Any, ...]) -> bool:
    """Whether an answer of getaddrinfo is an address of this node."""
    family, kind, protocol, _, address = found
    try:
        with socket.socket(family, kind, protocol) as listener:
            listener.bind(address)
            return True
    except OSError:
        return False


def context() -> str:
    """How this process was started, for its limits and variables depend on it."""
    # A task of srun has slurmd's limits, in a container that it started too, and the environment of whoever started
    # srun: of a login over ssh, perhaps.
    if "SLURM_STEP_ID" in os.environ:
        return "slurm"
    if "SSH_CONNECTION" in os.environ:
        return "ssh"
    # The last is set in every container of Kubernetes, where neither file is.
    if any(os.path.exists(mark) for mark in CONTAINER_MARKS) or "KUBERNETES_SERVICE_HOST" in os.environ:
        return "container"
    return "slurm" if "SLURM_JOB_ID" in os.environ else "local"
