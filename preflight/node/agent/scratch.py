"""Where do the launchers of a run put their own files, out of reach of every other user, and who removes them?

The folder is in /dev/shm, which anybody may write to. So its name cannot be guessed, and it is checked through a
descriptor before it is used: a folder and no link, of our user, closed to all others. A lock on that descriptor lasts
as long as the keeper or a call of it lives; a folder of our user without one was left by a run that was killed.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time

PARENT = "/dev/shm"
MARK = "preflight-"
NEW_SECONDS = 5.0  # one that was made just now may not be locked yet
UNMAPPED_UID = 65534  # root of the machine, seen from a container that does not map it
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """The folder of one run on this node; there is none until it is asked for.

    ``token`` is the run's own and the same on all its nodes, so that a process which one node starts on another finds
    what was put there for it.
    """

    def __init__(self, token: str, parent: str = PARENT) -> None:
        self.parent = parent
        self.token = token
        self.path = ""
        self.descriptor = -1

    def make(self) -> str:
        """The path of the folder, made at the first call. Raises OSError where none can be made that is safe."""
        if self.path:
            return self.path
        refuse_unsafe(self.parent)
        path = f"{self.parent}/{MARK}{self.token}"
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            # Made by another node of this run that shares /dev/shm, or by somebody else: the check below tells.
            self.path = ""
        descriptor = os.open(path, OPEN_FOLDER)
        try:
            if not is_ours(descriptor):
                raise PermissionError(1, f"{path} was made by somebody else")
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        self.path, self.descriptor = path, descriptor
        return path

    def remove(self) -> None:
        """Take the folder away with all that is in it, unless another node of this run still holds it."""
        if not self.path:
            return
        import shutil

        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(self.path, ignore_errors=True)
        except BlockingIOError:
            pass
        os.close(self.descriptor)
        self.path, self.descriptor = "", -1


def refuse_unsafe(parent: str) -> None:
    """PermissionError where others could rename what we make in a folder."""
    status = os.stat(parent)
    is_shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if status.st_uid not in (0, os.geteuid(), UNMAPPED_UID) or (is_shared and not status.st_mode & stat.S_ISVTX):
        raise PermissionError(1, f"{parent} lets other users replace what we make there: wanted root's, mode 1777")


def is_ours(descriptor: int) -> bool:
    """Whether an open file is a folder of our user and closed to all others."""
    status = os.fstat(descriptor)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def abandoned(parent: str = PARENT) -> list[str]:
    """The folders of our own user that no run holds any more; other users' folders, and links, are left alone."""
    found = []
    for name in sorted(os.listdir(parent)):
        path = f"{parent}/{name}"
        if name.startswith(MARK) and is_abandoned(path):
            found.append(path)
    return found


def is_abandoned(path: str) -> bool:
    """Whether a folder is ours and its lock is free."""
    try:
        descriptor = os.open(path, OPEN_FOLDER)
    except OSError:  # gone, a link, no folder, or another user's
        return False
    try:
        if not is_ours(descriptor) or abs(time.time() - os.fstat(descriptor).st_ctime) < NEW_SECONDS:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def sweep(parent: str = PARENT) -> list[str]:
    """Remove what killed runs of our user left -> the paths that were removed."""
    removed: list[str] = []
    try:
        left = abandoned(parent)
    except OSError:  # no /dev/shm, or none that we may read
        return removed
    for path in left:
        import shutil  # 4 ms to load, wasted where nothing was left behind

        shutil.rmtree(path, ignore_errors=True)
        if not os.path.lexists(path):
            removed.append(path)
    return removed
