"""Which jobs do the documents of a manifest hold, those inside of lists and other jobs included?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from preflight.launch.text.located import Located

# Jobs that are started by the clock: the kind of what their jobTemplate holds.
BY_THE_CLOCK = {"CronJob": "Job", "RayCronJob": "RayJob"}


def unwrapped(documents: Iterable[Located]) -> list[Located]:
    """The documents, with what lists, AppWrappers and schedules hold in their places."""
    found: list[Located] = []
    for document in documents:
        kind = document.get("kind")
        name = str(kind.value) if kind is not None else ""
        items, parts = document.get("items"), document.get("spec", "components")
        template = document.get("spec", "jobTemplate")
        if name.endswith("List") and items is not None and items.each():
            found += unwrapped(items.each())
        elif name == "AppWrapper" and parts is not None and parts.each():
            found += unwrapped(held for part in parts.each() if (held := part.get("template")) is not None)
        elif kind is not None and name in BY_THE_CLOCK and template is not None:
            found.append(_of_a_schedule(document, kind, template))
        else:
            found.append(document)
    return found


def _of_a_schedule(document: Located, kind: Located, template: Located) -> Located:
    """The job that a schedule starts: named as the schedule is, which adds a number to the name."""
    name = BY_THE_CLOCK[str(kind.value)]
    spec = template.get("spec") or template  # a RayCronJob's template is the job's spec itself
    held = {**document.mapping(), "kind": replace(kind, value=name, text=name), "spec": spec}
    return replace(document, value=held)
