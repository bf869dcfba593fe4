"""Does a rank say where it is, what its program lacks, and what was left in its caches?"""

from __future__ import annotations

import os

import pytest

from preflight.job.ranks.rehearsal.place import arrived, cache, lacks, meeting_place


def test_variables_arrive_without_secrets(monkeypatch):
    """Those that steer a job, and no others."""
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    monkeypatch.setenv("UNRELATED", "x")
    variables = arrived(["python", "train.py"], ["RANK"])["variables"]
    assert variables["NCCL_DEBUG"] == "INFO"
    assert not {"HF_TOKEN", "UNRELATED"} & set(variables)


def test_an_old_lock_of_a_build_is_found(tmp_path, monkeypatch):
    """A new one belongs to a build that runs; those of filelock stay where they are."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").touch()
    (tmp_path / "old" / "model.lock").touch()
    for path in (tmp_path / "old").iterdir():
        os.utime(path, (0, 0))
    assert cache("TORCH_EXTENSIONS_DIR", "~/x")["locks"] == [str(tmp_path / "old" / "lock")]


def test_what_the_program_lacks_is_told(tmp_path, monkeypatch):
    """A file, a module, or a package that its first lines import."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    assert lacks("file", "train.py") == f"can't open file train.py in {tmp_path}: No such file or directory"
    assert lacks("module", "no_such_module") == "No module named no_such_module"
    (tmp_path / "train.py").write_text("import json, beside\nfrom nowhere.at import all\n")
    (tmp_path / "beside.py").write_text("")
    assert lacks("file", "train.py") == "No module named nowhere, which train.py imports"
    (tmp_path / "train.py").write_text("import json\nif x:\n    import nowhere\n")
    assert lacks("file", "train.py") == ""
    (tmp_path / "train.py").write_text("match x\n")
    assert "cannot be read by this Python" in lacks("file", "train.py")


def test_the_place_to_meet_is_looked_at_by_the_kernel(monkeypatch):
    """A name without an address, an address of this machine."""
    monkeypatch.setenv("MASTER_PORT", "29500")
    monkeypatch.setenv("MASTER_ADDR", "no-such-host.invalid")
    assert "no-such-host.invalid has no address here" in meeting_place()["error"]
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert (meeting_place()["own"], meeting_place()["error"]) == (True, "")


@pytest.mark.parametrize("port", ["0", "65536", "70000", "-1", "29500x", ""])
def test_the_port_to_meet_at_is_one(port, monkeypatch):
    """The kernel takes 70000 for 4464 where it looks for a way."""
    monkeypatch.setenv("MASTER_PORT", port)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    assert meeting_place()["error"] == f"MASTER_PORT {port} is not a port; wanted 1-65535"
    monkeypatch.setenv("MASTER_PORT", "65535")
    assert meeting_place()["error"] == ""


def test_a_lock_beside_a_finished_kernel_is_of_no_build(tmp_path, monkeypatch):
    """Older Tritons leave it there after each."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    for name in ("killed", "done"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").touch()
        os.utime(tmp_path / name / "lock", (0, 0))
    (tmp_path / "done" / "__grp__kernel.json").write_text("{}")
    assert cache("TRITON_CACHE_DIR", "~/x")["locks"] == [str(tmp_path / "killed" / "lock")]


def test_another_network_than_that_of_the_node_is_told():
    """Where the node's is known."""
    own = os.readlink("/proc/self/ns/net")
    assert [arrived([], [], network)["own_network"] for network in ("", own, "net:[1]")] == [False, False, True]
