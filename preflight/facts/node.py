"""What is known about one node, as a check sees it?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from preflight.facts import fabric, selection
from preflight.facts.once import Once
from preflight.facts.subjects import ON_DEMAND
from preflight.facts.subjects.clock import Clock
from preflight.facts.subjects.ending import Ending
from preflight.facts.subjects.environment import Environment, Variable
from preflight.facts.subjects.files import Files
from preflight.facts.subjects.gpu import Gpus
from preflight.facts.subjects.gpus.engine import Engine
from preflight.facts.subjects.gpus.vendor import Vendor
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
from preflight.facts.value import NOT_REPORTED, Missing, Value, no_such_fact
from preflight.said import knowing, said
from preflight.said.errors import BlockedBy, FactMissing

V = TypeVar("V", bound=Value)
MEANS_RDMA = ("NCCL_IB_HCA", "NCCL_IB_GID_INDEX")  # a job that sets these uses NCCL, whatever GPUs the nodes report


def is_on(value: str) -> bool:
    """Whether NCCL takes the value of a switch for on: a number other than 0, read as strtoll reads it."""
    found = re.match(r"\s*[+-]?(0[xX][0-9a-fA-F]+|\d+)", value)
    return found is not None and int(found[1], 0 if found[1][:2].lower() == "0x" else 10) != 0


@dataclass(frozen=True)
class NodeFacts(Once):
    """One node: its name in HOSTS, its ranks, and a subject for every question we asked it.

    A subject that was read once is held at hand: checks ask each node for them 700 times.
    Reading a subject that the node did not give raises FactMissing with the reason it gave.
    """

    name: str
    index: int
    address: str
    subjects: dict[str, Value]
    missing: dict[str, Missing]
    slots: int = 0
    backend: selection.Backend = "gloo"  # that of the job's collectives

    if not TYPE_CHECKING:  # else every misspelt name would have a type

        def __getattr__(self, name: str) -> Any:
            """Called only for unknown names: a check that misspells a subject is told which ones exist."""
            raise AttributeError(no_such_fact(type(self), name))

    def subject(self, name: str, kind: type[V]) -> V:
        """A subject by name, or FactMissing."""
        value = self.subjects.get(name)
        if isinstance(value, kind):
            return value
        missing = self.missing.get(name) or ON_DEMAND.get(name, Missing("never collected"))
        raise FactMissing(name, missing.missing, missing.kind)

    @cached_property
    def identity(self) -> Identity:
        """Names and machine."""
        return self.subject("identity", Identity)

    @cached_property
    def network(self) -> Network:
        """Interfaces, gateways, port range."""
        return self.subject("network", Network)

    @cached_property
    def ports(self) -> Ports:
        """Ports in use."""
        return self.subject("ports", Ports)

    @cached_property
    def software(self) -> Software:
        """The job's interpreter and packages."""
        return self.subject("software", Software)

    @cached_property
    def gpu(self) -> Gpus:
        """GPUs and driver."""
        return self.subject("gpu", Gpus)

    @cached_property
    def rdma(self) -> Rdma:
        """RDMA devices."""
        return self.subject("rdma", Rdma)

    @cached_property
    def environment(self) -> Environment:
        """The job's variables."""
        return self.subject("environment", Environment)

    @cached_property
    def limits(self) -> Limits:
        """Limits and shared memory."""
        return self.subject("limits", Limits)

    @cached_property
    def kernel(self) -> Kernel:
        """Modules, quotas, memory, the kernel's log."""
        return self.subject("kernel", Kernel)

    @cached_property
    def ending(self) -> Ending:
        """Ports and counters at the end of the run."""
        return self.subject("ending", Ending)

    @cached_property
    def machine(self) -> Machine:
        """Processors, memory, services."""
        return self.subject("machine", Machine)

    @cached_property
    def files(self) -> Files:
        """Folders, mounts and the paths asked for."""
        return self.subject("files", Files)

    @cached_property
    def trust(self) -> Trust:
        """Logins from node to node."""
        return self.subject("trust", Trust)

    @cached_property
    def vendor(self) -> Vendor:
        """What the vendors' own tests of GPUs found; absent where nobody asked for them."""
        return self.subject("vendor", Vendor)

    @cached_property
    def engine(self) -> Engine:
        """GPUs as the engine counts them; absent where none led to the node."""
        return self.subject("engine", Engine)

    @cached_property
    def peers(self) -> Peers:
        """Routes to the peers and the port bound for MASTER_PORT."""
        return self.subject("peers", Peers)

    @cached_property
    def clock(self) -> Clock:
        """Wall clock against the controller's."""
        return self.subject("clock", Clock)

    def interface_mismatches(self) -> tuple[str, ...]:
        """What NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME name, by the rules of each, that is not on this node."""
        nccl, gloo = self.value("NCCL_SOCKET_IFNAME"), self.value("GLOO_SOCKET_IFNAME")
        found = []
        if len(nccl) > 1 and not selection.nccl_interfaces(
            self.network, nccl, socket_family=self.value("NCCL_SOCKET_FAMILY")
        ):
            has = ", ".join(interface.name for interface in self.network.interfaces if interface.is_up)
            found.append(
                knowing(
                    said("NCCL_SOCKET_IFNAME={nccl} matches no interface with an address; up are {has}", nccl, has),
                    variable="NCCL_SOCKET_IFNAME",
                )
            )
        if len(gloo) > 1:
            try:
                selection.gloo_interface(self.network, self.identity, gloo)
            except FactMissing as missing:
                found.append(knowing(missing.reason, variable="GLOO_SOCKET_IFNAME"))
        return tuple(found)

    def loopback_choices(self) -> tuple[str, ...]:
        """Which of these variables take an interface first that no peer can reach: loopback, and Gloo without a link.

        Gloo takes the one that is named in any case, NCCL the next that has one.
        """
        found = []
        for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            value = self.value(name)
            try:
                if name.startswith("GLOO"):
                    taken = [selection.gloo_interface(self.network, self.identity, value)]
                else:
                    taken = list(selection.nccl_interfaces(self.network, value))
            except FactMissing:
                continue
            if len(value) > 1 and taken and taken[0].is_loopback:
                words = said("{name}={value} takes {name2}, which no peer can reach", name, value, taken[0].name)
                found.append(knowing(words, variable=name))
            elif len(value) > 1 and name.startswith("GLOO") and not taken[0].is_up:
                words = said("{name}={value} takes {name2}, which has no link", name, value, taken[0].name)
                found.append(knowing(words, variable=name))
        return tuple(found)

    def hcas(self) -> tuple[fabric.Hca, ...]:
        """The RDMA ports that the job may use, by NCCL_IB_HCA; FactMissing ("absent") where RDMA is not there."""
        if self.without_rdma():
            raise FactMissing("RDMA ports", self.without_rdma(), "absent")
        if not self.rdma.devices:
            raise FactMissing("RDMA ports", "no RDMA device", "absent")
        if not self._chosen_hcas:
            raise BlockedBy("rdma.nccl_ib_hca_matches_a_port", detail="NCCL_IB_HCA matches no port")
        return self._chosen_hcas

    def hcas_named(self) -> tuple[fabric.Hca, ...]:
        """The same with those that a container sees of its machine and was not given."""
        if not self.hcas() or not self.is_confined():
            return self._chosen_hcas
        return fabric.chosen_hcas(self.rdma, self.value("NCCL_IB_HCA"))

    def is_confined(self) -> bool:
        """Whether the session is one of a container or a scheduler, which may have been given a part of the machine."""
        gpus, identity = self.subjects.get("gpu"), self.subjects.get("identity")
        bus = gpus.on_bus if isinstance(gpus, Gpus) else NOT_REPORTED
        reported = isinstance(bus, Missing) and bus.kind == "absent" and bus is not NOT_REPORTED
        return reported or (isinstance(identity, Identity) and identity.context == "container")

    def without_rdma(self) -> str:
        """Why the job's collectives do without RDMA, whatever the node has; "" where they may use it."""
        return self._without_rdma

    @cached_property
    def _without_rdma(self) -> str:
        if self.backend != "nccl" and not any(map(self.has_variable, MEANS_RDMA)):
            return said("the job's backend is {backend}, which uses no RDMA", self.backend)
        if is_on(self.value("NCCL_IB_DISABLE")):
            return f"NCCL_IB_DISABLE={self.value('NCCL_IB_DISABLE')}"
        return "NCCL_NET=Socket" if self.value("NCCL_NET").lower() == "socket" else ""

    @cached_property
    def _chosen_hcas(self) -> tuple[fabric.Hca, ...]:
        """Worked out once: twenty checks ask."""
        chosen = fabric.chosen_hcas(self.rdma, self.value("NCCL_IB_HCA"))
        return fabric.given(chosen) if self.is_confined() else chosen

    def hcas_asked_for_in_vain(self) -> tuple[fabric.Hca, ...]:
        """The ports of those entries of NCCL_IB_HCA that lead to no active port here."""
        return fabric.asked_for_in_vain(self.rdma, self.value("NCCL_IB_HCA"))

    def active_hcas(self) -> tuple[fabric.Hca, ...]:
        """Those of them that NCCL will take: the active ones."""
        if self.hcas() and not self._active_hcas:
            raise FactMissing("active RDMA port", "every port is down", "absent")
        return self._active_hcas

    @cached_property
    def _active_hcas(self) -> tuple[fabric.Hca, ...]:
        return tuple(hca for hca in self._chosen_hcas if hca.is_active)

    def gid_index(self) -> int:
        """NCCL_IB_GID_INDEX; FactMissing ("absent") where NCCL chooses by itself."""
        text = self.variable("NCCL_IB_GID_INDEX").strip()
        if not text or text.startswith("-"):  # NCCL takes an empty variable for one that is not set
            raise FactMissing("NCCL_IB_GID_INDEX", said("{text}: NCCL chooses", text or "empty"), "absent")
        if not text.isdecimal():
            raise FactMissing("NCCL_IB_GID_INDEX", said("{text!r} is not a number", text))
        return int(text)

    def gids_of_nccl(self) -> Mapping[str, fabric.GidClass]:
        """Each active RoCE port -> the row that NCCL takes: that of NCCL_IB_GID_INDEX, else its own choice.

        A port whose table lacks the row is left out. FactMissing ("absent") where NCCL is too old to choose.
        """
        return self._gids_of_nccl

    @cached_property
    def _gids_of_nccl(self) -> Mapping[str, fabric.GidClass]:
        """Computed once, for five checks."""
        found = {}
        for hca in self.active_hcas():
            if hca.port.link_layer == "Ethernet":
                hca.port.needs_gids()
                rows = {gid.index: gid for gid in hca.port.gids}
                index = self._index_for(hca)
                if index in rows:
                    found[hca.name] = fabric.classify(rows[index])
        return found

    def _index_for(self, hca: fabric.Hca) -> int:
        try:
            return self.gid_index()
        except FactMissing as missing:
            if missing.kind != "absent":
                raise
        if not self.nccl_chooses_gids():
            raise FactMissing("GID index", "this NCCL takes row 0", "absent")
        return self.own_gid_index(hca)

    def own_gid_index(self, hca: fabric.Hca) -> int:
        """The row that NCCL 2.21 and later take by themselves on a RoCE port, by the variables that lead them."""
        family = self.value("NCCL_IB_ADDR_FAMILY") or "AF_INET"
        text, wanted = self.value("NCCL_IB_ROCE_VERSION_NUM"), self.value("NCCL_IB_ADDR_RANGE")
        version = int(text) if text.isdecimal() else 2
        return fabric.gid_of_nccl(hca.port, family=family, version=version, address_range=wanted).index

    def nccl_chooses_gids(self) -> bool:
        """Whether torch's NCCL looks for the right GID by itself, as it does from 2.21 on."""
        version = self.software.library_of_torch("nccl")
        digits = [int(part) for part in version.split(".")[:2] if part.isdecimal()]
        return len(digits) == 2 and digits >= [2, 21]

    def chosen_gids(self) -> dict[str, fabric.GidClass | None]:
        """Each active RoCE port -> the GID at NCCL_IB_GID_INDEX, None where its table has no such row."""
        index = self.gid_index()
        ports = [hca for hca in self.active_hcas() if hca.port.link_layer == "Ethernet"]
        if not ports:  # on InfiniBand NCCL does not ask for the index
            raise FactMissing("active RoCE port", "all RDMA ports are InfiniBand", "absent")
        for hca in ports:
            hca.port.needs_gids()
        rows = {hca.name: {gid.index: gid for gid in hca.port.gids} for hca in ports}
        found = {name: fabric.classify(of_port[index]) for name, of_port in rows.items() if index in of_port}
        return {name: found[name] if name in found and found[name].scope != "empty" else None for name in rows}

    def gid_family(self) -> str:
        """The address family of the chosen GIDs; blocked while the index does not lead to a routable one."""
        found = self.chosen_gids().values()
        if None in found:
            raise BlockedBy("rdma.gid_index_exists_on_every_node")
        if not all(gid is not None and gid.is_routable for gid in found):
            raise BlockedBy("rdma.gid_index_is_routable_roce_v2")
        return ", ".join(sorted({gid.scope for gid in found if gid is not None}))

    def address_for_peers(self) -> str:
        """The address that peers use: that of the training interface, IPv4 before IPv6, else the one we reached."""
        return self._address_for_peers

    @cached_property
    def _address_for_peers(self) -> str:
        # Worked out once: every node is told of every other.
        try:
            return self.network.training_interface.address()
        except FactMissing:
            return self.address

    def has_training_interface(self) -> bool:
        """Whether the node has an interface to train on: without one no peer connects to it."""
        try:
            return bool(self.network.training_interface.name)
        except FactMissing:
            return False

    @cached_property
    def is_out(self) -> bool:
        """Whether the node is known to have lost the interface it trains on, or its address, as its own checks say.

        Worked out once: everyone asks it of their peers.
        """
        network, identity = self.subjects.get("network"), self.subjects.get("identity")
        if not isinstance(network, Network):
            return False
        has_lost_addresses = isinstance(identity, Identity) and bool(self.lost_addresses)
        return bool(network.training_trouble()) or (has_lost_addresses and self.backend == "gloo")

    @cached_property
    def lost_addresses(self) -> tuple[str, ...]:
        """What the hostname resolves to on the node itself, where none of that is an address of the node."""
        return self.identity.lost_addresses(self.network)

    def gpu_count(self) -> int:
        """How many GPUs the job has here; unreadable ones count as none, and a check of their own says so."""
        try:
            return len(self.gpu.readable())
        except FactMissing:
            return 0

    def calls_itself(self, name: str) -> bool:
        """Whether `name` is the node's own hostname or full name."""
        return name in {self.identity.hostname, self.identity.fqdn}

    def value(self, name: str) -> str:
        """A variable as a library reads it: unset is the same as empty."""
        held = self.environment.variables.get(name)
        return "" if held is None else held.value

    def variable(self, name: str) -> str:
        """The value of a variable of the job's environment; FactMissing ("absent") where it is not set."""
        return self.setting(name).value

    def setting(self, name: str) -> Variable:
        """A variable with the layer that set it; FactMissing ("absent") where it is not set."""
        variables = self.environment.variables
        if name not in variables:
            raise FactMissing(name, "not set", "absent")
        return variables[name]

    def has_variable(self, name: str) -> bool:
        """Whether the job's environment sets the variable to something."""
        held = self.environment.variables.get(name)
        return held is not None and held.value != ""
