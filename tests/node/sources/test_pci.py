"""Tests of preflight.node.sources.pci."""

import os

import msgspec
import pytest

from preflight.facts.pci import PciFunction
from preflight.facts.value import Missing
from preflight.node.agent.missing import in_order
from preflight.node.sources import pci


def config(*capabilities, length=4096):
    """A configuration space with extended capabilities (id, the word at offset 6)."""
    data = bytearray(length)
    offset = 0x100
    for number, (identity, word) in enumerate(capabilities):
        after = offset + 0x20 if number + 1 < len(capabilities) else 0
        data[offset : offset + 4] = (after << 20 | 1 << 16 | identity).to_bytes(4, "little")
        data[offset + 6 : offset + 8] = word.to_bytes(2, "little")
        offset += 0x20
    return bytes(data)


def build(sysfs, *, slot_width="16", iommu="identity", space=None):
    """A GPU behind a bridge, as sysfs shows them."""
    bridge = sysfs / "devices/pci0000:80/0000:80:02.2"
    gpu = bridge / "0000:82:00.0"
    gpu.mkdir(parents=True)
    for folder, width in ((bridge, slot_width), (gpu, "16")):
        (folder / "max_link_width").write_text(f"{width}\n")
        (folder / "max_link_speed").write_text("32.0 GT/s PCIe\n")
    (gpu / "current_link_width").write_text("8\n")
    (gpu / "current_link_speed").write_text("16.0 GT/s PCIe\n")
    (gpu / "numa_node").write_text("1\n")
    (gpu / "iommu_group").mkdir()
    (gpu / "iommu_group/type").write_text(f"{iommu}\n")
    (bridge / "config").write_bytes(config() if space is None else space)
    (sysfs / "bus/pci/devices").mkdir(parents=True)
    (sysfs / "bus/pci/devices/0000:82:00.0").symlink_to(gpu)
    return os.fspath(sysfs)


def decoded(facts):
    return msgspec.convert(in_order(facts), type=PciFunction | Missing, strict=True)


def test_place_link_and_iommu_are_told(tmp_path):
    """The bus id of NVML, with eight digits, leads to the function; the slot's width bounds the device's."""
    found = decoded(pci.function(build(tmp_path, slot_width="8"), "00000000:82:00.0"))
    assert found.path == "pci0000:80/0000:80:02.2/0000:82:00.0"
    assert (found.numa_node, found.width, found.width_max, found.speed, found.speed_max) == (1, 8, 8, 16.0, 32.0)
    assert (found.iommu, found.redirecting_bridges) == ("identity", ())


@pytest.mark.parametrize(
    ("capabilities", "redirects"),
    [(((0x0001, 0), (0x000D, 0x001D)), True), (((0x000D, 0x0001),), False), ((), False), (((0x0001, 0x1D),), False)],
)
def test_acs_is_read_from_the_bridge(tmp_path, capabilities, redirects):
    """The control register of the ACS capability, wherever in the list it stands; checking the source is no harm."""
    found = decoded(pci.function(build(tmp_path, space=config(*capabilities)), "0000:82:00.0"))
    assert found.redirecting_bridges == (("0000:80:02.2",) if redirects else ())


def test_a_list_of_capabilities_that_leads_back_ends(tmp_path):
    """A broken device must not hold the collector up."""
    data = bytearray(config())
    data[0x100:0x104] = (0x100 << 20 | 1).to_bytes(4, "little")
    assert pci.acs_control(bytes(data)) == 0


def test_what_only_root_may_read_is_denied(tmp_path):
    """Others see the first 64 bytes: nothing is known of ACS."""
    found = decoded(pci.function(build(tmp_path, space=config()[:64]), "0000:82:00.0"))
    assert isinstance(found.redirecting_bridges, Missing)
    assert found.redirecting_bridges.kind == "denied"


@pytest.mark.parametrize("bus_id", ["0000:99:00.0", "what"])
def test_a_function_that_is_not_there_is_missing(tmp_path, bus_id):
    """A container may hide it."""
    assert isinstance(decoded(pci.function(build(tmp_path), bus_id)), Missing)


def test_switches_are_counted_by_class_and_vendor(tmp_path):
    """A bridge of another vendor is no NVSwitch."""
    for name, (kind, vendor) in {
        "a": ("0x068000", "0x10de"),
        "b": ("0x068000", "0x8086"),
        "c": ("0x030200", "0x10de"),
    }.items():
        folder = tmp_path / "bus/pci/devices" / name
        folder.mkdir(parents=True)
        (folder / "class").write_text(f"{kind}\n")
        (folder / "vendor").write_text(f"{vendor}\n")
    assert pci.count_switches(pci.functions(os.fspath(tmp_path))) == 1
    assert pci.count_switches(pci.functions(os.fspath(tmp_path / "none"))) == 0


