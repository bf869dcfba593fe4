"""Tests of preflight.job.collect.record."""

import msgspec
import pytest

from preflight.job.collect.record import Entries


def read(**entry):
    return msgspec.convert({"files": [entry]}, type=Entries, strict=True).files[0]


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "a/..", ".", "a/./b", "", "a\nb", "a\0b"])
def test_a_path_that_leads_elsewhere_is_refused(path):
    """A node chooses the names of what is written on the controller."""
    with pytest.raises(msgspec.ValidationError):
        read(path=path, text="")


def test_a_path_from_the_root_is_taken():
    """With blanks, as a program's output has its command line for a name."""
    assert read(path="opt/twin/outputs/nvidia-smi -q -x", text="<x/>").text == "<x/>"
    assert read(path="sys/devices/pci0000:10/0000:10:01.0", folder=True).folder
