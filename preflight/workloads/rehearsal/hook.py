"""Which Python of the user's script is a rank? It becomes the reference trainee; every other goes on as it is.

Sent to the nodes as sitecustomize.py, first in PYTHONPATH, so that any Python that the script starts comes by here. One
that was there already runs first. Launchers only leave a note of the words that they were started with.
"""

import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# What a launcher numbers its ranks with: rank, how many, which of its node, and what shows that it is a rank at all.
NUMBERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", ""),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", ""),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", ""),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_ID"),  # a batch shell has the first of them too
    ("LOCAL_RANK", "WORLD_SIZE", "LOCAL_RANK", ""),
)
OF_AN_AGENT = "TORCHELASTIC_RUN_ID"
LAUNCHERS = (
    "torchrun torch.distributed.run torch.distributed.launch torch.distributed.elastic accelerate accelerate-launch"
    " accelerate.commands deepspeed deepspeed.launcher ds ds_ssh ray horovodrun colossalai llamafactory-cli"
).split()
TOOLS = (
    "pip pip3 conda mamba venv ensurepip virtualenv poetry uv pipx pytest wandb huggingface-cli hf modelscope gsutil"
    " aws tensorboard jupyter ipython nvitop gpustat json.tool http.server site sysconfig compileall zipfile"
).split()


def main_of(argv):
    """("file", path), ("module", name) or ("text", "") of a command line of Python; ("", "") of one that asks."""
    words = iter(argv[1:])
    for word in words:
        if word == "-" or not word.startswith("-"):
            return ("text", "") if word == "-" else ("file", word)
        if word.startswith("--"):
            if word == "--check-hash-based-pycs":
                next(words, "")
            continue
        for place, letter in enumerate(word[1:], 2):
            if letter == "c":
                return "text", ""
            if letter == "m":
                return "module", word[place:] or next(words, "")
            if letter in "WX":
                if not word[place:]:
                    next(words, "")
                break
    return "", ""


def is_of(name, listed):
    """Whether a module or a program is one of those listed, or within one."""
    return any(name == one or name.startswith(one + ".") for one in listed)


def numbered(environ):
    """The names of the variables that number this process as a rank; () where nothing does."""
    for rank, size, local, shown_by in NUMBERS:
        if environ.get(rank, "").isdigit() and (not shown_by or shown_by in environ):
            return rank, size, local
    return ()


def part(kind, name, environ, programs):
    """What a Python is: "rank", "launcher", or "" for any other command."""
    called = os.path.basename(name) if kind == "file" else name
    if is_of(called, LAUNCHERS) or "/torch/distributed/" in name or "/deepspeed/launcher/" in name:
        return "launcher"
    if not numbered(environ) or is_of(called, TOOLS) or "/site-packages/ray/" in name or kind == "":
        return ""
    if OF_AN_AGENT in environ:  # its own child: agents hand this on to ranks and to nobody else
        return "rank"
    if programs:
        return "rank" if any(called == one or name.endswith("/" + one) for one in programs) else ""
    is_tool = kind == "file" and os.path.dirname(name) == os.path.dirname(sys.executable)
    return "" if kind == "text" or is_tool else "rank"


def hand_on():
    """Run the sitecustomize that this one stands before."""
    import importlib.machinery

    paths = [path for path in sys.path if os.path.abspath(path or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        import importlib.util

        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def note(name, **what):
    """Leave a note for the node agent, of one line."""
    import json

    with open(os.path.join(HERE, "..", "ranks", name), "a") as file:
        file.write(json.dumps(what) + "\n")


def command_line():
    """The words that this Python was started with."""
    with open("/proc/self/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def become(argv, settings):
    """Be the reference trainee; never returns."""
    import json
    import runpy

    names = numbered(os.environ)
    own = dict(settings["trainee"], argv=argv[:40], names=names, started=time.time(), hook=HERE)
    os.environ["PREFLIGHT_SETTINGS"] = json.dumps(own)
    os.environ["PREFLIGHT_RECORDS"] = os.path.join(HERE, "..", "ranks", "rank-%d-%d" % (os.getpid(), time.time_ns()))
    os.environ["PREFLIGHT_TRAINEE"] = str(os.getpid())  # what it starts is no rank
    try:
        runpy.run_path(os.path.join(HERE, "trainee.py"))
    finally:
        os._exit(70)


def look():
    """Look at this process, and be the trainee where it is a rank."""
    if "PREFLIGHT_TRAINEE" in os.environ or not os.path.exists(os.path.join(HERE, "settings.json")):
        return
    argv = command_line()
    kind, name = main_of(argv)
    if not numbered(os.environ) and not is_of(os.path.basename(name) if kind == "file" else name, LAUNCHERS):
        return
    import json

    with open(os.path.join(HERE, "settings.json")) as file:
        settings = json.load(file)
    what = part(kind, name, os.environ, settings["programs"])
    if what == "launcher":
        note("launcher-%d" % os.getpid(), launcher=argv[:80], pid=os.getpid(), parent=os.getppid(), at=time.time())
    elif what == "rank":
        become(argv, settings)


if __name__ == "sitecustomize":
    hand_on()
    look()
