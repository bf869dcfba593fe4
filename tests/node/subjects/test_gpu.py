"""Tests of preflight.node.subjects.gpu."""

import os
import re
import stat
from pathlib import Path

import msgspec
import pytest

from preflight.facts.subjects.gpu import Gpus
from preflight.facts.value import Missing
from preflight.node.sources import pci
from preflight.node.subjects import gpu
from tests.recordings import FIELD, needs_recordings

RECORDED = Path(__file__).parents[2] / "data/nvidia-smi/two-gpus.xml"


def decoded(facts):
    return msgspec.convert(facts, type=Gpus, strict=True)


def fake(folder, script):
    """A program called nvidia-smi, and the arguments that put it on the job's PATH."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {
        "environment": [["--env", {"PATH": f"{folder}:/usr/bin:/bin"}]],
        "proc": os.fspath(folder),
        "sysfs": os.fspath(folder),
    }


def test_two_gpus_are_told():
    """Names, memory and processes are read; the index is the place in the list, not the minor number."""
    facts = decoded(gpu.parse(RECORDED.read_text()))
    assert (facts.driver, facts.cuda_driver) == ("550.54.15", "12.4")
    first, second = facts.devices
    assert (first.index, first.bus_id, first.memory_mib, first.processes) == (0, "00000000:07:00.0", 81920, 1)
    assert (first.name, first.mig_mode, first.compute_mode) == ("NVIDIA A100-SXM4-80GB", "Disabled", "Default")
    assert second.index == 1
    for value in (second.memory_mib, second.mig_mode, second.compute_mode, second.processes):
        assert isinstance(value, Missing)
        assert value.kind == "absent"


def test_warnings_around_the_document_do_no_harm():
    """A driver's warning before or after the document is passed over."""
    text = f"WARNING: infoROM is corrupted\n{RECORDED.read_text()}\nWARNING: infoROM is corrupted at gpu 0000:07:00.0\n"
    assert len(decoded(gpu.parse(text)).devices) == 2


def test_a_document_that_is_cut_short_is_refused():
    """However much of the document is lost, no GPU is told: too few would look like a lost one."""
    text = RECORDED.read_text().rstrip()
    for length in range(0, len(text) - 1, 41):
        with pytest.raises(ValueError, match="nvidia-smi"):
            gpu.parse(text[:length])


def test_fewer_descriptions_than_gpus_are_refused():
    """A count that does not match the list is a failure and not a smaller node."""
    devices = decoded(gpu.parse(RECORDED.read_text().replace("<attached_gpus>2", "<attached_gpus>8"))).devices
    assert devices == Missing("nvidia-smi counts 8 GPUs and describes 2", "failed")


@pytest.mark.parametrize(
    ("old", "new"), [("81920 MiB", "ERR!"), ("81920 MiB", "-5 MiB"), ("Default<", "[Unknown Error]<")]
)
def test_a_value_that_is_an_error_is_missing(old, new):
    """What nvidia-smi could not read is a failure of that value, and the GPU is still told."""
    first = decoded(gpu.parse(RECORDED.read_text().replace(old, new))).devices[0]
    assert Missing(f"nvidia-smi says {new.rstrip('<')}", "failed") in (first.memory_mib, first.compute_mode)


def test_a_gpu_without_a_name_fails_the_list():
    """A lost GPU has no uuid; the list is then not a list of the node's GPUs."""
    with pytest.raises(ValueError, match=r"uuid of GPU 00000000:07:00\.0"):
        gpu.parse(RECORDED.read_text().replace("GPU-11111111-2222-3333-4444-555555555555", "[GPU is lost]"))


def test_entities_are_not_expanded():
    """A document type with entities is cut off with everything before the document, so it cannot grow."""
    bomb = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa">]><nvidia_smi_log>&a;</nvidia_smi_log>'
    with pytest.raises(ValueError, match="broken XML"):
        gpu.parse(bomb)


