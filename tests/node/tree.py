"""Which of this machine's own sources does a collector touch that is asked about a tree of files?

Run as ``python -I tree.py ROOT ORDER``: loads all node code, poisons every real source, then runs each collector with
ORDER as its arguments, and prints {collector: {"touched": [...], "facts" | "missing": ...}} as one JSON document. A
poisoned source is noted and answers nonsense; a file below ROOT is the tree's own.
"""

import builtins
import importlib
import json
import os
import sys
from pathlib import Path

PREFLIGHT = Path(__file__).parents[2]
LOADED_LATE = (
    "pwd",
    "site",
    "subprocess",
    "signal",
    "json",
    "re",
    "_codecs",
    "_ctypes",
    "_ast",
    "shutil",
    "xml.etree.ElementTree",
    "encodings.ascii",
)
NONSENSE = "of-this-machine"
# What a process may always touch: it says nothing of the machine.
NEUTRAL = ("/dev/null",)
OF_CHILDREN = ("prctl",)  # by which a program of the tree ends with us


class Poison:
    """The sources of this machine, each of which notes who touches it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.touched: list[str] = []
        self.is_on = False

    def path(self, name: str, path: object) -> None:
        """A path that was looked at by this call."""
        if isinstance(path, int) or not self.is_on:
            return
        text = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else repr(path)
        is_above = f"{self.root}/".startswith(text.rstrip("/") + "/")  # on the way of realpath to the tree
        if text and not is_above and not text.startswith(f"{self.root}/") and text not in NEUTRAL:
            self.touched.append(f"{name} {text}")

    def event(self, event: str, arguments: tuple) -> None:
        """An audit event of the interpreter, which no collector can avoid."""
        if not self.is_on:
            return
        if event in ("open", "os.listdir", "os.scandir", "os.posix_spawn", "os.exec"):
            self.path(event, arguments[0])
        elif event == "subprocess.Popen":
            self.path(event, arguments[1][0])
        elif event.startswith(("socket.", "fcntl.ioctl", "ctypes.dlsym")) and arguments[-1] not in OF_CHILDREN:
            self.touched.append(f"{event} {arguments[-1]!r}"[:80])

    def set(self) -> None:
        """Poison what has no audit event: files that are only looked at, and what the kernel answers."""
        for name in ("stat", "lstat", "access", "readlink", "statvfs"):
            setattr(os, name, self.seeing(name, getattr(os, name)))
        import pwd
        import resource
        import time

        answers = {
            (os, "uname"): lambda: os.uname_result((NONSENSE,) * 5),
            (os, "sysconf"): lambda _name: 7,
            (os, "confstr"): lambda _name: NONSENSE,
            (os, "cpu_count"): lambda: 7,
            (os, "sched_getaffinity"): lambda _pid: {0},
            (pwd, "getpwuid"): lambda _uid: (_ for _ in ()).throw(KeyError(NONSENSE)),
            (resource, "getrlimit"): lambda _kind: (7, 7),
            (time, "time"): lambda: 7.0,
        }
        for (module, name), answer in answers.items():
            setattr(module, name, self.answering(f"{module.__name__}.{name}", answer))
        os.environ.clear()
        os.environ.update(PATH=f"/{NONSENSE}/bin", NCCL_DEBUG=NONSENSE, KUBERNETES_SERVICE_HOST=NONSENSE, HOME="/root")
        sys.addaudithook(self.event)
        self.is_on = True

    def seeing(self, name, real):
        """A function of a path that notes it."""

        def call(path, *more, **options):
            if not isinstance(path, int) and options.get("dir_fd") is None:
                self.path(name, path)
            return real(path, *more, **options)

        return call

    def answering(self, name, answer):
        """A function that notes its call and answers nonsense."""

        def call(*arguments):
            if self.is_on:
                self.touched.append(name)
            return answer(*arguments)

        return call


def main() -> None:
    """Load, poison, ask, print."""
    root, order = sys.argv[1], json.loads(sys.argv[2])
    sys.path.insert(0, os.fspath(PREFLIGHT))
    for path in sorted((PREFLIGHT / "preflight/node").rglob("*.py")):
        parts = path.relative_to(PREFLIGHT).with_suffix("").parts
        importlib.import_module(".".join(parts).removesuffix(".__init__"))
    for name in LOADED_LATE:
        importlib.import_module(name)
    from preflight.node.calls import collect, ending, own

    poison = Poison(root)
    poison.set()
    found = {}
    for name in (*collect.COLLECTORS, "peers", "ending", "own"):
        poison.touched = []
        try:
            if name == "peers":
                event = {"facts": collect.further({"peers": {"peers": [], "master_address": "", "bind": None}}, order)}
            elif name == "ending":
                event = {"facts": ending.collect(order)}
            elif name == "own":
                event = {"facts": own.may_block(order)}
            else:
                event = collect.answer(name, order)
        except OSError as error:
            event = {"missing": str(error)}
        found[name] = {**event, "touched": sorted(set(poison.touched))}
    poison.is_on = False
    builtins.print(json.dumps(found))


if __name__ == "__main__":
    main()
