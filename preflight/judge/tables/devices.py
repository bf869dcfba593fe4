"""How fast should a GPU be: as fast as its equals, and as its data sheet says?"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from preflight.facts.results import Device
from preflight.knowledge.data_sheets import model_of
from preflight.said import joined, said
from preflight.said.errors import Blame, NotApplicable, NotMeasured

ENOUGH = 3  # values of which the middle one is no outlier's
FAR_HOTTER_CELSIUS = 25.0  # than the median of its equals: from the first to the last in a stream of air it is 10 to 15
OVER_C2C = re.compile(r"GH200|GB[123]0")  # whose PCIe link carries nothing
POWER_CAP = "software power cap"  # as the workload calls it
Usual = Mapping[tuple[str, str], tuple[float, int]]  # model and figure -> the median of equals, and their number
IMPOSSIBLE_ABOVE = 1.25  # of the data sheet, whose clocks some boards exceed
# What is measured, how a message calls it, and which figure of the data sheet it is compared with.
FIGURES = {
    "matmul_tflops_per_s": ("multiplies matrices at {} TFLOP/s", "matmul_tflops_per_s"),
    "memory_gbytes_per_s": ("copies its memory at {} GB/s", "memory_gbytes_per_s"),
    "to_device_gbytes_per_s": ("receives {} GB/s from the host", "host_gbytes_per_s"),
    "from_device_gbytes_per_s": ("sends {} GB/s to the host", "host_gbytes_per_s"),
}


def figures(device: Device) -> Iterator[tuple[str, float]]:
    """The figures that were measured of a device."""
    for name in FIGURES:
        value = getattr(device, name)
        if value is not None:
            yield name, value


def wrong(devices: Iterable[Device]) -> list[Blame]:
    """A Blame for each device whose product was another one the second time, or by another way.

    By another way only where both agree on some device of its model: else the library may add inexactly. NotMeasured
    where that is all that is known.
    """
    held = tuple(devices)
    found, unsure = [], []
    for one in held:
        if one.wrong or one.wrong_products:
            words = said("{title}: {wrong} differ from those of the same product before", _title(one), _wrong(one))
            found.append(Blame(words, nodes=[one.node]))
        elif one.paths_differ and any(other.model == one.model and not other.paths_differ for other in held):
            words = said(
                "{title}: {paths_differ} elements of one exact product differ by two ways",
                _title(one),
                one.paths_differ,
            )
            found.append(Blame(words, nodes=[one.node]))
        elif one.paths_differ:
            unsure.append(one.model)
    if unsure and not found:
        raise NotMeasured(
            said("two ways to one exact product differ on every {unsure}: its library adds inexactly", unsure[0])
        )
    return found


def _wrong(device: Device) -> str:
    if device.wrong_products:
        return said("{wrong_products} of {products} products", device.wrong_products, device.products)
    return said("{wrong} elements of a product", device.wrong)


def slowed(devices: Iterable[Device]) -> list[Blame]:
    """A Blame for each GPU that its own hardware slows down under load: heat, the power supply, a brake.

    The cap that the board's own power limit sets does not count: large boards reach it in every job.
    """
    return [
        Blame(
            said("{title} is slowed down under load: {reasons}{state}", _title(one), ", ".join(reasons), state(one)),
            nodes=[one.node],
        )
        for one in devices
        if (reasons := [reason for reason in one.slowed_by if reason != POWER_CAP])
    ]


def needs_sensors(devices: Iterable[Device]) -> None:
    """NotApplicable where nothing tells what a GPU does under load: no NVML, no driver of AMD's with sensors."""
    reported = ("sm_mhz", "memory_celsius", "pcie_generation", "has_cores_near")
    if all(getattr(one, name) is None for one in devices for name in reported):
        raise NotApplicable(
            "neither NVML nor the kernel reports clocks, temperatures or links of these GPUs under load"
        )


def strained(devices: Sequence[Device]) -> list[Blame]:
    """A Blame for each GPU whose memory is too hot under load, whose link is too little, or whose rank is far from it.

    The memory's limit is the GPU's own; where it tells none, its equals are far cooler. An idle GPU lowers its link.
    """
    blames, usual = [], _usual(devices)
    for one in devices:
        words = [*_hot_memory(one, usual), *_lesser_link(one, usual)]
        if one.has_cores_near is False:
            words.append(
                "its rank may use none of the cores of its NUMA node, so all that it copies takes the longer way"
            )
        if words:
            blames.append(
                Blame(
                    said("{title}, under load: {words}{state}", _title(one), joined(words), state(one)),
                    nodes=[one.node],
                )
            )
    return blames


def _usual(devices: Iterable[Device]) -> Usual:
    """Model and figure -> their median, and how many devices reported it; only where enough did."""
    reported: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for one in devices:
        for name in ("memory_celsius", "pcie_generation", "pcie_width"):
            if (value := getattr(one, name)) is not None:
                reported.setdefault((one.model, name), []).append((one.node, value))
    return {key: (middle_of(values), len(values)) for key, values in reported.items() if len(values) >= ENOUGH}


