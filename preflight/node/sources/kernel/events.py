"""Which events of the kernel's log still hold, after all that its later lines report?"""

from __future__ import annotations

import re

from preflight.node.sources.kernel.lines import (
    BANDWIDTH,
    LINK,
    LOADED,
    MODULE,
    OF_LAST_BOOT,
    PCI,
    POWER,
    VIRTUAL,
    event_in,
    in_one_line,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_EVENTS = 200
AT_LOADING = r"probe (?:of|with)|PCI I/O region|The NVIDIA GPU"  # logged of a GPU before the line LOADED
LOADING_S = 30.0
LIMITED = (r"limited by", r"insufficient", r"switched from VF")
STATES = (BANDWIDTH, POWER, VIRTUAL, MODULE)  # what holds is what was said last
AT_START_S = 600.0  # while drivers and services come up, links go down and up as they are configured
# Firmware's record of an error: the first line has its severity, further ones its kind and its device.
RECORD, SEVERITY = "[Hardware Error]:", " event severity: "
DETAIL = r"\[Hardware Error\]: +((?:section_type|error_type|device_id): .*)"
# The driver recovered a device, or took it anew: what of these kinds it reported of it before is over.
RECOVERED = (
    (("xid", "driver"), r"NVRM: Xid .*: 154, .*\bto (?:0x0 )?\(?None"),
    (("driver",), r"amdgpu .* GPU reset\(\d+\) succeeded"),
    (("rdma",), r"mlx5_core .*(?:health recovery succeeded|: firmware version: )"),
)
OF_MEMORY = "ncorrectable"  # which a reset does not mend for good
OF_DRIVER = ("xid", "sxid", "driver")


def parse(lines: list[str], *, now_s: float) -> list[dict[str, Any]]:
    """The events among records "6,1234,5678901,-;text"; the third figure is microseconds since the start."""
    found: list[dict[str, Any]] = []
    limited: dict[tuple[str, str], dict[str, Any]] = {}  # by kind and device: a later line replaces it
    heading = ""  # of firmware's records
    for record in lines:
        head, separator, text = record.partition(";")
        fields = head.split(",")
        if not separator or len(fields) < 3 or not fields[2].isdecimal():
            continue
        at_s, text = int(fields[2]) / 1e6, text.partition("\n")[0]
        if found and RECORD in text and is_of_record(found[-1], text, age_s=now_s - at_s):
            found[-1] = with_detail(found[-1], text)
            continue
        heading = text if text.startswith(OF_LAST_BOOT) else heading if RECORD in text else ""
        event = event_in(in_one_line(f"{heading} {text}" if heading != text else text))
        if event.get("kind") == LOADED:  # the driver was loaded again: its earlier reports are over
            found = [one for one in found if one["kind"] not in OF_DRIVER or is_of_loading(one, now_s - at_s)]
            continue
        found = without_recovered(found, text) if found else found
        if event and not (event["kind"] == LINK and at_s < AT_START_S):
            event = {**event, "age_seconds": round(max(0.0, now_s - at_s), 1)}
            place = event["kind"], event["device"]
            if event["kind"] not in STATES:
                found.append(event)
            elif event["kind"] == MODULE or any(words in event["text"] for words in LIMITED):
                limited[place] = event
            else:
                limited.pop(place, None)
    return [*list(limited.values())[:MOST_EVENTS], *found[-MOST_EVENTS:]]


def is_of_record(event: dict[str, Any], text: str, *, age_s: float) -> bool:
    """Whether a line belongs to firmware's record whose first line is the event."""
    head, _, rest = text.partition(RECORD)
    begun = event["text"].removeprefix(OF_LAST_BOOT).strip().startswith(f"{head}{RECORD}{SEVERITY}")
    return begun and not rest.startswith(SEVERITY) and event["age_seconds"] - age_s < 1.0


def with_detail(event: dict[str, Any], text: str) -> dict[str, Any]:
    """The event with what a further line of its record tells: of what kind the error is, and of which device."""
    found = re.search(DETAIL, text)
    return {**event, "text": f"{event['text']}, {found.group(1)}"[:300]} if found else event


def without_recovered(found: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """The events that a line does not end; of what memory a GPU lost stays a warning."""
    for kinds, words in RECOVERED:
        place = re.search(PCI, text.lower()) if re.search(words, text) else None
        if place:
            slot = place.group(1).partition(".")[0]
            ended = [e for e in found if e["kind"] in kinds and e["device"].partition(".")[0] in (slot, "")]
            worn = [{**e, "kind": "wear"} for e in ended if OF_MEMORY in e["text"]]
            return [*worn, *(e for e in found if e not in ended)]
    return found


def is_of_loading(event: dict[str, Any], age_s: float) -> bool:
    """Whether a line came as the driver was loaded that says so at this age: of a GPU that it could not take."""
    return event["age_seconds"] <= age_s + LOADING_S and bool(re.search(AT_LOADING, event["text"]))


def is_of_use(text: str) -> bool:
    """Whether a line reports an event, or the end of one."""
    words = (DETAIL, OF_LAST_BOOT, *(words for _, words in RECOVERED))
    return bool(event_in(text)) or any(re.search(each, text) for each in words)
