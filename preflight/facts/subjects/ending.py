"""What has moved on a node since its facts were read?"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from preflight.facts.subjects.gpu import Counted, LinkErrors
from preflight.facts.subjects.kernel import LogEvent
from preflight.facts.value import NOT_REPORTED, Count, Missing, Text, Value


class PortEnd(Value, frozen=True):
    """An RDMA port at the end of the run."""

    state: Text
    counters: dict[Text, Count]


class LinksEnd(NamedTuple):
    """The NVLinks of a GPU at the end of the run."""

    gpu: Text  # its UUID; where nvidia-smi prints none, its index
    errors: LinkErrors | Missing


class Ending(Value, frozen=True, kw_only=True):
    """What may have moved while the jobs ran."""

    ports: dict[Text, PortEnd]  # "mlx5_0:1"
    oom_kills: Count | Missing
    link_errors: dict[Text, Count] = msgspec.field(default_factory=dict)
    link_errors_unread: Missing = NOT_REPORTED  # why there are none, where the kernel's table could not be read
    carrier_changes: dict[Text, Count] = msgspec.field(default_factory=dict)  # interface -> links up and down
    nvlink_errors: tuple[LinksEnd, ...] | Missing = NOT_REPORTED
    gpus_counted: tuple[Counted, ...] | Missing = NOT_REPORTED
    log: tuple[LogEvent, ...] | Missing = NOT_REPORTED
    # The node's clock against the controller's, as at the start; filled in by the controller.
    offset_seconds: float | Missing = NOT_REPORTED
    uncertainty_seconds: float | Missing = NOT_REPORTED
