"""Which Python of the user's script is a rank? It becomes the reference trainee; every other goes on as it is.

Sent to the nodes as sitecustomize.py, first in PYTHONPATH, so that any Python that the script starts comes by here. One
that was there already runs first. Launchers only leave a note of the words that they were started with.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, NoReturn

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
BY_ACCELERATE = "ACCELERATE_MIXED_PRECISION"  # which numbers no process where it starts only one
LAUNCHERS = (
    *("torchrun", "torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic", "accelerate"),
    *("accelerate-launch", "accelerate.commands", "deepspeed", "deepspeed.launcher", "ds", "ds_ssh", "ray"),
    *("horovodrun", "colossalai", "llamafactory-cli"),
)
TOOLS = (
    *("pip", "pip3", "conda", "mamba", "venv", "ensurepip", "virtualenv", "poetry", "uv", "pipx", "pytest", "wandb"),
    *("huggingface-cli", "hf", "modelscope", "gsutil", "aws", "tensorboard", "jupyter", "ipython", "nvitop"),
    *("gpustat", "json.tool", "http.server", "site", "sysconfig", "compileall", "zipfile"),
)


def main_of(argv: list[str]) -> tuple[str, str]:
    """("file", path), ("module", name) or ("text", "") of a command line of Python; ("", "") of one that asks."""
    words = iter(argv[1:])
    for word in words:
        if word == "-" or not word.startswith("-"):
            return ("text", "") if word == "-" else ("file", word)
        if word.startswith("--"):
            if word == "--check-hash-based-pycs":
                next(words, None)
            continue
        for place, letter in enumerate(word[1:], 2):
            if letter == "c":
                return "text", ""
            if letter == "m":
                return "module", word[place:] or next(words, "")
            if letter in "WX":
                if not word[place:]:
                    next(words, None)
                break
    return "", ""


def is_of(name: str, listed: Iterable[str]) -> bool:
    """Whether a module or a program is one of those listed, or within one."""
    return any(name == one or name.startswith(one + ".") for one in listed)


def numbered(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the variables that number this process as a rank; () where nothing does."""
    for rank, size, local, shown_by in NUMBERS:
        if environ.get(rank) and (not shown_by or shown_by in environ):
            return rank, size, local
    return ()


def part(kind: str, name: str, environ: Mapping[str, str], programs: list[str]) -> str:
    """What a Python is: "rank", "launcher", or "" for any other command."""
    called = os.path.basename(name) if kind == "file" else name
    if is_of(called, LAUNCHERS) or "/torch/distributed/" in name or "/deepspeed/launcher/" in name:
        return "launcher"
    if is_of(called, TOOLS) or "/site-packages/ray/" in name or kind == "":
        return ""
    if OF_AN_AGENT in environ:  # its own child: agents hand this on to ranks and to nobody else
        return "rank"
    if programs:  # without a number too: a variable that is not exported reaches nobody
        is_known = any(called == one or name.endswith("/" + one) for one in programs)
        return "rank" if is_known and (len(programs) == 1 or trains(name)) else ""
    if not numbered(environ):
        return "rank" if kind != "text" and BY_ACCELERATE in environ else ""
    is_tool = kind == "file" and os.path.dirname(name) == os.path.dirname(sys.executable)
    return "" if kind == "text" or is_tool else "rank"


def trains(name: str) -> bool:
    """Whether a program is one that trains, by its name or by what it imports: one of several may only prepare."""
    if any(word in os.path.basename(name).lower() for word in ("train", "tune", "sft", "dpo", "grpo", "ppo")):
        return True
    try:
        with open(name, errors="replace") as file:
            text = file.read(1 << 18)
    except OSError:
        return False
    return any(word in text for word in ("import torch", "from torch", "accelerate", "deepspeed", "lightning", "trl"))


def hand_on() -> None:
    """Run the sitecustomize that this one stands before."""
    import importlib.machinery

    paths = [path for path in sys.path if os.path.abspath(path or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", paths)
    if spec is not None and spec.loader is not None:
        import importlib.util

        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def note(name: str, **what: Any) -> None:
    """Leave a note for the node agent, of one line."""
    import json

    with open(os.path.join(HERE, "..", "ranks", name), "a") as file:
        file.write(json.dumps(what) + "\n")


def tell_of_folders(event: str, words: tuple[Any, ...]) -> None:
    """Note the folder that torch's agent makes for logs and leaves behind."""
    if event == "tempfile.mkdtemp" and os.path.basename(words[0]).startswith("torchelastic_"):
        note(f"launcher-{os.getpid()}", made=words[0])


def command_line() -> list[str]:
    """The words that this Python was started with."""
    with open("/proc/self/cmdline", "rb") as file:
        return [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]


def become(argv: list[str], program: list[str], settings: dict[str, Any]) -> NoReturn:
    """Be the reference trainee; never returns."""
    import json
    import runpy

    names = numbered(os.environ)
    own = dict(settings["trainee"], argv=argv[:40], program=program, names=names, started=time.time(), hook=HERE)
    os.environ["PREFLIGHT_SETTINGS"] = json.dumps(own)
    os.environ["PREFLIGHT_RECORDS"] = os.path.join(HERE, "..", "ranks", f"rank-{os.getpid()}-{time.time_ns()}")
    os.environ["PREFLIGHT_TRAINEE"] = str(os.getpid())  # what it starts is no rank
    try:
        runpy.run_path(os.path.join(HERE, "trainee.py"))
    finally:
        os._exit(70)  # the trainee leaves by itself: whatever came here, the real program is not run


def look() -> None:
    """Look at this process, and be the trainee where it is a rank."""
    if "PREFLIGHT_TRAINEE" in os.environ or not os.path.exists(os.path.join(HERE, "settings.json")):
        return
    argv = command_line()
    kind, name = main_of(argv)
    import json

    with open(os.path.join(HERE, "settings.json")) as file:
        settings = json.load(file)
    what = part(kind, name, os.environ, settings["programs"])
    if what == "launcher":
        sys.addaudithook(tell_of_folders)
        note(f"launcher-{os.getpid()}", launcher=argv[:80], pid=os.getpid(), parent=os.getppid(), at=time.time())
    elif what == "rank":
        become(argv, [kind, name], settings)


if __name__ == "sitecustomize":
    hand_on()
    look()