def test_a_node_without_nvidia_smi_has_no_gpu(tmp_path):
    """Neither program nor driver: no GPU, and that is known."""
    arguments = {"environment": [["--env", {"PATH": ""}]], "proc": os.fspath(tmp_path), "sysfs": os.fspath(tmp_path)}
    facts = decoded(gpu.collect(arguments))
    assert facts.devices == ()
    assert facts.driver == Missing("nvidia-smi not found", "absent")
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    assert isinstance(decoded(gpu.collect(arguments)).devices, Missing)


def test_the_program_on_the_jobs_path_is_asked(tmp_path):
    """A whole document counts whatever the exit code, for a corrupted infoROM gives one of its own."""
    facts = decoded(gpu.collect(fake(tmp_path, f"cat {RECORDED}; echo WARNING: infoROM >&2; exit 14")))
    assert [device.index for device in facts.devices] == [0, 1]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            "echo NVIDIA-SMI has failed because it could not communicate with the driver; exit 9",
            "could not communicate",
        ),
        ("echo No devices were found; exit 6", "No devices were found"),
        ("echo symbol lookup error >&2; exit 127", "symbol lookup error"),
        ("exit 0", "printed no XML"),
        (f"head -c 700 {RECORDED}", "cut short"),
        ("yes '<nvidia_smi_log>'", "more than 16 MiB"),
    ],
)
def test_a_program_that_fails_is_a_missing_list(tmp_path, script, reason):
    """A tool that does not answer is never taken for a node without GPUs."""
    facts = decoded(gpu.collect(fake(tmp_path, script)))
    for value in (facts.devices, facts.driver, facts.cuda_driver):
        assert isinstance(value, Missing)
        assert value.kind == "failed"
        assert reason in value.missing


@needs_recordings
def test_the_documents_of_real_hosts_are_read():
    """Every recorded document gives its driver and GPUs; the one cut down by hand is refused for its count."""
    files = sorted(FIELD.glob("nvidia-smi/*/nvidia-smi-q-x.xml"))
    assert files
    for file in files:
        facts = decoded(gpu.parse(file.read_text(errors="backslashreplace")))
        assert isinstance(facts.driver, str), file
        if file.parent.name == "telegraf-a100-sxm4-v12":
            assert facts.devices == Missing("nvidia-smi counts 4 GPUs and describes 1", "failed")
            continue
        assert facts.devices, file
        assert [device.index for device in facts.devices] == list(range(len(facts.devices)))
        assert all(isinstance(device.memory_mib, int) for device in facts.devices), file


PLAIN = Path(__file__).parents[2] / "data/nvidia-smi/h200.txt"


def plain(*changes):
    """The recorded text of one GPU with some of its words changed."""
    text = PLAIN.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def test_the_plain_text_tells_the_same():
    """Where there is no XML to read, the text for people gives names, state and links."""
    facts = decoded(gpu.parse(plain(), is_text=True))
    (device,) = facts.devices
    assert (facts.driver, facts.cuda_driver) == ("590.48.01", "13.1")
    assert (device.name, device.bus_id, device.memory_mib, device.processes) == (
        "NVIDIA H200",
        "00000000:83:00.0",
        143771,
        0,
    )
    status = device.status
    assert (status.uncorrected_errors, status.is_remapping_pending, status.fabric_state) == (0, False, "Completed")
    assert (status.pcie_generation, status.pcie_width_max, status.power_limit_watts) == (5, 16, 700.0)
    assert status.slowdowns == ("idle",)


def test_a_text_that_is_cut_short_is_refused():
    """A GPU whose last section did not come is no GPU with good values; nor is a list with one missing."""
    text = plain()
    with pytest.raises(ValueError, match="cut short"):
        gpu.parse(text[: text.index("    Processes")], is_text=True)
    devices = decoded(
        gpu.parse(
            plain(("Attached GPUs                                          : 1", "Attached GPUs : 8")), is_text=True
        )
    ).devices
    assert devices == Missing("nvidia-smi counts 8 GPUs and describes 1", "failed")


