"""Tests of preflight.node.subjects.machine."""

import os

import msgspec

from preflight.facts.subjects.machine import Machine
from preflight.node.subjects import machine


def collected(**arguments):
    facts = machine.collect({"environment": [], "sysfs": "/sys", "proc": "/proc", **arguments})
    return msgspec.convert(facts, type=Machine, strict=True)


def test_this_machine_decodes():
    """The facts of the machine at hand have the shape that the controller expects."""
    assert isinstance(collected().time_services, tuple)


def test_the_processor_is_named(tmp_path):
    """By the line that its kind of processor has."""
    (tmp_path / "cpuinfo").write_text("processor : 0\nmodel name\t: EPYC 9654\nflags: x\n")
    assert machine.processor(os.fspath(tmp_path))["cpu_model"] == "EPYC 9654"
    (tmp_path / "cpuinfo").write_text("processor : 0\nCPU implementer: 0x41\n")
    assert machine.processor(os.fspath(tmp_path))["cpu_model"]["kind"] == "absent"


def test_vector_instructions_are_those_of_the_first_processor(tmp_path):
    """Those that code is compiled for, by the line that x86 and ARM have; a kernel that lists none tells nothing."""
    (tmp_path / "cpuinfo").write_text(
        "processor : 0\nflags\t\t: fpu sse2 avx f16c avx2\n\nprocessor : 1\nflags : fpu\n"
    )
    assert machine.processor(os.fspath(tmp_path))["instructions"] == ["avx", "f16c", "avx2"]
    (tmp_path / "cpuinfo").write_text("processor : 0\nFeatures\t: fp asimd sve\n")
    assert machine.processor(os.fspath(tmp_path))["instructions"] == ["asimd", "sve"]
    (tmp_path / "cpuinfo").write_text("processor : 0\ncpu : POWER9\n")
    assert machine.processor(os.fspath(tmp_path))["instructions"]["kind"] == "absent"


def test_keepers_of_the_clock_are_found_among_the_processes(tmp_path):
    """By the name that the kernel shows, cut to 15 characters."""
    for pid, name in ((1, "systemd"), (7, "systemd-timesyn"), (8, "chronyd")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
    (tmp_path / "9").mkdir()  # ended meanwhile
    assert machine.sees_others(os.fspath(tmp_path))
    assert machine.time_services(machine.running(os.fspath(tmp_path))) == ["chronyd", "systemd-timesyn"]
    assert not machine.sees_others(f"{tmp_path}/7")


def test_the_first_compiler_on_the_path_counts(tmp_path):
    """As a shell would find it; what cannot be run is none."""
    for folder, name, mode in (("a", "g++", 0o644), ("b", "g++", 0o755), ("c", "g++", 0o755), ("c", "nvcc", 0o755)):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).touch(mode=mode)
    path = f"{tmp_path}/a::{tmp_path}/b:{tmp_path}/c"
    found = {} if os.getuid() == 0 and os.access(f"{tmp_path}/a/g++", os.X_OK) else machine.compilers(path)
    assert found == {"g++": f"{tmp_path}/b/g++", "nvcc": f"{tmp_path}/c/nvcc"}


def test_the_version_of_the_rdma_libraries_stands_in_their_name(tmp_path):
    """libibverbs.so.1 is a link to it."""
    assert machine.rdma_core((os.fspath(tmp_path),))["kind"] == "absent"
    (tmp_path / "libibverbs.so.1.14.48.0").touch()
    (tmp_path / "libibverbs.so.1").symlink_to("libibverbs.so.1.14.48.0")
    assert machine.rdma_core((os.fspath(tmp_path),)) == "1.14.48.0"


def test_the_manager_of_the_network_is_found(tmp_path):
    """netplan by its files, for it runs as none; the others by their process; ifupdown by its file."""
    etc = os.fspath(tmp_path)
    assert machine.network_manager(set(), etc)["kind"] == "absent"
    (tmp_path / "network").mkdir()
    (tmp_path / "network" / "interfaces").touch()
    assert machine.network_manager({"sshd"}, etc) == "ifupdown"
    assert machine.network_manager({"systemd-network"}, etc) == "systemd-networkd"
    assert machine.network_manager({"NetworkManager"}, etc) == "NetworkManager"
    (tmp_path / "netplan").mkdir()
    (tmp_path / "netplan" / "01-netcfg.yaml").touch()
    assert machine.network_manager({"NetworkManager"}, etc) == "netplan"
