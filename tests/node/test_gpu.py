"""Tests of preflight.node.gpu."""

import os
import stat
from pathlib import Path

import msgspec
import pytest

from preflight.facts.values import Gpus, Missing
from preflight.node import gpu

RECORDED = Path(__file__).parents[1] / "data/nvidia-smi/two-gpus.xml"
FIELD_DATA = Path(__file__).resolve().parents[3] / "shared/field-data/nvidia-smi"


def decoded(facts):
    return msgspec.convert(facts, type=Gpus, strict=True)


def fake(folder, script):
    """A program called nvidia-smi, and the arguments that put it on the job's PATH."""
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"environment": [["--env", {"PATH": f"{folder}:/usr/bin:/bin"}]], "proc": os.fspath(folder)}


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


def test_a_node_without_nvidia_smi_has_no_gpu(tmp_path, monkeypatch):
    """Neither program nor driver: no GPU, and that is known."""
    monkeypatch.setattr(gpu, "FOLDERS", ())
    arguments = {"environment": [["--env", {"PATH": ""}]], "proc": os.fspath(tmp_path)}
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


def test_a_program_that_hangs_is_stopped(tmp_path):
    """Past its time the program is killed and the reason says so, also when it closed its output before."""
    fake(tmp_path, "echo $$ > ${0%/*}/pid; exec sleep 60")
    with pytest.raises(TimeoutError, match=r"did not finish within 0\.3 s"):
        gpu.run(os.fspath(tmp_path / "nvidia-smi"), limit_s=0.3)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.skipif(not FIELD_DATA.is_dir(), reason="the recordings of real hosts are not beside this checkout")
def test_the_documents_of_real_hosts_are_read():
    """Every recorded document gives its driver and GPUs; the one cut down by hand is refused for its count."""
    files = sorted(FIELD_DATA.glob("*/nvidia-smi-q-x.xml"))
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
