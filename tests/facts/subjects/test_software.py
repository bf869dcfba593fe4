"""Is what is installed told apart from what is absent and from what could not be read?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.subjects.software import Software
from preflight.facts.value import Missing
from preflight.said.errors import BlockedBy, FactMissing
from tests.facts.answers import decoded, wire

ABSENT = Missing("not there", "absent")
BROKEN = Missing("the tool broke")
CPU_BUILD = Software(
    python="3.11.2",
    implementation="cpython",
    executable="/usr/bin/python3",
    libc="glibc 2.36",
    packages={"torch": "2.13.0", "accelerate": "1.12.0"},
    torch="2.13.0",
    torch_cuda=ABSENT,
    torch_hip=ABSENT,
    cudnn=ABSENT,
    nccl=ABSENT,
)


def software(**fields) -> Software:
    return msgspec.structs.replace(CPU_BUILD, **fields)


def test_torch_is_there_absent_or_unknown():
    """Three answers, none of which stands for another."""
    assert software().torch_version == "2.13.0"
    assert not software(torch=ABSENT).has_torch()
    with pytest.raises(BlockedBy, match=r"software\.torch_is_installed"):
        _ = software(torch=ABSENT).torch_version
    with pytest.raises(FactMissing, match="the tool broke"):
        software(torch=BROKEN).has_torch()


def test_a_library_that_torch_does_without_is_none():
    """A CPU build has no CUDA; without torch nobody can tell."""
    assert software(torch_cuda="13.0").library_of_torch("torch_cuda") == "13.0"
    assert software(torch_cuda=ABSENT).library_of_torch("torch_cuda") == "none"
    with pytest.raises(FactMissing):
        software(nccl=BROKEN).library_of_torch("nccl")
    with pytest.raises(BlockedBy):
        software(torch=ABSENT).library_of_torch("nccl")


def test_versions_are_told_as_far_as_they_matter():
    """The minor of Python; a distribution that is not installed is absent."""
    assert software(python="3.11.2").python_minor == "3.11"
    assert software().version("accelerate") == "1.12.0"
    with pytest.raises(FactMissing) as caught:
        software().version("deepspeed")
    assert caught.value.kind == "absent"


@pytest.mark.parametrize(("python", "minor"), [("3.9.18", "3.9"), ("3.14.0rc2", "3.14"), ("3", "3")])
def test_the_minor_of_python_is_its_first_two_numbers(python, minor):
    """3.9 and 3.14 are not compared digit by digit."""
    assert software(python=python).python_minor == minor


def test_software_is_read_as_the_node_sent_it():
    """What an older node does not send is empty."""
    full = software(nccl_copies={"/x/libnccl.so.2": ""}, requirements={"torchvision": {"torch": "==2.13.0"}})
    assert decoded("software", wire(full)) == full
    old = {name: value for name, value in wire(CPU_BUILD).items() if name not in ("nccl_copies", "requirements")}
    assert decoded("software", old) == CPU_BUILD


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("python", 3.11),
        ("torch", None),
        ("torch", False),
        ("packages", {"torch": None}),
        ("nccl_copies", ["/x/libnccl.so.2"]),
        ("requirements", {"torchvision": ["torch==2.13.0"]}),
        ("nccl_preloaded", {"missing": "no"}),
    ],
)
def test_a_field_of_another_form_is_malformed(field, value):
    """Whether torch is there is said in words, never by null."""
    with pytest.raises(FactMissing, match=f"malformed: .*{field}"):
        decoded("software", wire(CPU_BUILD, **{field: value}))
