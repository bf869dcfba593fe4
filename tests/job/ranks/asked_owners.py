"""What do tests/data/said/ranked.txt list of the owners of launch files: what each is asked, and what is answered?"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any

from preflight.job.ranks import owners
from tests.instead import entries, instead

NAMES = (
    *(owners.RUN, owners.RENDEZVOUS, f"{owners.RENDEZVOUS}.utils", "torch.distributed.launch"),
    *("accelerate.commands.launch", "accelerate.utils.launch", "deepspeed.launcher.runner"),
    *("deepspeed.runtime.config", "transformers", "hydra.core.override_parser.overrides_parser", "ray.scripts.scripts"),
)
WORDS = ["--nnodes=2", "t.py"]


def shown(value: Any) -> str:
    """A value as it is handed on; of one of theirs what is known of it."""
    if isinstance(value, types.SimpleNamespace):
        return "(" + " ".join(f"{name}={shown(held)}" for name, held in sorted(vars(value).items())) + ")"
    return value.called if isinstance(value, Theirs) else repr(value)


class Theirs:
    """Whatever an owner has: it says how it is called, and gives what is there for that name."""

    def __init__(self, called: str, said: list[str], gives: dict[str, Any]) -> None:
        self.called, self.said, self.gives = called, said, gives

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Theirs(f"{self.called}.{name}", self.said, self.gives)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("called", "said", "gives"):
            self.__dict__[name] = value
        else:
            self.said.append(f"{self.called}.{name} = {shown(value(29500)) if callable(value) else shown(value)}")

    def __call__(self, *words: Any, **named: Any) -> Any:
        shown_words = [*map(shown, words), *(f"{name}={shown(value)}" for name, value in named.items())]
        self.said.append(f"{self.called}({', '.join(shown_words)})")
        return self.gives.get(self.called.rpartition(".")[2], Theirs(f"{self.called}()", self.said, self.gives))


def asked(question: dict[str, Any], **gives: Any) -> list[str]:
    """What its owner is asked, where its functions give this."""
    said: list[str] = []
    short = {name: name.rpartition(".")[2] for name in NAMES}
    theirs = {name: Theirs(short[name] if "commands" not in name else "commands", said, gives) for name in NAMES}
    usual = {"whole": True, "words": WORDS, "environment": {}, "config": "", "is_json": False, **question}
    with entries("sys.modules", theirs), entries("os.environ", {"PET_NNODES": "3", "HOME": "/x"}):  # type: ignore[arg-type]
        owners.OWNERS[question["owner"]][0](usual)
        said.append(f"with {sorted(name for name in os.environ if name.startswith(('PET_', 'OURS')))}")
    return said


def of_questions() -> Iterator[str]:
    """Which functions of an owner are called, with what, and what becomes of its own options."""
    config = types.SimpleNamespace(rdzv_backend="c10d", rdzv_endpoint="", run_id="r", min_nodes=1, max_nodes=2)
    for owner, whole in product(("torchrun", "torch.distributed.launch"), (True, False)):
        for count, backend, endpoint in (
            ("auto", "static", "a:1"),
            ("gpu", "c10d", "a:1"),
            ("cpu", "c10d", ""),
            ("xpu", "static", ""),
            ("8", "c10d", "b"),
        ):
            args = types.SimpleNamespace(nproc_per_node=count, rdzv_backend=backend)
            given = types.SimpleNamespace(**{**vars(config), "rdzv_endpoint": endpoint})
            question = {"owner": owner, "whole": whole, "environment": {"OURS": "1", "PET_OURS": "2"}}
            said = asked(question, parse_args=args, config_from_args=(given, None, None))
            yield f"{owner} {whole} {count} {backend} {endpoint}: {' | '.join(said)}"
    for whole, file, text, is_json, kind, is_pair in (
        (False, None, "", False, {}, False),
        (True, "c.yaml", "", False, {}, False),
        (True, "c.yaml", "a: 1\n", False, {"multi_gpu": True}, True),
        (True, None, "{}", True, {"use_fsdp": True}, False),
        (True, None, "", False, {"use_deepspeed": True}, True),
        (True, None, "", False, {}, True),
    ):
        args = types.SimpleNamespace(
            config_file=file, **{"multi_gpu": False, "use_fsdp": False, "use_deepspeed": False, **kind}
        )
        question = {"owner": "accelerate", "whole": whole, "config": text, "is_json": is_json}
        with tempfile.TemporaryDirectory() as folder:
            with instead(tempfile, "TemporaryDirectory", gives=contextlib.nullcontext(folder)):
                said = asked(
                    question,
                    parse_args=args,
                    _validate_launch_command=(args, {}, False) if is_pair else args,
                    _filter_args=types.SimpleNamespace(nproc_per_node="2", rdzv_backend="static"),
                    config_from_args=(config, None, None),
                )
            files = {one.name: one.read_text() for one in Path(folder).iterdir()}
            lines = " | ".join(said).replace(folder, "FOLDER")
        yield f"accelerate {whole} {file} {text!r} {kind} {is_pair}: {lines} {files}"
    told = {"train_batch_size": 8, "gradient_accumulation_steps": 2, "zero_optimization": {"stage": "auto"}}
    for owner in ("deepspeed", "deepspeed config", "transformers", "hydra", "ray"):
        yield f"{owner}: {' | '.join(asked({'owner': owner, 'config': json.dumps(told)}))}"


def of_answers() -> Iterator[str]:
    """What the program that asks owners prints, whatever they do: refuse, print, start a process, or are not there."""

    def reads(question: dict[str, Any]) -> None:
        os.environ["LEFT"] = "x"
        print("of the owner")
        if question["words"] == ["starts"]:
            subprocess.Popen(["true"])
        if question["words"] == ["ends"]:
            raise SystemExit(2)
        if question["words"] == ["fails"]:
            raise RuntimeError("y" * 500)
        if question["words"]:
            raise ValueError(f"no {question['words'][0]}, with {os.environ.get('LEFT')}")

    rows = {"here": (reads, "torch", ("json",)), "lost": (reads, "nowhere", ()), "old": (reads, "torch", ("nowhere",))}
    asked_for = [("here", []), ("here", ["x"]), ("here", ["starts"]), ("here", ["ends"]), ("here", ["fails"])]
    questions = [
        {"id": place, "owner": owner, "words": words, "whole": True}
        for place, (owner, words) in enumerate([*asked_for, ("lost", []), ("old", []), ("here", ["z"])])
    ]
    popen, environment = subprocess.Popen.__init__, dict(os.environ)
    said: list[str] = []

    def version(package: str) -> str:
        if package == "nowhere":
            raise metadata.PackageNotFoundError(package)
        return f"1.0 of {package}"

    answers = io.StringIO()

    def opened(descriptor: str, mode: str) -> io.StringIO:
        said.append(f"writes to {descriptor} as {mode}")
        return answers

    with (
        warnings.catch_warnings(),
        instead(owners, "OWNERS", rows),
        instead(metadata, "version", version),
        instead(sys, "stdin", io.StringIO(json.dumps(questions))),
        instead(os, "dup", lambda number: f"a copy of {number}"),
        instead(os, "fdopen", opened),
        instead(os, "dup2", lambda source, target: said.append(f"{target} becomes {source}")),
        instead(logging, "disable", lambda level: said.append(f"logs nothing up to {level}")),
        instead(warnings, "simplefilter", lambda what: said.append(f"warnings: {what}")),
        contextlib.redirect_stdout(io.StringIO()) as out,
    ):
        code = owners.main()
        is_same = subprocess.Popen.__init__ is popen
        subprocess.Popen.__init__ = popen  # type: ignore[method-assign]
    yield f"{code} {said} {is_same} {dict(os.environ) == environment} {out.getvalue()!r}"
    yield from answers.getvalue().splitlines()
