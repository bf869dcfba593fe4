"""Are CPUs, memory and boot options set as the others have them, now and at every boot?"""

from __future__ import annotations

import subprocess

from preflight.testing import roce
from tests.judge.commands.typed import as_root, typed

SAME = "kernel.settings_are_the_same_on_every_node"


def test_huge_pages_become_those_of_the_others(tmp_path):
    """In the kernel's own files, and where systemd writes them at a boot."""
    run = as_root(roce()).broken("node2", "kernel", transparent_hugepages="never")
    (command,) = typed(run, SAME).values()
    (tmp_path / "enabled").touch()
    subprocess.run(["sh", "-c", command.replace("/sys/kernel/mm/transparent_hugepage", str(tmp_path))], check=True)
    assert (tmp_path / "enabled").read_text() == "madvise\n"
    assert "/etc/tmpfiles.d/90-preflight-thp.conf" in typed(run, SAME, lasting=True)["node2"]


def test_swap_goes_from_fstab_too(tmp_path):
    """Its line becomes a comment, others stay."""
    run = as_root(roce()).broken("node2", "kernel", swap_total_bytes=8 << 30)
    assert typed(run, SAME) == {"node2": "swapoff -a"}
    file = tmp_path / "fstab"
    file.write_text("/dev/sda1 / ext4 defaults 0 1\n/dev/sda2 none swap sw 0 0\n# /x none swap sw 0 0\n")
    lasting = typed(run, SAME, lasting=True)["node2"].replace("/etc/fstab", str(file))
    subprocess.run(["sh", "-c", lasting], check=True)
    assert file.read_text().splitlines()[1:] == ["# /dev/sda2 none swap sw 0 0", "# /x none swap sw 0 0"]


def test_boot_options_of_the_others_are_added_by_the_tool_of_the_system():
    """What is no word of a command line is no option."""
    run = as_root(roce()).broken("node2", "kernel", boot_options=("intel_iommu=on",))
    (command,) = typed(run, SAME).values()
    assert "grubby --update-kernel=ALL --args=iommu=pt;" in command
    assert 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt"' in command
    hostile = as_root(roce()).broken(["node1", "node3", "node4"], "kernel", boot_options=("pci=$(reboot)",))
    assert typed(hostile.broken("node2", "kernel", boot_options=()), SAME) == {}
