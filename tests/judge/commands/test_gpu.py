"""Does a command for a GPU name the very one, and the others' value?"""

from __future__ import annotations

import msgspec
import pytest

from preflight.testing import roce
from tests.judge.commands.typed import as_root, typed


def with_status(index, **fields):
    """One GPU of node2 in another state."""
    run = as_root(roce())
    gpu = run.facts("node2", "gpu", type(run.subjects["node2"]["gpu"])).readable()[index]
    return run.broken_gpu("node2", index, status=msgspec.structs.replace(gpu.status, **fields))


@pytest.mark.parametrize(
    ("check", "fields", "command"),
    [
        ("gpu.none_is_broken", {"is_remapping_pending": True}, "nvidia-smi -i 5 --gpu-reset"),
        ("gpu.none_is_broken", {"fabric_state": "In Progress"}, "systemctl start nvidia-fabricmanager"),
        ("gpu.none_is_held_back", {"power_limit_watts": 500.0}, "nvidia-smi -i 5 -pl 700"),
        ("gpu.settings_are_the_same_on_every_node", {"is_persistent": False}, "nvidia-smi -pm 1"),
    ],
)
def test_the_gpu_named_is_put_right(check, fields, command):
    """By its index, or by the service that it lacks."""
    assert typed(with_status(5, **fields), check) == {"node2": command}


def test_a_board_to_be_replaced_gets_no_command():
    """No reset repairs it."""
    assert typed(with_status(5, is_memory_beyond_repair=True), "gpu.none_is_broken") == {}


def test_every_bridge_that_redirects_is_named_once():
    """What is no PCI address is none for setpci."""
    run = as_root(roce())
    for index, bridges in ((0, ("0000:00:01.0",)), (1, ("0000:00:01.0", "0000:40:01.1", "x; reboot"))):
        pci = run.facts("node2", "gpu", type(run.subjects["node2"]["gpu"])).readable()[index].pci
        run = run.broken_gpu("node2", index, pci=pci._replace(redirecting_bridges=bridges))
    words = "setpci -s {} ECAP_ACS+0x6.w=0000"
    found = typed(run, "gpu.acs_leaves_peer_to_peer_alone")
    assert found == {"node2": " && ".join(map(words.format, ("0000:00:01.0", "0000:40:01.1")))}
