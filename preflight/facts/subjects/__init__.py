"""Which subjects does a node report? One file a subject says how each looks, field by field, as it crosses the wire."""

from __future__ import annotations

from preflight.facts.subjects.clock import Clock
from preflight.facts.subjects.ending import Ending
from preflight.facts.subjects.environment import Environment
from preflight.facts.subjects.files import Files
from preflight.facts.subjects.gpu import Gpus
from preflight.facts.subjects.gpus.engine import NOT_TOLD, Engine
from preflight.facts.subjects.gpus.vendor import NOT_ASKED, Vendor
from preflight.facts.subjects.identity import Identity
from preflight.facts.subjects.kernel import Kernel
from preflight.facts.subjects.limits import Limits
from preflight.facts.subjects.machine import Machine
from preflight.facts.subjects.network import Network
from preflight.facts.subjects.peers import Peers
from preflight.facts.subjects.ports import Ports
from preflight.facts.subjects.rdma import Rdma
from preflight.facts.subjects.software import Software
from preflight.facts.subjects.trust import Trust
from preflight.facts.value import Missing, Value

SUBJECTS: dict[str, type[Value]] = {
    "identity": Identity,
    "network": Network,
    "ports": Ports,
    "software": Software,
    "gpu": Gpus,
    "rdma": Rdma,
    "environment": Environment,
    "limits": Limits,
    "machine": Machine,
    "kernel": Kernel,
    "peers": Peers,
    "files": Files,
    "trust": Trust,
    "vendor": Vendor,
    "engine": Engine,
    "clock": Clock,
    "ending": Ending,
}
# Those that are not asked of every node -> why a node has none.
ON_DEMAND: dict[str, Missing] = {"vendor": NOT_ASKED, "engine": NOT_TOLD}
