"""Are locks of killed builds, caches that nodes share and caches that are closed named, from what lies on a disk?"""

from __future__ import annotations

import os
import re
import subprocess
import time

import msgspec
import pytest

from preflight.facts.subjects.files import Cache
from preflight.judge.ledger.findings import Verdict
from preflight.node.calls.storage import caches
from preflight.testing import healthy
from tests.checks import samples
from tests.checks.samples import Broken

TABLE = "/dev/sda1 / ext4 rw 0 0\nfiler:/home {home} nfs4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n"
PACKAGES = dict.fromkeys(("torch", "triton", "deepspeed", "flashinfer-python", "vllm", "transformers"), "1.0")


def looked_at(home, table="/proc/self/mounts", **variables):
    """What a node with that home reports, with these variables of the job."""
    given = {name: (value, "--env") for name, value in {"HOME": os.fspath(home), **variables}.items()}
    found = caches.caches(given, home=os.fspath(home), table=os.fspath(table))
    return msgspec.convert(found, type=tuple[Cache, ...], strict=False)


def judge(run, name, verdict):
    """The findings of a check that have this verdict."""
    return [one for one in samples.judge(name, run) if one.verdict is verdict]


def with_caches(run, held, *names):
    """These caches on the nodes named, and what uses them on all."""
    for name in run.names:
        run = run.broken(name, "software", packages=PACKAGES)
        run = run.broken(name, "identity", user_id=os.getuid())
        run = run.broken(name, "files", caches=held if name in (names or run.names) else ())
    return run


def an_extension(home, *, age_seconds, folder="py311_cu128/fused_adam", name="lock"):
    """A folder of a build, with its lock, that nothing was written into for so long."""
    place = home / ".cache" / "torch_extensions" / folder
    place.mkdir(parents=True)
    for file in ("build.ninja", name):
        (place / file).touch()
        os.utime(place / file, (time.time() - age_seconds,) * 2)
    return place / name


@pytest.fixture
def shared_home(tmp_path):
    """A home that is mounted from a file server, as the kernel lists it."""
    home, table = tmp_path / "home", tmp_path / "mounts"
    home.mkdir()
    table.write_text(TABLE.format(home=home))
    return home, table


