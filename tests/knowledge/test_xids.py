"""Which lines of the driver ask for a reset, which only tell of wear, and which are a program's own?"""

import pytest

from preflight.facts.subjects.kernel import LogEvent
from preflight.knowledge import xids


def event(code, text="", kind="xid"):
    """A line of the kernel's log."""
    return LogEvent(kind, code, "0000:07:00", 60.0, text or f"NVRM: Xid (PCI:0000:07:00): {code}, pid=7, name=python")


@pytest.mark.parametrize(
    ("one", "fatal", "wear"),
    [
        (event(79), True, False),
        (event(31), False, False),
        (event(63), False, True),
        (event(94), False, True),
        (event(92), False, True),
        (event(45), False, False),
        *((event(code), True, False) for code in (155, 156, 158, 167, 168, 169, 171)),
        (event(110), True, False),
        (event(172), True, False),
        (event(173), True, False),
        (event(166), False, True),
        (event(170), False, True),
        (
            event(154, "Xid (PCI:0000:07:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (Reset)"),
            True,
            False,
        ),
        (
            event(154, "Xid (PCI:0000:07:00): 154, GPU recovery action changed from 0x1 (Reset) to 0x0 (None)"),
            False,
            False,
        ),
        (event(149, "Xid (PCI:0000:07:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08"), True, False),
        (event(149, "Xid (PCI:0000:07:00): 149, NETIR_LINK_EVT Nonfatal XC0 i0 Link 08"), False, True),
        (event(20034, "SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "sxid"), True, False),
        (event(12028, "SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress", "sxid"), False, True),
    ],
)
def test_a_line_is_fatal_or_wear_or_neither(one, fatal, wear):
    """By the action that NVIDIA's catalogue asks for, and the words of lines that say it themselves."""
    assert (xids.is_fatal(one), xids.is_wear(one)) == (fatal, wear)


def test_a_message_names_the_fault_and_the_device():
    """The number, what it means, and where."""
    assert xids.text(event(79)) == "Xid 79 (GPU has fallen off the bus) of 0000:07:00"
    line = event(20034, "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "sxid")
    asked = event(
        154, "Xid (PCI:0000:07:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    )
    assert xids.text(asked) == "Xid 154 (the driver asks for: Node Reboot Required) of 0000:07:00"
    assert xids.text(line) == "NVSwitch error (SXid) 20034, Fatal, Link 30 LTSSM Fault Up of 0000:07:00"
