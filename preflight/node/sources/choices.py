"""How are CPUs, memory and clock of this machine configured: in the BIOS, at boot, by sysctl?"""

from __future__ import annotations

import os

from preflight.node.agent.missing import missing, missing_because, read_lines, read_text_or_missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Union

    from preflight.node.agent.missing import Missing

    CountOrMissing = Union[int, Missing]
    FlagOrMissing = Union[bool, Missing]


def collect(proc: str, sysfs: str) -> dict[str, Any]:
    """Facts of the subject kernel; a file that this kernel does not have is an absent fact."""
    cpu = f"{sysfs}/devices/system/cpu"
    return {
        "memory_overcommit": count(f"{proc}/sys/vm/overcommit_memory"),
        "numa_balancing": count(f"{proc}/sys/kernel/numa_balancing"),
        "most_processes": least(count(f"{proc}/sys/kernel/pid_max"), count(f"{proc}/sys/kernel/threads-max")),
        "files_held": files_held(f"{proc}/sys/fs/file-nr"),
        "connections_held": connections_held(f"{proc}/sys/net/netfilter"),
        "enforces_selinux": selinux(f"{sysfs}/fs/selinux/enforce"),
        "users_make_namespaces": users_make_namespaces(f"{proc}/sys"),
        "has_smt": flag(f"{cpu}/smt/active"),
        "has_boost": boost(cpu),
        "clock_source": read_lines(f"{sysfs}/devices/system/clocksource/clocksource0/current_clocksource"),
        "clock_share": clock_share(f"{cpu}/cpufreq"),
    }


def count(path: str) -> CountOrMissing:
    """The number that a file consists of."""
    text = read_lines(path)
    if isinstance(text, dict):
        return text
    return int(text) if text.isdecimal() else missing(f"{path} holds no figure: {text[:40]!r}")


def files_held(path: str) -> float | Missing:
    """The share of fs.file-max that all programs of the machine have open: "9984  0  100000", the middle ones free."""
    text = read_lines(path)
    if isinstance(text, dict):
        return text
    figures = text.split()
    if len(figures) != 3 or not all(one.isdecimal() for one in figures) or figures[2] == "0":
        return missing(f"{path} holds no three figures: {text[:40]!r}")
    held, free, most = map(int, figures)
    return round((held - free) / most, 2)


def selinux(path: str) -> FlagOrMissing:
    """Whether SELinux refuses what its policy does not allow; the kernel ends this file with its figure."""
    text = read_text_or_missing(path)
    if isinstance(text, dict):
        return text
    return text == "1" if text in ("0", "1") else missing(f"{path} holds no figure: {text[:40]!r}")


def users_make_namespaces(folder: str) -> FlagOrMissing:
    """Whether a user who is not root may make user namespaces, as enroot, Apptainer and Podman do."""
    most, clone = count(f"{folder}/user/max_user_namespaces"), count(f"{folder}/kernel/unprivileged_userns_clone")
    if not isinstance(most, int):
        return most
    if not isinstance(clone, int):  # a switch of Debian's and Ubuntu's kernels
        return bool(most) if clone["kind"] == "absent" else clone
    return bool(most and clone)


def connections_held(folder: str) -> float | Missing:
    """The share of net.netfilter.nf_conntrack_max that is used; absent where no filter keeps track of connections."""
    held, most = count(f"{folder}/nf_conntrack_count"), count(f"{folder}/nf_conntrack_max")
    if not isinstance(held, int):
        return held
    if not isinstance(most, int):
        return most
    return round(held / most, 2) if most else missing("nf_conntrack_max is 0: as many as there is memory for", "absent")


def least(*counts: CountOrMissing) -> CountOrMissing:
    """The smallest of several figures; the first that is missing where one is."""
    lost = [one for one in counts if not isinstance(one, int)]
    return lost[0] if lost else min(one for one in counts if isinstance(one, int))


def flag(path: str) -> FlagOrMissing:
    """Whether a file says 1 (or 0)."""
    found = count(path)
    return bool(found) if isinstance(found, int) else found


def boost(cpu: str) -> FlagOrMissing:
    """Whether CPUs may go beyond their base frequency: intel_pstate says no_turbo, other drivers boost."""
    no_turbo = flag(f"{cpu}/intel_pstate/no_turbo")
    if isinstance(no_turbo, bool):
        return not no_turbo
    return flag(f"{cpu}/cpufreq/boost") if no_turbo["kind"] == "absent" else no_turbo


def clock_share(folder: str) -> float | Missing:
    """The share of its highest frequency to which the slowest CPU is held; 1.0 where none is."""
    try:
        policies = [name for name in os.listdir(folder) if name.startswith("policy")]
    except OSError as error:
        return missing_because(error)
    shares = []
    for policy in policies:
        held, most = (count(f"{folder}/{policy}/{name}_max_freq") for name in ("scaling", "cpuinfo"))
        for value in (held, most):
            if not isinstance(value, int):
                return value
        if isinstance(held, int) and isinstance(most, int) and most:
            shares.append(held / most)
    return round(min(shares), 2) if shares else missing("the CPUs' frequency is not the kernel's to choose", "absent")
