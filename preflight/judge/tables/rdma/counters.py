"""Which RDMA ports went down or counted errors during the run?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from preflight.facts.fabric import Hca
from preflight.facts.node import NodeFacts
from preflight.facts.subjects.ending import PortEnd
from preflight.judge.tables.faults import Fault, link
from preflight.said import joined, said
from preflight.said.errors import BlockedBy, FactMissing, NotApplicable

# What counts errors of link or transport; flow counters and those of mere congestion are left out.
ERROR_COUNTERS = (
    *("symbol_error", "link_error_recovery", "port_rcv_errors", "port_rcv_remote_physical_errors"),
    *("local_link_integrity_errors", "excessive_buffer_overrun_errors", "port_xmit_constraint_errors"),
    *("port_rcv_constraint_errors", "port_xmit_discards", "local_ack_timeout_err", "packet_seq_err"),
    *("rnr_nak_retry_err", "req_cqe_error", "resp_cqe_error", "rx_icrc_encapsulated", "out_of_buffer"),
    # bnxt_re, ionic and efa, by their drivers' hw_counters
    *("to_retransmits", "seq_err_naks_rcvd", "max_retry_exceeded", "unrecoverable_err", "oos_drop_count"),
    *("rx_roce_error_pkts", "rx_roce_discard_pkts", "tx_roce_errors", "rx_out_of_buffer", "rx_out_of_sequence"),
    *("req_tx_retry_excd_err", "req_rx_rnr_retry_err", "tx_rdma_ack_timeout", "resp_rx_outof_buf"),
    *("resp_rx_outof_seq", "rx_rdma_mtu_discard_pkts"),
    *("retrans_timeout_events", "unresponsive_remote_events", "impaired_remote_conn_events"),
    "no_completion_cmds",
)


@dataclass(frozen=True)
class Watched:
    """A port that was active at the start, and what became of it: None where it is gone."""

    hca: Hca
    end: PortEnd | None

    def grown(self, names: Iterable[str]) -> dict[str, int]:
        """How much each counter grew; FactMissing where the port counts none of them, before or after."""
        if self.end is None:
            raise NotApplicable("the port is gone")
        before, after = self.hca.port.counters, self.end.counters
        names = tuple(names)
        known = [name for name in names if name in before and name in after]
        lost = [name for name in names if name in self.hca.port.unread]
        if lost:
            raise FactMissing("counters", said("{lost} cannot be read", ", ".join(lost)))
        if not known:
            raise FactMissing("counters", "the port counts nothing of the kind", "absent")
        return {name: after[name] - before[name] for name in known if after[name] > before[name]}


def watched(node: NodeFacts) -> list[tuple[str, Watched]]:
    """The active ports of a node that the job may use, at the end of the run; none where it uses no RDMA."""
    try:
        active = [hca for hca in node.hcas() if hca.is_up]  # EFA's too, though NCCL's own transport leaves it out
    except BlockedBy:
        raise
    except FactMissing as missing:
        if missing.kind != "absent":
            raise
        return []
    return [(hca.name, Watched(hca, node.ending.ports.get(hca.name))) for hca in active]


def _changed(port: Watched) -> str:
    if port.end is None:
        return said("{name} is gone", port.hca.name)
    return "" if port.end.state == "ACTIVE" else said("{name} was ACTIVE and is {state}", port.hca.name, port.end.state)


def _went_down(port: Watched) -> str:
    downs = port.grown(["link_downed"]).get("link_downed", 0)
    return said("{name} went down {downs} times", port.hca.name, downs) if downs else ""


def _counted(port: Watched) -> str:
    return joined(
        [
            said("{name} of {name2} grew by {count}", name, port.hca.name, count)
            for name, count in port.grown(ERROR_COUNTERS).items()
        ]
    )


def kind_of_counts(port: Watched) -> str:
    """What ports that count the same have in common."""
    return link(port.hca)


# Rows about a port over the run.
FLAPPED = (
    Fault("state", _changed, "", "ROCm/rccl#1423"),
    Fault("links", _went_down, "", "InfiniBand Architecture Specification, PortCounters.LinkDownedCounter"),
)
COUNTED = (Fault("error counters", _counted, "", "InfiniBand Architecture Specification, PortCounters"),)
