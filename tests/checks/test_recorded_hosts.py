"""What do the checks say of recorded hosts: nothing of the healthy ones, and of a broken one what is broken?

The first half changes one word of a recording of our own form; the second reads recordings of real hosts where they
are beside this checkout.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path

import msgspec
import pytest

from preflight.facts.subjects.ending import PortEnd
from preflight.facts.subjects.gpu import Gpus
from preflight.facts.subjects.rdma import Rdma
from preflight.judge.ledger.findings import Verdict
from preflight.node.sources import gpu_links, rdma_text
from preflight.node.subjects import gpu, rdma
from preflight.testing import healthy
from tests.checks.samples import checks, judge
from tests.recordings import FIELD, needs_recordings

OWN = Path(__file__).parents[1] / "data"
BAD = {Verdict.FAIL, Verdict.WARN}


def judged(**subjects):
    """The findings of every check on two nodes that both have these facts, by verdict and words."""
    run = healthy(2)
    held = subjects["rdma"].devices if "rdma" in subjects else ()
    ports = {
        f"{device.name}:{port.number}": PortEnd(port.state, port.counters) for device in held for port in device.ports
    }
    for subject, facts in subjects.items():
        run = run.with_subject(run.names, subject, facts)
    run = run.broken(run.names, "ending", ports=ports)
    findings = [finding for name in checks() for finding in judge(name, run)]
    return {f"{finding.check}: {finding.message}": finding.verdict for finding in findings}


def bad(**subjects):
    """What fails or warns."""
    return [words for words, verdict in judged(**subjects).items() if verdict in BAD]


def gpus_of(text):
    """The facts that a text of nvidia-smi gives."""
    return msgspec.convert(gpu.parse(text, is_text="<nvidia_smi_log" not in text), type=Gpus, strict=True)


# A title of the text, the value it gets, and the words of the finding that follows.
CHANGES = (
    ("DRAM Uncorrectable", "4", "4 memory errors"),
    ("Remapping Failure Occurred", "Yes", "could not be remapped"),
    ("Uncorrectable Error +: 0\n +Pending", "Yes", "remapping of a broken row"),
    ("Pending Page Blacklist", "Yes", "retirement of a broken page"),
    ("Unrepairable Memory", "Yes", "cannot be repaired"),
    ("SRAM Threshold Exceeded", "Yes", "more SRAM errors"),
    ("TPC Repair Pending", "Yes", "a repair of its memory"),
    ("GPU Recovery Action", "Reset", "the driver asks for: Reset"),
    ("Double Bit ECC", "60", "60 pages retired"),
    ("Uncorrectable Error", "512", "512 rows remapped"),
    ("State", "In Progress", "NVLink fabric: In Progress"),
    ("Status", "0x2", "with an error: 0x2"),
    ("HW Thermal Slowdown", "Active", "thermal slowdown"),
    ("HW Slowdown", "Active", "hardware slowdown"),
    ("HW Power Brake Slowdown", "Active", "power brake"),
    ("Compute Mode", "Exclusive_Process", "Exclusive_Process"),
    ("Compute Mode", "Prohibited", "Prohibited"),
    ("ECC Mode\n +Current +: Enabled\n +Pending", "Disabled", "ECC will be off"),
    ("MIG Mode\n +Current +: Disabled\n +Pending", "Enabled", "MIG will be Enabled"),
    ("Max +: 5\n +Current", "3", "PCIe generation 3"),
)


def test_the_recorded_gpu_is_well():
    """As it was recorded, nothing is said of it."""
    assert bad(gpu=gpus_of((OWN / "nvidia-smi/h200.txt").read_text())) == []


@pytest.mark.parametrize(("title", "value", "words"), CHANGES, ids=lambda text: text.split(" +")[0])
def test_one_word_of_the_recording_breaks_its_row(title, value, words):
    """From the tool's own text to the finding: exactly this row is broken."""
    text, count = re.subn(
        f"^( *{title} +: ).*$", rf"\g<1>{value}", (OWN / "nvidia-smi/h200.txt").read_text(), count=1, flags=re.MULTILINE
    )
    assert count == 1
    (finding,) = bad(gpu=gpus_of(text))
    assert words in finding


def test_a_port_that_polls_is_told_from_ibstat():
    """From the text of ibstat to the finding."""
    facts = msgspec.convert(
        {"devices": rdma_text.ibstat((OWN / "rdma/ibstat.txt").read_text())}, type=Rdma, strict=True
    )
    run = healthy(2)
    run = run.with_variables(NCCL_IB_HCA="mlx5_0,mlx5_1:1")
    for node in run.subjects.values():
        node["rdma"] = facts
    assert {f.message for f in judge("rdma.ports_are_active", run)} == {"mlx5_1:1 is DOWN (Polling); wanted ACTIVE"}


