"""Tests of preflight.node.sources.scrubbed."""

import pytest

from preflight.node.sources.scrubbed import Scrubber

OWN = {
    "XML serial": "<serial>1650522003820</serial>",
    "text serial": "    Serial Number                          : 1650522003820",
    "chassis": "<chassis_serial_number>ABC123XYZ</chassis_serial_number>",
    "AMD": '"asic_serial": "0x00A1B2C3D4E5F607",',
    "UUID": "GPU 0: NVIDIA H200 (UUID: GPU-513536b6-7d19-9063-b049-1e69664bb298)",
    "boot id": "0b7a2c3d-1111-4222-8333-444455556666",
    "GUID": "b83f:d203:00ab:cdef",
    "link-local GID": "fe80:0000:0000:0000:ba3f:d2ff:fe0a:bcde",
    "MAC": "link/ether 94:6d:ae:12:34:56",
    "fabric": "<gpu_fabric_guid>0x5a3c1d2e4f506172</gpu_fabric_guid>",
}
KEPT = (
    "0000:0000:0000:0000:0000:ffff:0a00:0001",
    "0000:0000:0000:0000:0000:0000:0000:0000",
    "<clusterUuid>00000000-0000-0000-0000-000000000000</clusterUuid>",
    "<serial>N/A</serial>",
    "00000000:13:00.0",
    "pci0000:10/0000:10:01.0",
    "4: ACTIVE",
    "20.39.2048",
)


@pytest.mark.parametrize("text", OWN.values(), ids=list(OWN))
def test_what_is_a_machines_own_becomes_another_of_the_same_form(text):
    """Its length and what stands around it stay; the same gives the same, with another key another."""
    told = Scrubber(b"key").text(text)
    assert told != text
    assert len(told) == len(text)
    assert [one for one in told if not one.isalnum()] == [one for one in text if not one.isalnum()]
    assert Scrubber(b"key").text(text) == told
    assert Scrubber(b"other").text(text) != told


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_machines_own_is_kept(text):
    """Addresses of the job, empty rows, places on the bus, versions."""
    assert Scrubber(b"key").text(text) == text


def test_what_was_equal_stays_equal():
    """One GPU's id is the same in every program's output."""
    scrubber = Scrubber(b"key")
    uuid = "513536b6-7d19-9063-b049-1e69664bb298"
    shown = scrubber.text(f"<uuid>GPU-{uuid}</uuid>")
    assert scrubber.text(f"(UUID: GPU-{uuid})")[7:-1] == shown[6:-7]
