"""How many pods are made from one template, and what does each of them have?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from preflight.launch.field import Field, Sourced, whole
from preflight.launch.text.located import Located

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "nvidia.com/vgpu")


@dataclass(frozen=True)
class Group:
    """Pods made from one template; `count` is how many. Not all volumes stand here where an operator adds some."""

    pod: Located
    count: Field[int]
    role: str
    knows_volumes: bool = True
    metadata: Located | None = None
    claims: tuple[str, ...] = ()  # volumes that the controller claims for each pod

    @property
    def containers(self) -> list[Located]:
        """The pod's containers."""
        held = self.pod.get("containers")
        return held.each() if held else []

    def gpus(self, file: str) -> Field[int]:
        """The GPUs of one pod."""
        found: Field[int] = None
        for container in self.containers:
            for name in GPU_RESOURCES:
                for part in ("limits", "requests"):
                    held = container.get("resources", part, name)
                    count = whole(str(held.value)) if held else None
                    if held and found is None and count is not None:
                        found = Sourced(count, file, held.line)
        return found


def number(held: Located | None, file: str, default: int | None = None) -> Field[int]:
    """A count of a manifest; `default` is what Kubernetes takes where it is absent."""
    if held is None or held.value is None:
        return None if default is None else Sourced(default, file, 1, "tool")
    value = whole(held.value) if isinstance(held.value, str) else held.value
    return Sourced(value, file, held.line) if isinstance(value, int) and not isinstance(value, bool) else None


def group_of(held: Located | None, count: Field[int], role: str) -> list[Group]:
    """The group of a pod template, none where it has no pod."""
    pod = held.get("spec") if held is not None else None
    return [Group(pod, count, role, metadata=held.get("metadata"))] if held is not None and pod is not None else []


def total(groups: Iterable[Group]) -> Field[int]:
    """How many pods there are in all groups."""
    counts = [group.count for group in groups]
    known = [count for count in counts if isinstance(count, Sourced)]
    if not known or len(known) < len(counts):
        return None
    place = next((count for count in reversed(known) if count.origin == "written"), known[0])
    return Sourced(sum(count.value for count in known), place.file, place.line)


def variable(name: str, value: str, line: int) -> Located:
    """A variable, as it stands in the `env` of a container."""
    return Located({"name": Located(name, line, name), "value": Located(value, line, value)}, line)