# What the recordings of real hosts show that is not well; everything else is.
BUSY = "gpu.no_other_program_uses_them"
SHOWN = {
    "azurehpc-bad_nvsmi8_output": ("gpu.none_is_broken", "gpu.none_is_held_back"),  # 61, and 45 and 56 pages retired
    "gpud-a10-535.129": ("gpu.none_is_broken",),  # a row to be remapped, and four that were
    "nge-linux-x86_64_nvidia-h100-mig_590.48.01": ("gpu.none_is_partitioned",),
    "gpud-8x4090-535.154-a": (BUSY,),
    "gpud-8x4090-535.154-c": (BUSY,),
    "pai-nvidia_smi_out_of_order": (BUSY,),
    "telegraf-dual_2080-v13": ("gpu.none_is_held_back",),  # x8 in slots for x16: the board shares its lanes out
    "telegraf-quadro-p2000-v12": ("gpu.none_is_held_back",),
    "telegraf-dual_a5000-v13": (BUSY,),
    "telegraf-pro-6000-maxq-blackwell-v13": (BUSY,),
}


@needs_recordings
def test_real_gpus_raise_no_false_alarm():
    """Only what a recording really shows is said: broken memory, and programs that compute."""
    seen = 0
    for file in sorted(FIELD.glob("nvidia-smi/*/*")):
        text = file.read_text(errors="backslashreplace")
        if "NVSMI LOG" not in text and "<nvidia_smi_log" not in text:
            continue
        try:
            facts = gpus_of(text)
        except ValueError:
            assert "truncated" in file.parent.name
            continue
        seen += 1
        shown = {words.split(":")[0] for words in bad(gpu=facts)}
        assert shown == set(SHOWN.get(file.parent.name, ())), file
    assert seen > 15


PARSERS = (
    *(gpu.parse_xml, gpu.parse_text, gpu_links.topology, gpu_links.nvlinks),
    *(rdma_text.ibstat, rdma_text.show_gids),
)
# Recordings of other programs, and of one that was cut short: no parser may make facts of them.
REFUSED = {
    "gpud-8xh100-truncated-535.183",
    *("azurehpc-ncv4-topo", "azurehpc-ndv2-topo", "superbench-ndv5-topo", "gpud-table-525.125", "mle-topo-p2p"),
    *("mle-ifconfig", "superbench-ibnetdiscover", "topograph-ibnetdiscover"),
}


def read(text):
    """What each parser that takes a text makes of it; any exception but ValueError is a bug."""
    found = {}
    for parse in PARSERS:
        with contextlib.suppress(ValueError):
            found[parse.__name__] = parse(text)
    return found


@needs_recordings
def test_every_real_text_is_read_or_refused():
    """Each text of a real host gives facts, or is refused with a reason; nothing breaks a parser."""
    files = [file for file in FIELD.rglob("*") if file.is_file() and file.parts[-3] in ("nvidia-smi", "ibtools")]
    refused = {file.parent.name for file in files if not read(file.read_text(errors="backslashreplace"))}
    assert refused == REFUSED


@needs_recordings
def test_every_real_text_that_is_cut_short_says_so():
    """Wherever it is cut, a text gives all its GPUs, or none and a reason: never fewer that look whole."""
    texts = [file.read_text(errors="backslashreplace") for file in sorted(FIELD.glob("nvidia-smi/*/*"))]
    for text in [text for text in texts if {"parse_xml", "parse_text"} & read(text).keys()]:
        lines = text.splitlines(keepends=True)
        (whole,) = [facts for name, facts in read(text).items() if name.startswith("parse")]
        for end in range(0, len(lines), max(len(lines) // 12, 1)):
            for name, facts in read("".join(lines[:end])).items():
                told = facts.get("devices") if name.startswith("parse") else []
                assert not isinstance(told, list) or len(told) in (0, len(whole["devices"])), (end, told)
                assert told != [] or not name.startswith("parse")


@needs_recordings
def test_real_ports_raise_no_false_alarm(tmp_path):
    """Trees and texts of healthy hosts are passed over in silence; ports that are down are told where they are used."""
    for source in sorted((FIELD / "infiniband").iterdir()):
        tree = tmp_path / source.name
        shutil.copytree(source / "sys", tree)
        for entry in (tree / "class/infiniband").iterdir():
            if entry.is_file():
                target = entry.read_text()
                entry.unlink()
                entry.symlink_to(target)
        facts = msgspec.convert(
            rdma.collect({"sysfs": str(tree), "proc": str(tree), "environment": []}), type=Rdma, strict=True
        )
        assert bad(rdma=facts) == [], source.name
    for file in (FIELD / "ibtools").glob("*/ibstat.txt"):
        facts = msgspec.convert({"devices": rdma_text.ibstat(file.read_text())}, type=Rdma, strict=True)
        assert bad(rdma=facts) == [], file
        down = sum(port.state == "DOWN" for device in facts.devices for port in device.ports)
        assert (
            down == {"gpud-h100-roce-ok": 0, "gpud-h100-roce-2down": 2, "gpud-h100-roce-polling": 2}[file.parent.name]
        )
