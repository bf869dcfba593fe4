"""Which hosts does a hostfile list, and which of them do the filters leave?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.address import is_loopback, wrong_with
from preflight.launch.field import Sourced, value_of, whole
from preflight.launch.plan import Hostfile, HostLine, LaunchFiles, Plan, fail, warn
from preflight.said import said

SLOTS = re.compile(r"(\S+)\s+slots=(\d{1,9})\b")


IP = re.compile(r"\d{1,3}(\.\d{1,3}){3}")


COLON_SLOTS = re.compile(r"([A-Za-z0-9_.-]+):(\d{1,5})")  # of Hydra


def rank_0_is_on_the_first_host(files: LaunchFiles) -> Iterable[Finding]:
    """Rank 0 runs on the first host of the hostfile: under the address of another one nobody listens."""
    for plan in files.plans:
        named = plan.setting("hostfile") or plan.setting("deepspeed_config.deepspeed_hostfile")
        named = named or plan.setting("deepspeed_hostfile")
        hostfile = next((held for held in files.hostfiles if named and _is(held.file, str(named))), None)
        if hostfile is None or (plan.start == "each node" and "no_ssh" in plan.settings):
            continue
        include, exclude = (value_of(plan.settings.get(name)) for name in ("include", "exclude"))
        names = [host.name.rpartition("@")[2] for host in chosen(hostfile, include, exclude, plan.where)[0]]
        where = hostfile.where
        yield from address_is_of_the_first(plan, names, hostfile.file, where)
        exported = plan.environment.get("MASTER_ADDR")
        is_unread = plan.launcher.name == "deepspeed" and plan.master_address is None and len(names) > 1
        if not is_unread or not isinstance(exported, Sourced) or exported.value in names:
            continue
        if _is_elsewhere(exported.value, names) or wrong_with(exported.value):
            message = said(
                "MASTER_ADDR={value} is none of the hosts of {file}, and DeepSpeed does not read it: the ranks meet at "
                "{first}",
                exported.value,
                hostfile.file,
                names[0],
            )
            yield warn("settings_have_an_effect", message, exported.where, where, fix="unset MASTER_ADDR")


def address_is_of_the_first(plan: Plan, names: list[str], listed: str, where: Where) -> Iterable[Finding]:
    """The address of rank 0 is that of the first of several hosts, which stand in `listed`."""
    address = plan.master_address
    if not isinstance(address, Sourced) or len(names) < 2:
        return
    first = names[0]
    if address.value in names[1:] and address.value != first:
        message = said(
            "rank 0 runs on {first}, the first host of {listed}, and its address is {value}",
            first,
            listed,
            address.value,
        )
        yield fail("master_address_is_rank_0s", message, address.where, where, fix=first)
    elif _is_elsewhere(address.value, names):
        message = said(
            "the address of rank 0 is {value}, and {listed} has no such host: that is right only if it "
            "is another address of {first}, its first host",
            address.value,
            listed,
            first,
        )
        yield warn("master_address_is_rank_0s", message, address.where, where, fix=first)


def _is_elsewhere(address: str, names: list[str]) -> bool:
    """Whether an address is written like the hosts, as a number or as a name, and is none of them."""
    are_numbers = [IP.fullmatch(name) is not None for name in (address, *names)]
    if wrong_with(address) or is_loopback(address) or len(set(are_numbers)) > 1:
        return False
    if are_numbers[0]:
        return address not in names
    hosts, host = [name.split(".")[0] for name in names], address.split(".", maxsplit=1)[0]
    return not any(one.startswith(other) for name in hosts for one, other in ((name, host), (host, name)))


def _is(file: str, named: str) -> bool:
    return os.path.basename(file) == os.path.basename(named)


def chosen(
    hostfile: Hostfile, include: str | None, exclude: str | None, where: Where
) -> tuple[list[HostLine], list[Finding]]:
    """The hosts that --include and --exclude leave, and what they name that the hostfile has not."""
    hosts = {host.name: host for host in hostfile.hosts}
    problems: list[Finding] = []
    if include and exclude:
        problems.append(fail("hostfile_and_filters_agree", "--include and --exclude exclude each other", where))
    wanted: dict[str, list[int]] = {}
    for piece in (include or exclude or "").split("@"):
        name, colon, slots = piece.partition(":")
        numbers = [number for slot in slots.split(",") if (number := whole(slot)) is not None]
        if name and name not in hosts:
            message = said(
                "{name} of --{include} is not in {file}", name, "include" if include else "exclude", hostfile.file
            )
            problems.append(fail("hostfile_and_filters_agree", message, where, hostfile.where))
            continue
        if name:
            held = value_of(hosts[name].slots)
            beyond = [number for number in numbers if held is not None and number >= held]
            if beyond:
                message = said("slot {beyond} of {name}: the hostfile gives it {held}", beyond[0], name, held)
                problems.append(fail("hostfile_and_filters_agree", message, where, hosts[name].where))
            wanted[name] = numbers if colon else []
    left: list[HostLine] = []
    for name, host in hosts.items():
        if include and name in wanted:
            slots_left = Sourced(len(wanted[name]), host.where.file, host.where.line) if wanted[name] else host.slots
            left.append(HostLine(name, slots_left, host.where))
        elif not include and not (name in wanted and not wanted[name]):
            before = value_of(host.slots)
            fewer = before - len(wanted.get(name, ())) if before is not None else None
            slots_left = host.slots if fewer is None else Sourced(fewer, host.where.file, host.where.line)
            left.append(HostLine(name, slots_left, host.where))
    return left, problems


def read_hostfile(text: str, file: str) -> tuple[Hostfile, list[Finding]]:
    """The hosts of a hostfile, and the lines that DeepSpeed would refuse."""
    lines = [(line, Where(file, number)) for number, line in enumerate(text.split("\n"), start=1)]
    return hostfile_of(lines, file)


def hostfile_of(lines: Iterable[tuple[str, Where]], file: str) -> tuple[Hostfile, list[Finding]]:
    """The same of lines that stand anywhere: in the script that writes them into the file."""
    hosts: list[HostLine] = []
    problems: list[Finding] = []
    without: list[Where] = []
    seen: dict[str, Where] = {}
    for raw, where in lines:
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = SLOTS.match(line) or COLON_SLOTS.fullmatch(line)
        name = match[1] if match else line.split()[0]
        if match is not None and match.re is COLON_SLOTS:
            message = said("{line!r} is how Hydra writes slots; DeepSpeed refuses the hostfile", line[:60])
            problems.append(fail("hostfile_lines_are_read", message, where, fix=f"{name} slots={match[2]}"))
        if name in seen:
            message = said(
                "{name} is listed in lines {line} and {number}; DeepSpeed refuses a host twice",
                name,
                seen[name].line,
                where.line,
            )
            problems.append(fail("hostfile_names_a_host_once", message, seen[name], where))
        elif match is None and len(line.split()) > 1:
            message = said("{line!r} is not `host slots=N`: DeepSpeed refuses the hostfile", line[:60])
            problems.append(fail("hostfile_lines_are_read", message, where, fix=f"{name} slots=8"))
        elif match is None:
            without.append(where)
        if match is not None and int(match[2]) == 0:
            problems.append(
                fail("hostfile_lines_are_read", said("{name} has slots=0: no rank would run there", name), where)
            )
        seen.setdefault(name, where)
        hosts.append(HostLine(name, Sourced(int(match[2]), where.file, where.line) if match else None, where))
    if without and len(without) < len(hosts):
        message = said(
            "no slots=N for {without} of {hosts} hosts: DeepSpeed refuses the hostfile", len(without), len(hosts)
        )
        problems.append(fail("hostfile_lines_are_read", message, *without, fix="host slots=8"))
    elif without:
        message = "no host has slots=N: an MPI launcher reads such a file, DeepSpeed refuses it"
        problems.append(warn("hostfile_lines_are_read", message, without[0], fix="host slots=8"))
    return Hostfile(file, tuple(hosts)), problems