def device(sysfs, address, *, vendor="0x10de", kind="0x030200", driver="", physfn=False, boot_vga=""):
    """A PCI function as sysfs lists it."""
    folder = sysfs / "bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "class").write_text(f"{kind}\n")
    if driver:
        (sysfs / "bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
        (folder / "driver").symlink_to(sysfs / "bus/pci/drivers" / driver)
    if physfn:
        (folder / "physfn").mkdir()
    if boot_vga:
        (folder / "boot_vga").write_text(f"{boot_vga}\n")


@pytest.mark.parametrize(
    ("fields", "is_gpu"),
    [
        ({}, True),
        ({"driver": "nvidia"}, True),
        ({"kind": "0x030000"}, True),
        ({"driver": "vfio-pci"}, False),
        ({"kind": "0x030000", "driver": "nouveau", "boot_vga": "1"}, False),
        ({"kind": "0x030000", "driver": "nouveau", "boot_vga": "0"}, True),
        ({"driver": "nouveau"}, True),
        ({"kind": "0x068000"}, False),
        ({"kind": "0x040300"}, False),
        ({"physfn": True}, False),
        ({"vendor": "0x1002", "kind": "0x120000"}, True),
        ({"vendor": "0x1002", "kind": "0x030000"}, False),
        ({"vendor": "0x1a03", "kind": "0x030000"}, False),
    ],
)
def test_gpus_of_the_bus_are_those_that_programs_could_use(tmp_path, fields, is_gpu):
    """With or without a driver; not what a guest or a screen has taken, nor the slices of one."""
    device(tmp_path, "0000:07:00.0", **fields)
    assert pci.gpus(pci.functions(os.fspath(tmp_path))) == (["0000:07:00.0"] if is_gpu else [])


def test_a_machine_without_pci_has_no_gpus(tmp_path):
    """Some ARM boards, and containers without sysfs."""
    assert pci.gpus(pci.functions(os.fspath(tmp_path))) == []


@pytest.mark.parametrize(
    ("fields", "is_lost"),
    [({}, True), ({"driver": "mlx5_core"}, True), ({"driver": "vfio-pci"}, False), ({"physfn": True}, False)],
)
def test_an_infiniband_adapter_without_a_device_is_told(tmp_path, fields, is_lost):
    """Be it that no driver has it, or only the half that makes no RDMA device."""
    device(tmp_path, "0000:07:00.0", vendor="0x15b3", kind="0x020700", **fields)
    assert pci.unused_infiniband(pci.functions(os.fspath(tmp_path)), ()) == (["0000:07:00.0"] if is_lost else [])
    assert pci.unused_infiniband(pci.functions(os.fspath(tmp_path)), {"0000:07:00.0"}) == []


def test_errors_on_pcie_are_counted_by_their_sums(tmp_path):
    """A file that was cut before its sum is no count, a function without AER has none."""
    place = tmp_path / "bus/pci/devices/0000:07:00.0"
    place.mkdir(parents=True)
    assert pci.counted(str(tmp_path), "0000:07:00.0")["kind"] == "absent"
    (place / "aer_dev_correctable").write_text("RxErr 3\nBadTLP 4\nTOTAL_ERR_COR 7\n")
    (place / "aer_dev_fatal").write_text("DLP 0\nTOTAL_ERR_FATAL 0\n")
    assert "aer_dev_nonfatal" in pci.counted(str(tmp_path), "00000000:07:00.0")["missing"]
    (place / "aer_dev_nonfatal").write_text("DLP 0\nTOTAL_ERR_NONFATAL 0\n")
    counted = pci.counted(str(tmp_path), "00000000:07:00.0")
    assert counted == [["PCIe errors, fatal", 0], ["PCIe errors, uncorrected", 0], ["PCIe errors, corrected", 7]]
    for text in ("", "RxErr 3\n", "RxErr 3\nTOTAL_ERR"):
        (place / "aer_dev_correctable").write_text(text)
        assert pci.counted(str(tmp_path), "0000:07:00.0")["kind"] == "failed"


def express(control, *capabilities, after=0):
    """A configuration space whose capability of PCI Express, the second in the list, has this control register."""
    data = bytearray(config(*capabilities))
    data[0x34], data[0x40:0x42], data[0x60:0x62] = 0x40, bytes((0x05, 0x60)), bytes((0x10, after))
    data[0x68:0x6A] = control.to_bytes(2, "little")
    return bytes(data)


@pytest.mark.parametrize(
    ("space", "wanted"),
    [
        (express(0x2810), [512, True, False]),
        (express(0x5800), [4096, False, False]),
        (express(0x0810, (0x0001, 0), (0x000F, 0x8000)), [128, True, True]),
        (express(0x0810, (0x000F, 0x0000)), [128, True, False]),
    ],
)
def test_how_a_device_asks_for_memory_is_read_from_its_configuration(space, wanted, tmp_path):
    """As lspci -vv prints MaxReadReq, RlxdOrd+ and ATSCtl: Enable+."""
    (tmp_path / "config").write_bytes(space)
    assert in_order(pci.requests(os.fspath(tmp_path))) == wanted


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (None, "absent"),
        (express(0x2810)[:64], "denied"),
        (config(), "absent"),
        (express(0x2810).replace(b"\x10\x00", b"\x09\x40", 1), "absent"),
    ],
    ids=["no file", "not root", "no PCI Express", "a list that leads back"],
)
def test_a_configuration_that_tells_nothing_is_missing(space, kind, tmp_path):
    """Never the values of a register that was not read."""
    if space is not None:
        (tmp_path / "config").write_bytes(space)
    assert pci.requests(os.fspath(tmp_path))["kind"] == kind


@pytest.mark.parametrize(
    ("name", "is_address"),
    [
        ("0000:3b:00.0", True),
        ("10000:e1:1f.7", True),
        ("0000:3B:00.0", False),
        ("000:3b:00.0", False),
        ("0000:3b:00.10", False),
        ("0000:3b:00", False),
        ("0000:3b-00.0", False),
        ("pci0000:3b", False),
        ("device", False),
    ],
)
def test_an_address_is_written_as_sysfs_writes_it(name, is_address):
    """Domain, bus, device and function in hexadecimal digits; a bridge's root or a driver's name is none."""
    assert pci.is_address(name) is is_address
