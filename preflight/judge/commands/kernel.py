"""Which commands put CPUs, memory and the kernel's options right?"""

from __future__ import annotations

import re
import shlex

from preflight.facts.node import NodeFacts
from preflight.facts.value import present
from preflight.judge.commands.words import (
    Case,
    Remedy,
    Row,
    as_file,
    as_root,
    counted,
    edited,
    into_kernel,
    others_have,
    sudo,
    wanted_here,
)
from preflight.said.errors import FactMissing

GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
HUGE = "/sys/kernel/mm/transparent_hugepage/enabled"
TMPFILES = "/etc/tmpfiles.d/90-preflight-{}.conf"
HUGEPAGE_BYTES = 2 << 20


def _governor(value: str) -> Row:
    def row(case: Case) -> Remedy:
        # systemd-tmpfiles writes it at every boot; it expands the pattern by itself.
        lasting = as_file(case.node, TMPFILES.format("governor"), f"w {GOVERNORS} - - - - {value}")
        return Remedy(into_kernel(case.node, value, GOVERNORS), lasting)

    return row


def _transparent(case: Case) -> Remedy:
    wanted = wanted_here(
        case, lambda node: present(node.kernel.transparent_hugepages, "transparent huge pages"), "huge pages"
    )
    lasting = as_file(case.node, TMPFILES.format("thp"), f"w {HUGE} - - - - {wanted}")
    return Remedy(into_kernel(case.node, wanted, HUGE), lasting)


def _hugepages(node: NodeFacts, count: int) -> Remedy:
    lasting = as_file(node, "/etc/sysctl.d/90-preflight-hugepages.conf", f"vm.nr_hugepages = {count}")
    return Remedy(as_root(node, "sysctl", "-w", f"vm.nr_hugepages={count}"), lasting)


def _same_hugepages(case: Case) -> Remedy:
    wanted = wanted_here(case, lambda node: present(node.kernel.hugepages_bytes, "huge pages"), "huge pages")
    options = present(case.node.kernel.boot_options, "boot options")
    if wanted and (case.node.identity.machine != "x86_64" or any("hugepagesz" in option for option in options)):
        raise FactMissing("huge pages", "how large they are is not known")
    return _hugepages(case.node, wanted // HUGEPAGE_BYTES)


def _swap(case: Case) -> Remedy:
    is_on = wanted_here(case, lambda node: present(node.kernel.swap_total_bytes, "swap") > 0, "swap of the others")
    if is_on:
        return Remedy(as_root(case.node, "swapon", "-a"))
    script = r"s/^([^#].*[[:space:]]swap[[:space:]].*)$/# \1/"
    return Remedy(as_root(case.node, "swapoff", "-a"), edited(case.node, script, "/etc/fstab"))


def boot_options(node: NodeFacts, *options: str) -> Remedy:
    """The command that adds options to the kernel's command line, by the boot loader's own tool of the system."""
    if not options or not all(re.fullmatch(r"[A-Za-z0-9_.,:=-]+", option) for option in options):
        raise FactMissing("boot options", "there is none to add")
    root, words = sudo(node), " ".join(options)
    by_grubby = f"{root}grubby --update-kernel=ALL --args={shlex.quote(words)}"
    line = shlex.quote(f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {words}"')
    file = "/etc/default/grub.d/90-preflight.cfg"
    by_grub = f"{root}mkdir -p /etc/default/grub.d && printf '%s\\n' {line} | {root}tee {file} >/dev/null"
    now = f"if command -v grubby >/dev/null; then {by_grubby}; else {by_grub} && {root}update-grub; fi"
    return Remedy(now, "# then reboot")


def _translates(case: Case) -> Remedy:
    return boot_options(case.node, "iommu=pt")


def _same_options(case: Case) -> Remedy:
    """What the others are started with and this node is not; what it has beyond them is to be taken out by hand."""
    wanted = wanted_here(
        case, lambda node: tuple(sorted(present(node.kernel.boot_options, "boot options"))), "boot options"
    )
    held = present(case.node.kernel.boot_options, "boot options")
    return boot_options(case.node, *(option for option in wanted if option not in held))


def _bond(case: Case) -> Remedy:
    down = [
        member
        for members in case.node.kernel.bonds.values()
        for member, is_up in members.items()
        if not is_up and any(members.values())
    ]
    if not down:
        raise FactMissing("bond members", "all are up")
    commands = [as_root(case.node, "ip", "link", "set", "dev", member, "up") for member in down]
    return Remedy(" && ".join(commands), "# where it stays down: the cable, or the port of the switch")


def _same_governor(case: Case) -> Remedy:
    def governors(node: NodeFacts) -> tuple[str, ...]:
        return present(node.kernel.governors, "CPU governors")

    what = "CPU governors of the others"
    best: tuple[str, ...] = ("performance",)
    value = "performance" if others_have(case, governors, best, what) else "schedutil"
    held = [one for one in counted(case, governors, what) if others_have(case, governors, one, what)]
    if governors(case.node) == (value,) or not any(value in one for one in held):
        raise FactMissing("governor", "the others' is not one to set")
    return _governor(value)(case)


AT_ITS_BEST = "kernel.node_is_at_its_best"
SAME = "kernel.settings_are_the_same_on_every_node"
ROWS: dict[str, Row] = {
    f"{AT_ITS_BEST}: CPU governor": _governor("performance"),
    f"{AT_ITS_BEST}: huge pages": lambda case: _hugepages(case.node, 0),
    f"{AT_ITS_BEST}: bond members": _bond,
    f"{AT_ITS_BEST}: members of bonds": _bond,
    f"{SAME}: CPU governors": _same_governor,
    f"{SAME}: transparent huge pages": _transparent,
    f"{SAME}: memory set aside for huge pages": _same_hugepages,
    f"{SAME}: swap": _swap,
    f"{SAME}: boot options for devices": _same_options,
    "gpu.iommu_leaves_peer_to_peer_alone": _translates,
}