def test_the_text_is_asked_for_where_the_xml_cannot_be_read(tmp_path):
    """An XML that is broken does not cost the facts, if the text is whole."""
    script = f'case "$*" in "-q -x") echo "<nvidia_smi_log><gpu></nvidia_smi_log>";; -q) cat {PLAIN};; esac'
    facts = decoded(gpu.collect(fake(tmp_path, script)))
    assert [device.name for device in facts.devices] == ["NVIDIA H200"]


def test_links_and_topology_are_asked_of_several_gpus(tmp_path):
    """Each of these has its own program and its own limit; one that fails leaves the other."""
    links = "GPU 0: A (UUID: x)\n\t Link 0: 26 GB/s\n\t Link 1: <inactive>\nGPU 1: A (UUID: y)\n\t Link 0: 26 GB/s"
    answers = (f'"-q -x") cat {RECORDED}', f"\"nvlink -s\") printf '{links}\\n'", "*) echo no such thing; exit 2")
    script = f'case "$*" in {";; ".join(answers)};; esac'
    facts = decoded(gpu.collect(fake(tmp_path, script)))
    assert [(device.links.active, device.links.inactive) for device in facts.devices] == [(1, 1), (1, 0)]
    assert facts.topology == Missing("nvidia-smi topo -m printed no matrix: no such thing", "failed")


def test_fabric_manager_is_looked_for_where_there_are_switches(tmp_path, monkeypatch):
    """An NVSwitch is a PCI device; its manager is a process, unless a container hides it."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    arguments = fake(tmp_path, f"cat {RECORDED}")
    switch = tmp_path / "bus/pci/devices/0000:05:00.0"
    switch.mkdir(parents=True)
    (switch / "class").write_text("0x068000\n")
    (switch / "vendor").write_text("0x10de\n")
    process = tmp_path / "4711"
    process.mkdir()
    (process / "comm").write_text("python\n")
    before = decoded(gpu.collect(arguments))
    (process / "comm").write_text("nv-fabricmanage\n")
    assert (before.switches, decoded(gpu.collect(arguments)).fabric_manager) == (1, True)
    assert before.fabric_manager is False or isinstance(before.fabric_manager, Missing)


@needs_recordings
def test_the_texts_of_real_hosts_are_read():
    """Every recorded text gives its GPUs; the one that was cut short is refused."""
    files = [
        file for file in sorted(FIELD.glob("nvidia-smi/*/*.txt")) if "NVSMI LOG" in file.read_text(errors="replace")
    ]
    assert files
    for file in files:
        text = file.read_text(errors="backslashreplace")
        if "truncated" in file.parent.name:
            with pytest.raises(ValueError, match="cut short"):
                gpu.parse(text, is_text=True)
            continue
        facts = decoded(gpu.parse(text, is_text=True))
        assert isinstance(facts.driver, str), file
        assert facts.devices, file


def test_a_text_that_ends_before_it_counts_the_gpus_is_no_node_without_gpus():
    """A head alone is a text cut short, whatever the time limit left of it."""
    with pytest.raises(ValueError, match="cut short before the number of GPUs"):
        gpu.parse("====NVSMI LOG====\n\nTimestamp  : today\nDriver Version  : 590.48\n", is_text=True)


def bus(folder, count):
    """So many GPUs in sysfs, without a driver."""
    for number in range(count):
        place = folder / f"bus/pci/devices/0000:{number:02x}:00.0"
        place.mkdir(parents=True)
        (place / "vendor").write_text("0x10de\n")
        (place / "class").write_text("0x030200\n")


def seen(folder):
    """The GPUs that the kernel sees there."""
    return pci.gpus(pci.functions(os.fspath(folder)))


def test_gpus_whose_driver_is_gone_are_told(tmp_path):
    """nvidia-smi and driver are gone: the kernel's own list of the bus says that there are GPUs."""
    bus(tmp_path, 8)
    facts = gpu.on_bus({"proc": os.fspath(tmp_path), "sysfs": os.fspath(tmp_path)}, [], seen(tmp_path))
    assert len(facts) == 8


