"""Which commands mount, copy and fetch what a job reads?"""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from preflight.facts.node import NodeFacts
from preflight.facts.subjects.files import Mount, Same
from preflight.judge.commands.words import Case, Remedy, Row, as_root, into_file, of_the_others, one_of_the_others, sudo
from preflight.said.errors import FactMissing


def _silent(case: Case) -> Remedy:
    paths = [mount.path for mount in case.node.files.mounts if mount.trouble]
    if not paths:
        raise FactMissing("mounts", "all of them answer")
    node = case.node
    return Remedy(
        " && ".join(f"{as_root(node, 'umount', '-l', path)} && {as_root(node, 'mount', path)}" for path in paths)
    )


def _writable(case: Case) -> Remedy:
    """Mount it again, writable and with programs allowed."""
    commands = []
    for place in case.node.files.places:
        if not place.purpose.startswith("--") and (not place.may_run or not place.is_writable) and not place.trouble:
            options = ",".join(["remount", *["rw"] * (not place.is_writable), *["exec"] * (not place.may_run)])
            target = f'"$(findmnt -no TARGET -T {shlex.quote(place.path)})"'
            commands.append(f"{sudo(case.node)}mount -o {options} {target}")
    if not commands:
        raise FactMissing("places", "why they cannot be used is not known")
    return Remedy(" && ".join(commands), "# to last: the same options in /etc/fstab")


def _mount_of(node: NodeFacts, path: str) -> Mount:
    found = [mount for mount in node.files.mounts if PurePosixPath(path).is_relative_to(mount.path)]
    if not found:
        raise FactMissing(f"mount of {path}", "it is on no file system of the network", "absent")
    return max(found, key=lambda mount: len(mount.path))


def _mounted(case: Case) -> Remedy:
    """The file system that the others have at the shared path."""
    path = case.value("path")
    mount = of_the_others(case, lambda node: _mount_of(node, path), f"mount of {path}")
    if any(held.path == mount.path and held.source == mount.source for held in case.node.files.mounts):
        raise FactMissing("mount", "it is mounted here too")
    if mount.source.startswith("-"):
        raise FactMissing("mount", f"{mount.source[:80]} is no file system")
    root = as_root(case.node, "mkdir", "-p", mount.path)
    now = f"{root} && {as_root(case.node, 'mount', '-t', mount.kind, mount.source, mount.path)}"
    if any(letter.isspace() for letter in mount.source + mount.path + mount.kind):
        return Remedy(now)
    return Remedy(now, into_file(case.node, "/etc/fstab", f"{mount.source} {mount.path} {mount.kind} _netdev 0 0"))


def _tokens(case: Case) -> Remedy:
    left = [str(PurePosixPath(shared.path) / name) for shared in case.node.files.shared for name in shared.leftovers]
    if not left:
        raise FactMissing("tokens", "none is left")
    return Remedy(shlex.join(["rm", "-f", "--", *left]))  # each node that has the folder lists them


def _copied(case: Case) -> Remedy:
    """Copy from a node that has what most have, as its peers reach it."""
    path = case.value("about")

    def of(node: NodeFacts) -> Same:
        for same in node.files.same:
            if same.path == path and isinstance(same.digest, str):
                return same
        raise FactMissing(path, "not read there")

    wanted = of_the_others(case, lambda node: of(node).digest, f"contents of {path}")
    address = one_of_the_others(case, lambda node: of(node).digest, wanted, path).address_for_peers()
    place = f"[{address}]" if ":" in address else address
    folder = str(PurePosixPath(path).parent)
    return Remedy(shlex.join(["rsync", "-acs", f"{place}:{path}", f"{folder.rstrip('/')}/"]))


def _pulled(case: Case) -> Remedy:
    commands = []
    for same in case.node.files.same:
        if same.pointers:
            is_file = same.file_count == 1 and PurePosixPath(same.path).name == PurePosixPath(same.pointers[0]).name
            folder = str(PurePosixPath(same.path).parent) if is_file else same.path
            commands.append(shlex.join(["git", "-C", folder, "lfs", "pull"]))
    if not commands:
        raise FactMissing("pointers", "there are none")
    return Remedy(" && ".join(commands))


ROWS: dict[str, Row] = {
    "files.network_file_systems_answer": _silent,
    "files.places_can_be_written_to": _writable,
    "files.shared_paths_are_shared": _mounted,
    "files.the_checkpoint_folder_is_shared": _mounted,
    "files.no_token_is_left_behind": _tokens,
    "files.same_paths_hold_the_same": _copied,
    "files.no_pointer_stands_for_data": _pulled,
}
