"""Do the file systems of the network that are mounted here answer?"""

from __future__ import annotations

import os
from functools import partial

from preflight.node.agent import within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KINDS = (
    *("nfs", "nfs4", "lustre", "cifs", "smb3", "gpfs", "beegfs", "ceph", "glusterfs", "9p", "virtiofs", "afs", "pvfs2"),
    *("fuse.sshfs", "fuse.gcsfuse", "fuse.s3fs", "fuse.goofys", "fuse.juicefs", "fuse.glusterfs", "fuse.ceph"),
)
MOST = 32
SECONDS = 3.0


def network_mounts(table: str = "/proc/self/mounts", *, spare_seconds: float = 0.0) -> list[dict[str, Any]]:
    """Every mounted file system of the network, and why it does not answer where it does not.

    `spare_seconds` are for a busy node, on which the question, not the server, waits for a processor.
    """
    with open(table, encoding="utf-8", errors="backslashreplace") as lines:
        found = [line.split()[:3] for line in lines]
    automatic = tuple(f"{plain(path)}/" for _, path, kind in found if kind == "autofs")
    wanted = [(plain(path), kind, plain(source)) for source, path, kind in found if kind in KINDS][:MOST]
    questions = {path: partial(touch, path) for path, _, _ in wanted}
    answers = within.ask_each(questions, seconds=SECONDS, spare_seconds=spare_seconds)
    return [
        {"path": path, "kind": kind, "source": source, "trouble": trouble(answers[path])}
        | ({"is_automatic": True} if f"{path}/".startswith(automatic) else {})
        for path, kind, source in wanted
    ]


def plain(text: str) -> str:
    """A name without escapes: the kernel writes blanks and backslashes as octal numbers."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def touch(path: str) -> bool:
    """Ask the server something that no cache answers for long."""
    os.stat(path)
    os.statvfs(path)
    return True


def trouble(answer: Any) -> str:
    """Why a file system gave no answer; one that denies us access has answered."""
    if not isinstance(answer, OSError) or isinstance(answer, PermissionError):
        return ""
    return answer.strerror or str(answer)
