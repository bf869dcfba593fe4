"""Tests of preflight.node.calls.record."""

import json
import subprocess
import sys

import pytest

from preflight.node.calls import record

RUN = """
import json, os, sys
from preflight.node.calls import record
class Channel:
    scratch = "/dev/shm/none"
    def emit(self, *events):
        for event in events:
            print(json.dumps(event))
os.environ["HF_TOKEN"] = os.environ["NCCL_SECRET_TOKEN"] = "hf_secret"
os.environ["NCCL_DEBUG"] = "INFO"
record.run({"environment": [], "sysfs": "/sys", "proc": "/proc", "key": "00"}, Channel())
"""


@pytest.fixture(scope="module")
def entries():
    """Path -> entry of a recording of this machine; a process of its own, for an audit hook stays."""
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True, timeout=60)
    return {entry["path"]: entry for line in done.stdout.splitlines() for entry in json.loads(line)["files"]}


def test_what_the_collectors_read_is_there(entries):
    """Files with their text, and the kernel's own answers."""
    assert "MemTotal" in entries["proc/meminfo"]["text"]
    assert entries["proc/sys/net/ipv4/ip_local_port_range"]["text"].split()[0].isdecimal()
    assert json.loads(entries["opt/twin/kernel.json"]["text"])["cpus"] >= 1


def test_no_path_leads_out(entries):
    """Every path is one from the root, without a way back."""
    assert not [path for path in entries if path.startswith("/") or ".." in path.split("/")]


def test_secrets_and_other_programs_stay_on_the_node(entries):
    """Of variables those that facts may tell, of other processes the few that checks ask about."""
    assert "hf_secret" not in json.dumps(list(entries.values()))
    assert json.loads(entries["opt/twin/kernel.json"]["text"])["environment"]["NCCL_DEBUG"] == "INFO"
    processes = [path for path in entries if path.startswith("proc/") and path.split("/")[1].isdecimal()]
    assert all(path.endswith("/comm") for path in processes)
    assert {entries[path]["text"].strip() for path in processes} <= {*record.PROCESSES, "init"}


def test_bytes_that_are_no_text_are_kept():
    """The configuration space of a PCI bridge crosses as base64."""
    assert record.content(b"\xff\x00") == {"base64": "/wA="}
    assert record.content(b"16\n") == {"text": "16\n"}


def test_the_links_on_the_way_are_told(tmp_path, monkeypatch):
    """A file behind a link is told with the link, at its own place."""
    monkeypatch.setattr(record, "RECORDED", (f"{tmp_path}/",))
    (tmp_path / "devices/a").mkdir(parents=True)
    (tmp_path / "devices/a/width").write_text("16\n")
    (tmp_path / "class").symlink_to("devices")
    found = {}
    record.add(found, f"{tmp_path}/class/a/width")
    root = str(tmp_path).lstrip("/")
    assert found == {
        f"{root}/class": {"path": f"{root}/class", "link": f"{tmp_path}/devices"},
        f"{root}/devices/a/width": {"path": f"{root}/devices/a/width", "text": "16\n"},
    }
