"""Which lines of ours does a Python run that a test started? It writes each to a file of its own, once.

First in PYTHONPATH, so that any Python that the test starts comes by here; a sitecustomize that was there already runs
after it. Tracing begins with the first import of ours: what torch is imported before it is not slowed down.
"""

import os
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.environ.get("TRACED_LINES", "")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE))) + "/"
SENT = "<sent>/"  # what the loader of a program that was sent calls its modules


class Lines:
    """File and line of all that ran here, written as they come: no end of a process is waited for."""

    def __init__(self):
        self.file = -1
        self.owner = 0
        self.seen = set()

    def add(self, name, line):
        """A line of a file of ours, as its path from the root or as the module that was sent."""
        if self.owner != os.getpid():  # what a fork inherits is its parent's
            self.owner, self.seen = os.getpid(), set()
            path = os.path.join(FOLDER, f"{self.owner}-{id(self)}")
            self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if (name, line) not in self.seen:
            self.seen.add((name, line))
            os.write(self.file, f"{name}:{line}\n".encode())


def name_of(file):
    """What a file of ours is called; "" of any other."""
    if file.startswith(SENT + "preflight."):
        return file[len(SENT) :]
    return file[len(ROOT) :] if file.startswith((ROOT + "preflight/", ROOT + "checks/")) else ""


def begin():
    """Trace all threads from here on."""
    lines, names = Lines(), {}

    def line(frame, event, _):
        if event == "line":
            lines.add(names[frame.f_code.co_filename], frame.f_lineno)
        return line

    def call(frame, _event, _):
        file = frame.f_code.co_filename
        if file not in names:
            names[file] = name_of(file)
        return line if names[file] else None

    threading.settrace(call)
    sys.settrace(call)


def look(event, words, begun=[]):  # noqa: B006 - remembers that it has begun
    """Begin with the first module of ours."""
    if event == "import" and not begun and str(words[0]).partition(".")[0] in ("preflight", "checks"):
        begun.append(True)
        begin()


def hand_on():
    """Run the sitecustomize that this one stands before."""
    import importlib.machinery
    import importlib.util

    paths = [path for path in sys.path if os.path.abspath(path or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if __name__ == "sitecustomize":
    if os.path.isdir(FOLDER):
        sys.addaudithook(look)
    hand_on()