def _hot_memory(device: Device, usual: Usual) -> Iterator[str]:
    at, limit = device.memory_celsius, device.memory_limit_celsius
    middle, count = usual.get((device.model, "memory_celsius"), (math.inf, 0))
    if at is None:
        return
    if limit is not None and at >= limit:
        yield said("its memory is at {at:.0f} °C, its limit is {limit:.0f}", at, limit)
    elif limit is None and at > middle + FAR_HOTTER_CELSIUS:
        yield said("its memory is at {at:.0f} °C, the median of {count} is {middle:.0f}", at, count, middle)


def _lesser_link(device: Device, usual: Usual) -> Iterator[str]:
    at, most = device.pcie_generation, device.pcie_generation_max
    if at is not None and most is not None and at < most and not OVER_C2C.search(device.model):
        yield said("its PCIe link runs at generation {at:.0f}, and can at {most:.0f}", at, most)
        return
    for name, words in (("pcie_generation", "generation {:.0f}"), ("pcie_width", "{:.0f} lanes")):
        value = getattr(device, name)
        middle, _ = usual.get((device.model, name), (0.0, 0))
        if value is not None and value < middle:
            yield said("its PCIe link has {format}, that of most {format2}", words.format(value), words.format(middle))


def state(device: Device) -> str:
    """Clock, power and temperature while it multiplied, as the end of a sentence; "" where nothing reported them."""
    reported = []
    if device.sm_mhz is not None:
        most = said(" of {sm_mhz_max:.0f}", device.sm_mhz_max) if device.sm_mhz_max is not None else ""
        reported.append(f"{device.sm_mhz:.0f}{most} MHz")
    if device.power_watts is not None:
        most = (
            said(" of {power_limit_watts:.0f}", device.power_limit_watts)
            if device.power_limit_watts is not None
            else ""
        )
        reported.append(f"{device.power_watts:.0f}{most} W")
    if device.temperature_celsius is not None:
        reported.append(f"{device.temperature_celsius:.0f} °C")
    if device.memory_celsius is not None:
        reported.append(said("memory {memory_celsius:.0f} °C", device.memory_celsius))
    if device.pcie_generation is not None and device.pcie_width is not None:
        reported.append(
            said("PCIe Gen{pcie_generation:.0f} x{pcie_width:.0f}", device.pcie_generation, device.pcie_width)
        )
    reported += device.slowed_by
    return f" ({', '.join(reported)})" if reported else ""


def outliers(devices: Sequence[Device], *, share: float) -> list[Blame]:
    """A Blame for each device with a figure below `share` of the median of its equals: same model, same type.

    Each node has one voice, the median of its own: what one of three nodes says of many GPUs moves nobody's measure.
    """
    found: dict[tuple[str, str, str], list[tuple[str, float]]] = {}
    for one in devices:
        for name, value in figures(one):
            found.setdefault((one.model, one.matmul_dtype, name), []).append((one.node, value))
    usual = {key: (middle_of(values), len(values)) for key, values in found.items()}
    blames = []
    for one in devices:
        for name, value in figures(one):
            middle, count = usual[one.model, one.matmul_dtype, name]
            if value < share * middle:
                words = FIGURES[name][0].format(f"{value:.4g}")
                blames.append(
                    Blame(
                        said(
                            "{title} {words}; the median of {count} is {middle:.4g}{state}",
                            _title(one),
                            words,
                            count,
                            middle,
                            state(one),
                        ),
                        nodes=[one.node],
                    )
                )
    return blames


def middle_of(reported: Iterable[tuple[str, float]]) -> float:
    """The median over nodes of each one's median; of fewer than three nodes that of all figures, for none outvotes."""
    of_node: dict[str, list[float]] = {}
    for node, value in reported:
        of_node.setdefault(node, []).append(value)
    if len(of_node) < ENOUGH:
        return median(value for values in of_node.values() for value in values)
    return median(median(values) for values in of_node.values())


def below_model(devices: Iterable[Device], *, shares: dict[str, float]) -> list[Blame]:
    """A Blame for each figure below its share of the data sheet's; `shares` has one for each figure of it.

    NotMeasured for a figure that is far above it, NotApplicable where no data sheet is known.
    """
    known = [(one, model) for one in devices if (model := model_of(one.model))]
    if not known:
        raise NotApplicable("no data sheet of these GPUs is known here")
    blames = []
    for one, model in known:
        for name, value in figures(one):
            words, kind = FIGURES[name]
            message = f"{_title(one)} {words.format(f'{value:.4g}')}"
            sheet = float(getattr(model, kind))
            if value > IMPOSSIBLE_ABOVE * sheet:
                raise NotMeasured(
                    said("{message}: more than it can ({sheet:g}), the figure or the model is wrong", message, sheet)
                )
            kept = {"matmul_tflops_per_s": model.matmul_kept, "host_gbytes_per_s": model.host_kept}.get(kind, 1.0)
            wanted = shares[kind] * kept
            if value < wanted * sheet:
                words = said(
                    "{value:.0%} of the {sheet:g} of its data sheet, wanted {wanted:.0%}{state}",
                    value / sheet,
                    sheet,
                    wanted,
                    state(one),
                )
                blames.append(Blame(said("{message}: {words}", message, words), nodes=[one.node]))
    return blames


def _title(device: Device) -> str:
    return said("{device} of {node} ({model})", device.named, device.node, device.model)
