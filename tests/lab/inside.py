"""What happens inside a lab host's namespaces: who holds them, and which mounts make it a machine of its own?

The text of this file is sent to a Python that already runs there (see spaces.py): a host's /tmp is its own, so
it could not open a file of a checkout that lies in the machine's /tmp. Standard library only, nothing at import.
"""

import ctypes
import json
import os
import shutil
import signal
import socket
import sys
import tempfile

MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC = 1, 32, 4096, 16384
MNT_DETACH = 2
KERNEL_FILESYSTEMS = (
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl hugetlbfs mqueue nsfs "
    "proc pstore securityfs sysfs tmpfs tracefs"
)


def mount(source, target, filesystem="none", flags=0, data=""):
    """Put a file system, or what lies at `source`, at `target`."""
    libc = ctypes.CDLL(None, use_errno=True)
    arguments = [os.fsencode(text) for text in (source, target, filesystem)]
    if libc.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(data)) != 0:
        raise OSError(ctypes.get_errno(), f"mount {filesystem} {source}: {os.strerror(ctypes.get_errno())}", target)


def detach(target):
    """Unmount, even while a process still has something there open."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(target), MNT_DETACH) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)


def mounts():
    """Yield (device, mount point, filesystem, source) of every mount seen here."""
    with open("/proc/self/mountinfo") as lines:
        for line in lines:
            left, right = line.split(" - ")
            major, minor = left.split()[2].split(":")
            filesystem, source = right.split()[:2]
            point = left.split()[4].encode().decode("unicode_escape")
            yield os.makedev(int(major), int(minor)), point, filesystem, source


class Place:
    """The mounts of one namespace: `tag` is the source of every tmpfs made here, `scratch` one of them."""

    def __init__(self, tag, scratch):
        self.tag = tag
        self.scratch = scratch

    def tmpfs(self, target, mode):
        """Put an empty directory that only this namespace sees over `target`."""
        mount(self.tag, target, "tmpfs", data=f"mode={mode}")

    def is_private(self, path):
        """Is what lies at `path` seen by this namespace alone?"""
        device = os.stat(path).st_dev
        return any(device == other and source == self.tag for other, _, _, source in mounts())

    def cover(self, directory):
        """Make `directory` writable for this namespace alone; its entries are bound back. -> how to undo it."""
        if self.is_private(directory):
            return []
        aside = tempfile.mkdtemp(dir=self.scratch)
        mount(directory, aside, flags=MS_BIND | MS_REC)
        self.tmpfs(directory, "755")
        for entry in os.scandir(aside):
            target = os.path.join(directory, entry.name)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), target)
                continue
            if entry.is_dir():
                os.mkdir(target)
            else:
                os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
            mount(entry.path, target, flags=MS_BIND | MS_REC)
        detach(aside)
        os.rmdir(aside)
        return [["detach", directory]]

    def make_room(self, path):
        """See to it that `path` can be created. -> how to undo it."""
        parent = os.path.dirname(path)
        first_new = path
        while not os.path.isdir(parent):
            parent, first_new = os.path.dirname(parent), parent
        covered = self.cover(parent)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return covered or [["remove", first_new]]

    def write(self, path, text, mode=0o644):
        """Let this namespace alone read `text` at `path`. -> how to undo it."""
        path = os.path.realpath(path)
        if not os.path.exists(path):
            undo = self.make_room(path)
        elif self.is_private(path):
            with open(path) as file:
                undo = [["write", path, file.read(), mode]]
        else:
            source = tempfile.mkdtemp(dir=self.scratch) + "/file"
            self.write(source, text, mode)
            mount(source, path, flags=MS_BIND)
            return [["detach", path]]
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return undo

    def tree(self, root, files, links):
        """Let this namespace alone see a directory `root` with these files and symbolic links. -> how to undo it."""
        if os.path.isdir(root) and self.is_private(root):
            shutil.rmtree(root)
        undo = self.make_room(root)
        for name, text in files.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)
        for name, target in links.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)
        return undo

    def lay(self, folder):
        """Lay a fragment of a root file system over this machine's, as this namespace sees it. -> how to undo it.

        Of ``sys`` and ``proc`` nothing else is seen; what processes look up of themselves stays the kernel's own.
        """
        undo = []
        if os.path.isdir(f"{folder}/sys"):
            mount(f"{folder}/sys", "/sys", flags=MS_BIND)
            undo.append(["detach", "/sys"])
        if os.path.isdir(f"{folder}/proc"):
            undo.append(self.lay_proc(f"{folder}/proc"))
        for name in sorted(set(os.listdir(folder)) - {"sys", "proc"}):
            undo[:0] = self.lay_at(f"{folder}/{name}", f"/{name}")
        return undo

    def lay_proc(self, source):
        """A /proc of plain files, in which a process still finds what the kernel alone knows of it."""
        aside = tempfile.mkdtemp(dir=self.scratch)
        mount("/proc", aside, flags=MS_BIND | MS_REC)
        self.tmpfs("/proc", "755")
        for name in {".kernel", *os.listdir(source)} - {"self"}:
            if name == ".kernel" or os.path.isdir(f"{source}/{name}"):
                os.mkdir(f"/proc/{name}")
            else:
                os.close(os.open(f"/proc/{name}", os.O_CREAT | os.O_WRONLY))
            mount(aside if name == ".kernel" else f"{source}/{name}", f"/proc/{name}", flags=MS_BIND | MS_REC)
        detach(aside)
        os.rmdir(aside)
        os.mkdir("/proc/self")
        for name in os.listdir("/proc/.kernel/self"):
            if not os.path.exists(f"{source}/self/{name}"):
                os.symlink(f"../.kernel/self/{name}", f"/proc/self/{name}")
        for name in os.listdir(f"{source}/self") if os.path.isdir(f"{source}/self") else []:
            shutil.copy(f"{source}/self/{name}", f"/proc/self/{name}")
        for name in ("thread-self", "stat", "uptime", "filesystems"):
            if not os.path.lexists(f"/proc/{name}"):
                os.symlink(f".kernel/{name}", f"/proc/{name}")
        if not os.path.exists("/proc/mounts"):
            os.symlink("self/mounts", "/proc/mounts")
        return ["detach", "/proc"]

    def lay_at(self, source, target):
        """A file, or a folder with what it has more than this machine's. -> how to undo it."""
        if os.path.isdir(source) and not os.path.islink(source) and os.path.isdir(target):
            undo = []
            for name in sorted(os.listdir(source)):
                undo[:0] = self.lay_at(f"{source}/{name}", f"{target}/{name}")
            return undo
        if os.path.exists(target):
            mount(source, target, flags=MS_BIND)
            return [["detach", target]]
        undo = self.cover(os.path.dirname(target))
        if os.path.islink(source):
            os.symlink(os.readlink(source), target)
            return undo
        if os.path.isdir(source):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
        mount(source, target, flags=MS_BIND)
        return [["detach", target], *undo]

    def detach(self, path):
        """Undo of a mount."""
        detach(path)
        return []

    def remove(self, path):
        """Undo of a file or directory that was created."""
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        return []


