"""Tests of preflight.node.subjects.identity."""

import os
import socket

import msgspec
import pytest

from preflight.facts.subjects.identity import Identity
from preflight.facts.value import Missing
from preflight.node.subjects import identity


def test_this_machine_has_an_identity():
    """The facts of the machine at hand have the shape that the controller expects."""
    facts = msgspec.convert(identity.collect({"proc": "/proc"}), type=Identity, strict=True)
    assert facts.hostname == socket.gethostname()
    assert facts.kernel == os.uname().release
    assert facts.cpu_count >= 1
    assert facts.memory_bytes > 1 << 20


def test_two_network_namespaces_of_one_boot_are_two_hosts(tmp_path):
    """The id has the boot and the network namespace: hosts of one machine differ, names of one host do not."""
    ids = []
    for name in ("one", "two"):
        (tmp_path / name / "sys/kernel/random").mkdir(parents=True)
        (tmp_path / name / "sys/kernel/random/boot_id").write_text("11111111-2222\n")
        (tmp_path / name / "self/ns").mkdir(parents=True)
        (tmp_path / name / "self/ns/net").touch()
        ids.append(identity.boot_id(os.fspath(tmp_path / name)))
    assert ids[0].startswith("11111111-2222:")
    assert ids[0] != ids[1]
    assert identity.boot_id(os.fspath(tmp_path / "one")) == ids[0]


def test_a_hostname_that_does_not_resolve_is_a_missing_address():
    """Gloo's own question failing is told with the name and the resolver's reason, and no address is made up."""
    facts = identity.names("no such host.invalid")
    assert facts["hostname_addresses"] == []
    assert facts["fqdn"] == "no such host.invalid"
    missing = msgspec.convert(facts["hostname_address"], type=Missing, strict=True)
    assert missing.missing.startswith("no such host.invalid: ")
    assert missing.kind == "failed"


def test_the_hostname_is_asked_as_gloo_asks_it():
    """All addresses are getaddrinfo's, and the first is the first of them that can be bound here, of either family."""
    facts = identity.names("127.0.0.1")
    assert facts["hostname_address"] == "127.0.0.1"
    assert facts["hostname_addresses"] == ["127.0.0.1"]
    assert identity.names("::1")["hostname_address"] == "::1"
    assert identity.names("192.0.2.9")["hostname_address"] == "192.0.2.9"  # none can be bound: a check says so


def test_localhost_is_asked_of_the_resolver():
    """A name that nobody knows is no lost answer; one that came too late is."""
    assert identity.names("node1")["localhost_addresses"]
    assert identity.localhost(["127.0.0.1"]) == ["127.0.0.1"]
    assert identity.localhost(socket.gaierror(socket.EAI_NONAME, "Name or service not known")) == []
    assert "timed out" in identity.localhost(TimeoutError("timed out"))["missing"]


@pytest.mark.parametrize(("name", "context"), [("SSH_CONNECTION", "ssh"), ("SSH_OTHER", None)])
def test_a_login_over_ssh_is_told(monkeypatch, name, context):
    """Limits read in an ssh session are marked as such."""
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setenv(name, "192.0.2.1 5000 192.0.2.2 22")
    assert identity.context() == context or (context is None and identity.context() in ("container", "local"))


def test_a_task_of_slurm_is_told_wherever_it_was_started_from(monkeypatch):
    """srun hands on the variables of a login: the limits are slurmd's all the same."""
    for name, value in {
        "SSH_CONNECTION": "192.0.2.1 5000 192.0.2.2 22",
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": "0",
    }.items():
        monkeypatch.setenv(name, value)
    assert identity.context() == "slurm"


def test_a_container_of_kubernetes_is_told(monkeypatch):
    """containerd leaves no mark in its root; the variable of the API server's address is in every container."""
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    assert identity.context() == "container"


def test_the_full_name_is_asked_for_its_own_addresses():
    """torchrun tells it to every rank; where it is the hostname, the answer is that of the hostname."""
    facts = identity.names("localhost")
    assert facts["fqdn_addresses"]
    assert facts["fqdn"] != "localhost" or facts["fqdn_addresses"] == facts["hostname_addresses"]
    assert identity.names("no such host.invalid")["fqdn_addresses"] == []