@pytest.mark.parametrize(
    ("groups", "is_told"),
    [
        ("0::/user.slice/user-0.slice/session-1.scope\n", True),
        ("0::/\n", False),
        ("0::/system.slice/slurmstepd.scope/job_7/step_0\n", False),
        ("12:devices:/kubepods/burstable/pod1\n", False),
    ],
)
def test_a_session_that_may_be_kept_from_gpus_counts_none(tmp_path, monkeypatch, groups, is_told):
    """Where a container or a scheduler gives 2 of 8 GPUs, the other 6 have not fallen off the bus."""
    for name in gpu.CONFINING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(gpu, "CONTAINER_MARKS", ())
    bus(tmp_path, 8)
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text(groups)
    found = gpu.on_bus({"proc": os.fspath(tmp_path), "sysfs": os.fspath(tmp_path)}, [{"index": 0}], seen(tmp_path))
    assert (isinstance(found, list) and len(found) == 8) is is_told


def test_a_failure_of_nvlink_is_no_gpu_without_it():
    """What did not answer is missing; a word that an old nvidia-smi does not have is absent."""
    assert gpu.links_of({"missing": "timed out", "kind": "failed"})["kind"] == "failed"
    assert gpu.links_of("NVIDIA-SMI has failed because it couldn't communicate with the driver")["kind"] == "failed"
    assert (
        gpu.links_of("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.")["kind"] == "absent"
    )


def test_the_channels_of_imex_are_counted(tmp_path):
    """None is a fact too, where their folder is there."""
    assert gpu.imex_channels({"dev": os.fspath(tmp_path)})["kind"] == "absent"
    (tmp_path / "nvidia-caps-imex-channels").mkdir()
    (tmp_path / "nvidia-caps-imex-channels/channel0").touch()
    assert gpu.imex_channels({"dev": os.fspath(tmp_path)}) == 1


def as_610_prints(text):
    """The same node as driver 610 prints it: sentences behind versions, another place of the power limit."""
    gone = "[Deprecated; will be removed in CUDA 14.0. Use {} Version instead]"
    text = re.sub(r"(Driver Version +: ).*", rf"\g<1>610.62 {gone.format('KMD')}", text)
    text = re.sub(r"(CUDA Version +: ).*", rf"\g<1>14.0 {gone.format('CUDA UMD')}", text)
    limits = re.compile(r"^        (Current|Default) Power Limit +: .*\n", re.MULTILINE)
    ceiling = "        GPU Ceiling Power Limit\n" + "".join(f"    {line[0]}" for line in limits.finditer(text))
    place = limits.search(text).start()
    return limits.sub("", text[:place]) + ceiling + limits.sub("", text[place:])


@pytest.mark.parametrize("has_new_names", [False, True])
def test_the_text_of_driver_610_is_read_through_the_collector(tmp_path, has_new_names):
    """Versions without their sentences, and the power limit, be it that the old names are gone."""
    text = as_610_prints(PLAIN.read_text())
    if has_new_names:
        text = re.sub(r"Driver Version( +: \S+).*", r"KMD Version   \1", text)
        text = re.sub(r"CUDA Version( +: \S+).*", r"CUDA UMD Version\1", text)
    (tmp_path / "said").write_text(text)
    facts = decoded(gpu.collect(fake(tmp_path, f"cat {tmp_path}/said")))
    assert (facts.driver, facts.cuda_driver) == ("610.62", "14.0")
    status = facts.devices[0].status
    assert (status.power_limit_watts, status.power_default_watts) == (700.0, 700.0)