LEFT = Cache(
    what="torch extensions",
    path="/root/.cache/torch_extensions",
    variable="TORCH_EXTENSIONS_DIR",
    exists=True,
    free_bytes=1 << 40,
    locks=(("/root/.cache/torch_extensions/py311_cu128/fused_adam/lock", 90000),),
)
SHARED = Cache(
    what="Triton",
    path="/home/u/.triton/cache",
    variable="TRITON_CACHE_DIR",
    below="/home/u",
    kind="nfs4",
    source="filer:/home",
    is_of_network=True,
    free_bytes=1 << 40,
)
BROKEN = (
    Broken("caches.no_build_waits_for_a_lock", with_caches(healthy(), (LEFT,), "node2"), ("node2",), "fused_adam/lock"),
    Broken(
        "caches.every_node_compiles_for_itself",
        with_caches(healthy(), (SHARED,)),
        ("node1", "node2", "node3"),
        "Triton: /home/u/.triton/cache is on nfs4 filer:/home",
    ),
    Broken(
        "caches.caches_take_new_files",
        with_caches(healthy(), (msgspec.structs.replace(SHARED, is_writable=False, owner=7),), "node2"),
        ("node2",),
        "/home/u belongs to user 7",
    ),
    Broken(
        "caches.extensions_are_of_this_torch",
        with_caches(
            healthy(), (msgspec.structs.replace(LEFT, stale=((f"{LEFT.path}/py311_cpu/utils", "/a/torch"),)),), "node2"
        ),
        ("node2",),
        "py311_cpu/utils was built with /a/torch",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_node_and_its_folder_are_named(broken):
    """Each check names the node and what is wrong there."""
    broken.assert_named()


@pytest.mark.parametrize(
    ("folder", "verdict"),
    [("py311_cu128/fused_adam", Verdict.FAIL), ("py39_cu118/fused_adam", Verdict.WARN), ("mine", Verdict.FAIL)],
)
def test_a_lock_of_a_killed_build_is_found_and_removed(tmp_path, folder, verdict):
    """The lock is named by its path; the command in the finding removes it, and the check passes."""
    lock = an_extension(tmp_path, age_seconds=26 * 3600, folder=folder)
    (told,) = judge(with_caches(healthy(), looked_at(tmp_path), "node2"), "caches.no_build_waits_for_a_lock", verdict)
    assert told.nodes == ("node2",)
    assert f"{lock} is left from a build that ended 26 hours ago" in told.message
    subprocess.run(re.search("`(.+?)`", told.fix)[1], shell=True, check=True)
    assert not lock.exists()
    assert judge(with_caches(healthy(), looked_at(tmp_path)), "caches.no_build_waits_for_a_lock", Verdict.PASS)


@pytest.mark.parametrize(("age", "name"), [(20, "lock"), (90000, "lock.txt"), (90000, "fused_adam.so")])
def test_a_build_that_runs_or_has_ended_is_none(tmp_path, age, name):
    """A lock that is young, and files of other names, are what builds have."""
    an_extension(tmp_path, age_seconds=age, name=name)
    assert judge(with_caches(healthy(), looked_at(tmp_path)), "caches.no_build_waits_for_a_lock", Verdict.PASS)


def test_a_lock_beside_fresh_objects_is_of_a_build_that_runs(tmp_path):
    """An old lock in a folder that is written to is held."""
    lock = an_extension(tmp_path, age_seconds=90000)
    (lock.parent / "cpu_adam.o").touch()
    assert judge(with_caches(healthy(), looked_at(tmp_path)), "caches.no_build_waits_for_a_lock", Verdict.PASS)


def test_the_folder_that_a_variable_names_is_looked_at(tmp_path):
    """TORCH_EXTENSIONS_DIR holds the extensions themselves, with no folder of a Python between."""
    (tmp_path / "ext" / "utils").mkdir(parents=True)
    (tmp_path / "ext" / "utils" / "lock").touch()
    os.utime(tmp_path / "ext" / "utils" / "lock", (1e9, 1e9))
    held = looked_at(tmp_path, TORCH_EXTENSIONS_DIR=os.fspath(tmp_path / "ext"))
    assert judge(with_caches(healthy(), held), "caches.no_build_waits_for_a_lock", Verdict.FAIL)


def test_a_home_that_nodes_share_is_named_with_what_compiles_there(shared_home):
    """Each cache in it is named with its variable; the command in the finding takes them all out of it."""
    home, table = shared_home
    run = with_caches(healthy(), looked_at(home, table))
    (told,) = judge(run, "caches.every_node_compiles_for_itself", Verdict.WARN)
    assert told.nodes == ("node1", "node2", "node3")
    for words in ("Triton: ", "torch extensions: ", "FlashInfer: ", "vLLM: ", "on nfs4 filer:/home"):
        assert words in told.message
    command = re.search("`(.+?)`", told.fix)[1]
    printed = subprocess.run(["bash", "-c", f"{command}; env -0"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"(\w+)=", command)
    variables = dict(line.split("=", 1) for line in printed.split("\0") if line.partition("=")[0] in names)
    moved = with_caches(healthy(), looked_at(home, table, **variables))
    assert judge(moved, "caches.every_node_compiles_for_itself", Verdict.PASS)


def test_models_may_lie_on_a_file_server(shared_home):
    """A cache of downloads is meant to be shared, and so is what only one node has there."""
    home, table = shared_home
    held = tuple(one for one in looked_at(home, table) if one.what == "Hugging Face")
    assert judge(with_caches(healthy(), held), "caches.every_node_compiles_for_itself", Verdict.PASS)
    alone = with_caches(healthy(), looked_at(home, table), "node2")
    assert judge(alone, "caches.every_node_compiles_for_itself", Verdict.PASS)


def test_a_disk_of_each_node_is_no_shared_one(tmp_path):
    """The same path on disks of the nodes' own is silent, also where /tmp is mounted from nowhere."""
    assert judge(with_caches(healthy(), looked_at(tmp_path)), "caches.every_node_compiles_for_itself", Verdict.PASS)


def test_a_folder_that_root_made_is_named(tmp_path, monkeypatch):
    """A cache of another user, which may not be written to, is named with its owner."""
    (tmp_path / ".triton").mkdir(mode=0o755)
    os.chown(tmp_path / ".triton", 4242, 4242)
    monkeypatch.setattr(os, "access", lambda path, _mode: os.stat(path).st_uid != 4242)
    (told,) = judge(with_caches(healthy(), looked_at(tmp_path), "node2"), "caches.caches_take_new_files", Verdict.WARN)
    assert told.nodes == ("node2",)
    assert (
        f"Triton (TRITON_CACHE_DIR, {tmp_path}/.triton/cache): {tmp_path}/.triton belongs to user 4242" in told.message
    )


def a_built_extension(home, *, torch_is, folder="py311_cu128/utils"):
    """A library with the file of its build, and the torch that this names."""
    place, torch = home / ".cache" / "torch_extensions" / folder, home / "venv" / "torch"
    place.mkdir(parents=True)
    (place / "utils.so").touch()
    (place / "build.ninja").write_text(f"cflags = -DX -isystem {torch}/include -isystem /usr/include -O3\n")
    if torch_is != "gone":
        torch.mkdir(parents=True)
        (torch / "version.py").touch()
        os.utime(torch / "version.py", (time.time() + {"newer": 3600, "older": -3600}[torch_is],) * 2)
    return place


@pytest.mark.parametrize("torch_is", ["gone", "newer"])
def test_an_extension_of_another_torch_is_named_and_removed(tmp_path, torch_is):
    """The file of the build names the torch; the command in the finding removes the folder."""
    place = a_built_extension(tmp_path, torch_is=torch_is)
    run = with_caches(healthy(), looked_at(tmp_path), "node2")
    (told,) = judge(run, "caches.extensions_are_of_this_torch", Verdict.WARN)
    assert f"{place} was built with {tmp_path}/venv/torch" in told.message
    subprocess.run(re.search("`(.+?)`", told.fix)[1], shell=True, check=True)
    assert judge(with_caches(healthy(), looked_at(tmp_path)), "caches.extensions_are_of_this_torch", Verdict.PASS)


@pytest.mark.parametrize(("torch_is", "folder"), [("older", "py311_cu128/utils"), ("newer", "py39_cu118/utils")])
def test_an_extension_of_this_torch_or_of_another_python_is_well(tmp_path, torch_is, folder):
    """What was built since, and what this Python never loads."""
    a_built_extension(tmp_path, torch_is=torch_is, folder=folder)
    assert judge(with_caches(healthy(), looked_at(tmp_path)), "caches.extensions_are_of_this_torch", Verdict.PASS)


def test_a_home_that_is_closed_is_told_once():
    """What the check of the home says is not said again of each cache in it."""
    shut = msgspec.structs.replace(SHARED, path="/root/.triton/cache", is_writable=False)
    run = with_caches(healthy(), (shut,))
    run = samples.files_have(run, "node2", "places", is_writable=False)
    (told,) = judge(run, "caches.caches_take_new_files", Verdict.WARN)
    assert told.nodes == ("node1", "node3")