def make_disks_read_only():
    """Nothing that a host does may change the machine's disks, neither sshd's lastlog nor Python's __pycache__."""
    for _, point, filesystem, _ in list(mounts()):
        if filesystem not in KERNEL_FILESYSTEMS.split():
            mount("none", point, flags=MS_REMOUNT | MS_BIND | MS_RDONLY)


def mount_sysfs(scratch):
    """A /sys that shows this network namespace; the machine's cgroups stay where they were."""
    aside = os.path.join(scratch, "cgroup")
    os.mkdir(aside)
    mount("/sys/fs/cgroup", aside, flags=MS_BIND | MS_REC)
    mount("sysfs", "/sys", "sysfs")
    mount(aside, "/sys/fs/cgroup", flags=MS_BIND | MS_REC)
    detach(aside)
    os.rmdir(aside)


def settle(spec):
    """Make these namespaces the machine that `spec` describes."""
    place = Place(spec["tag"], spec["scratch"])
    visible = {path: os.open(path, os.O_PATH) for path in (*spec["visible"], *spec["shared"])}
    if spec["own_pids"]:
        make_disks_read_only()
    for path, mode in spec["private"]:
        place.tmpfs(path, mode)
    for path, handle in visible.items():
        os.makedirs(path, exist_ok=True)
        mount(f"/proc/self/fd/{handle}", path, flags=MS_BIND | MS_REC)
        if path in spec["shared"]:
            mount("none", path, flags=MS_REMOUNT | MS_BIND)
        os.close(handle)
    os.makedirs(place.scratch, exist_ok=True)
    place.tmpfs(place.scratch, "700")
    if spec["own_pids"]:
        mount("proc", "/proc", "proc")
    mount_sysfs(place.scratch)
    socket.sethostname(spec["hostname"])
    for path, (text, mode) in spec["files"].items():
        place.write(path, text, mode)


def hold(spec):
    """Settle, say so, and keep the namespaces until stdin ends (or until killed, where `forever` is set)."""
    pid = int(os.readlink("/proc/self"))  # as the machine counts: /proc is still the machine's here
    try:
        if spec["settle"]:
            settle(spec)
        answer = {"pid": pid}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.chdir("/")
    # Orphans of this host become ours, and nobody else would reap them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while spec["forever"]:
        signal.pause()
    while os.read(0, 65536):
        pass


def change(spec):
    """Carry out operations on these mounts; say how to undo them, last one first."""
    place = Place(spec["tag"], spec["scratch"])
    undo = []
    for operation, *arguments in spec["operations"]:
        undo = [*getattr(place, operation)(*arguments), *undo]
    print(json.dumps(undo))


if __name__ == "__main__":
    {"hold": hold, "change": change}[sys.argv[1]](order["spec"])  # noqa: F821 (set by the loader in spaces.py)
