"""Tests of preflight.node.calls.vendor: tests of vendors that print, hang or are not there, as programs on the PATH."""

import json
import os
import time

import pytest

from preflight.node.calls.gpus import vendor
from tests.node.sources.gpus import test_vendor as forms


class Channel:
    """What a call sees of its channel."""

    def __init__(self, scratch):
        self.scratch = str(scratch)


def run(folder, *tests, **scripts):
    """The facts of the subject, with these programs installed."""
    bin_folder, scratch = folder / "bin", folder / "scratch"
    for each in (bin_folder, scratch):
        each.mkdir()
    for name, script in scripts.items():
        (bin_folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (bin_folder / name).chmod(0o755)
    arguments = {"tests": [list(test) for test in tests], "environment": [["--env", {"PATH": str(bin_folder)}]]}
    facts = vendor.run(arguments, Channel(scratch))
    assert os.listdir(scratch) == []
    return facts


def test_each_is_asked_in_its_own_words(tmp_path):
    """An exit code other than 0 comes with a whole answer, as where DCGM fails a GPU."""
    script = f"echo \"$*\" >&2\ncat <<'E'\n{forms.dcgm3('Fail')}\nE\nexit 226"
    facts = run(tmp_path, ("dcgmi", "3", 9), dcgmi=script)
    assert ["Memory", "1", "fail", ""] in facts["dcgmi"]


def test_what_is_not_installed_is_absent(tmp_path):
    """A node without the program may be one of many."""
    assert run(tmp_path, ("rvs", "", 9))["rvs"]["kind"] == "absent"


def test_an_old_nvbandwidth_is_asked_for_its_text(tmp_path):
    """Before 0.4 it knows no JSON."""
    script = f"[ $1 != -j ] || {{ echo \"unrecognised option '-j'\"; exit 1; }}\ncat <<'E'\n{forms.TEXT}E"
    cells, _ = run(tmp_path, ("nvbandwidth", "", 9), nvbandwidth=script)["nvbandwidth"]
    assert len(cells) == 6


LOSSES = {
    "removed": lambda path: path.unlink(),
    "denied": lambda path: path.chmod(0o644),
    "empty": lambda path: path.write_text("#!/bin/sh\n"),
    "refused": lambda path: path.write_text("#!/bin/sh\necho 'Permission denied' >&2\nexit 13\n"),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", sorted(vendor.TESTS))
def test_a_test_that_told_nothing_is_missing(name, loss, tmp_path):
    """Gone, not executable, silent, or refused: never a list of findings, which would look like a pass."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / name).write_text("#!/bin/sh\necho '{}'\n")
    (tmp_path / "bin" / name).chmod(0o755)
    LOSSES[loss](tmp_path / "bin" / name)
    arguments = {"tests": [[name, "2", 9]], "environment": [["--env", {"PATH": str(tmp_path / "bin")}]]}
    assert "missing" in vendor.run(arguments, Channel(tmp_path))[name]


@pytest.mark.parametrize("at", range(20, forms.TEXT.index("SUM device_to_device"), 20))
def test_an_output_that_was_cut_short_is_missing(at, tmp_path, monkeypatch):
    """Wherever it ends, also between two tests."""
    monkeypatch.setattr(vendor, "output", lambda *_, **__: forms.TEXT[:at])
    with pytest.raises(ValueError, match="nvbandwidth"):
        vendor.nvbandwidth("nvbandwidth", "", 9.0, str(tmp_path))


@pytest.mark.parametrize("at", range(1, len(forms.dcgm4("Fail")) - 1, 40))
def test_a_document_of_dcgm_that_was_cut_short_is_missing(at, monkeypatch):
    """JSON ends with its last bracket."""
    monkeypatch.setattr(vendor, "output", lambda *_, **__: forms.dcgm4("Fail")[:at])
    with pytest.raises(ValueError, match=r"JSON|dcgmi"):
        vendor.dcgm("dcgmi", "2", 9.0, "/")


def test_a_test_that_hangs_is_told_to_end_and_says_so(tmp_path):
    """Ctrl-C lets DCGM stop what its daemon runs."""
    script = f"trap 'echo told > {tmp_path}/told; exit 1' INT\nsleep 60 & wait"
    began = time.monotonic()
    facts = run(tmp_path, ("dcgmi", "2", 0.5), dcgmi=script)
    assert "did not finish within 0.5 s" in facts["dcgmi"]["missing"]
    assert (tmp_path / "told").exists()
    assert time.monotonic() - began < vendor.PATIENCE_S


@pytest.mark.parametrize(("device", "wanted"), [("0x74a1", "MI300X/gst_single.conf"), ("0x1234", "gst_single.conf")])
def test_rvs_gets_the_file_of_the_nodes_model(device, wanted, tmp_path):
    """Else its general one; without any it is not run."""
    place = tmp_path / "sys/bus/pci/devices/0000:07:00.0"
    place.mkdir(parents=True)
    for name, text in {"vendor": "0x1002", "class": "0x120000", "device": device}.items():
        (place / name).write_text(f"{text}\n")
    with pytest.raises(FileNotFoundError):
        vendor.configuration((str(tmp_path),), str(tmp_path / "sys"))
    (tmp_path / "MI300X").mkdir()
    for name in ("MI300X/gst_single.conf", "gst_single.conf"):
        (tmp_path / name).write_text("")
    assert vendor.configuration((str(tmp_path),), str(tmp_path / "sys")) == f"{tmp_path}/{wanted}"


def test_facts_are_json(tmp_path):
    """What is found crosses the wire."""
    facts = run(tmp_path, ("nvbandwidth", "", 9), nvbandwidth=f"cat <<'E'\n{forms.nvbandwidth([55.0])}\nE")
    assert json.loads(json.dumps(facts)) == {"nvbandwidth": [[["host_to_device_memcpy_ce", 0, 0, 55.0]], ""]}


def test_the_logs_of_agfhc_go_with_the_run(tmp_path):
    """It writes them under HOME, which is the user's."""
    script = (
        f"mkdir $HOME/agfhc || exit 1\ncat <<'E'\n{forms.AGFHC}E\ncase \"$*\" in '-r all_lvl2') ;; *) echo no ;; esac"
    )
    facts = run(tmp_path, ("agfhc", "2", 9), agfhc=script)
    assert ["hbm_bw-1-1", "", "pass", ""] in facts["agfhc"]
