"""What do tests/data/said/ranked.txt list of the hook that each Python passes: what it becomes, notes and hands on?"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
import types
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from preflight.job.ranks.rehearsal import hook
from tests.instead import entries, instead

RANK = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
NONE: dict[str, str] = {}
CLOCK = types.SimpleNamespace(time=lambda: 7.5, time_ns=lambda: 7_500_000_000)


class Left(BaseException):
    """The process has ended."""


def noted(folder: Path) -> list[str]:
    """What lies for the node agent, file by file."""
    lines = []
    for file in sorted((folder / "ranks").iterdir()):
        for told in file.read_text().splitlines():
            held = json.loads(told)
            if "launcher" in held:
                held["launcher"] = f"{len(held['launcher'])} {held['launcher'][:4]}"
            lines.append(f"{file.name}: {held}")
    return lines


def of_hooked() -> Iterator[str]:
    """What a Python becomes by its words and variables, and what is noted of launchers."""
    lines = (
        "python train.py --x",
        "torchrun --nnodes=2 t.py",
        "pip install x",
        "python -c pass",
        "python -m pkg.train",
    )
    for line, environ, is_set in product(
        (*lines, f"torchrun {' x' * 99}", f"python train.py{' x' * 50}"),
        (NONE, RANK, {**RANK, "PREFLIGHT_TRAINEE": "7"}),
        (True, False),
    ):
        if (not is_set or "PREFLIGHT_TRAINEE" in environ) and line != lines[0]:
            continue
        words = ["python", *line.split()] if not line.startswith("python") else line.split()
        with tempfile.TemporaryDirectory() as name:
            yield f"{line[:30]} {environ} {is_set}: {' | '.join(of_one(Path(name), words, environ, is_set=is_set))}"
    with (
        tempfile.TemporaryDirectory() as name,
        instead(hook, "HERE", f"{name}/hook"),
        instead(os, "getpid", gives=4711),
    ):
        for made in ("ranks", "hook"):
            (Path(name) / made).mkdir()
        for event, path in product(("tempfile.mkdtemp", "open"), ("/x/torchelastic_1", "/torchelastic_/other")):
            hook.tell_of_folders(event, (path, None))
        yield f"{noted(Path(name))}"
    with open("/proc/self/cmdline", "rb") as file:
        own = [os.fsdecode(word) for word in file.read().split(b"\0")]
    yield f"{hook.command_line() == own[:-1]} {own[-1:]}"
    yield from of_programs()
    yield from of_handing_on()


def of_one(folder: Path, words: list[str], environ: dict[str, str], *, is_set: bool) -> list[str]:
    """What a Python with these words does at the hook."""
    said: list[str] = []
    for made in ("ranks", "hook"):
        (folder / made).mkdir()
    if is_set:
        (folder / "hook" / "settings.json").write_text(json.dumps({"programs": [], "trainee": {"steps": 3}}))

    def runs(path: str) -> None:
        own = json.loads(os.environ["PREFLIGHT_SETTINGS"])
        own["argv"] = f"{len(own['argv'])} {own['argv'][:2]}"
        shown = [os.environ[name] for name in ("PREFLIGHT_RECORDS", "PREFLIGHT_TRAINEE")]
        said.append(f"runs {path} with {own} {shown}")
        raise ValueError

    def leaves(code: int) -> None:
        said.append(f"leaves with {code}")
        raise Left

    with (
        instead(hook, "HERE", f"{folder}/hook"),
        instead(hook, "command_line", gives=words),
        entries("os.environ", environ, clear=True),
        instead(runpy, "run_path", runs),
        instead(hook, "time", CLOCK),
        instead(os, "getpid", gives=4711),
        instead(os, "getppid", gives=4700),
        instead(os, "_exit", leaves),
        instead(sys, "addaudithook", lambda what: said.append(f"hears of {what.__name__}")),
    ):
        try:
            hook.look()
        except Left:
            said.append("ends")
    return [one.replace(str(folder), "FOLDER") for one in (*said, *noted(folder))]


def of_programs() -> Iterator[str]:
    """Which programs train, by what they import, and which belong to a launcher, by where they are."""
    words = ("import torch", "from torch import nn", "accelerate", "deepspeed", "lightning", "trl", "import json")
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "a.py"
        for text in (*words, f"{' ' * (1 << 18)}import torch", f"{' ' * ((1 << 18) - 12)}import torch"):
            file.write_text(text)
            yield f"{text.strip()} {len(text)}: {hook.trains(str(file))}"
        file.write_bytes(b"\xff\xfe import torch")
        yield f"{hook.trains(str(file))} {hook.trains(name)}"
    for path in (
        "/x/torch/distributed/run.py",
        "/x/deepspeed/launcher/launch.py",
        "/x/site-packages/ray/a.py",
        "/x/a.py",
    ):
        yield f"{path}: {[hook.part(kind, path, RANK, []) for kind in ('file', 'module', 'text')]}"
    for environ in ({"LOCAL_RANK": "0"}, {"PMI_RANK": "0"}, {"SLURM_PROCID": "0", "SLURM_STEP_ID": ""}):
        yield f"{environ}: {hook.numbered(environ)}"
    for near in (True, False):
        tool = f"{Path(sys.executable).parent if near else '/x'}/tool"
        yield f"{near}: {[hook.part(kind, tool, RANK, []) for kind in ('file', 'module')]}"


def of_handing_on() -> Iterator[str]:
    """Whose sitecustomize runs: the first behind the hook's own folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for made in ("hook", "none", "a", "b"):
            (folder / made).mkdir()
        for made in ("hook", "a", "b"):
            text = f"import builtins\nbuiltins.of_whom = {made!r}\n"
            (folder / made / "sitecustomize.py").write_text(text)
        for order in (("hook", "a", "b"), ("b", "hook", "a"), ("hook", "none"), ("none",), ("a", "hook")):
            found: Any = {"of_whom": None}
            with (
                instead(hook, "HERE", str(folder / "hook")),
                instead(sys, "path", [str(folder / one) for one in order]),
                entries("builtins.__dict__", found),
                instead(sys, "dont_write_bytecode", True),
            ):
                hook.hand_on()
                yield f"{order}: {__import__('builtins').of_whom}"
        source = Path(hook.__file__).read_text(encoding="utf-8")
        for called in ("sitecustomize", "__main__"):
            asked: list[str] = []
            names = {"__name__": called, "__file__": str(folder / "hook" / "sitecustomize.py")}
            with (
                instead(sys, "path", [str(folder / "a")]),
                entries("builtins.__dict__", found),
                instead(sys, "dont_write_bytecode", True),
                instead(os.path, "exists", asked.append),
            ):
                exec(compile(source, hook.__file__, "exec"), names)
                yield f"{called}: {__import__('builtins').of_whom} {[one.replace(name, 'FOLDER') for one in asked]}"
