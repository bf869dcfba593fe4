"""What do the owners of launch files refuse: torch, accelerate, DeepSpeed, transformers, hydra and Ray, as installed?

This text is sent to the job's Python. It reads questions from stdin, one JSON document, and prints an answer a line:
``{"id", "owner", "version", "refused"}``, or ``{"id", "absent"}`` where the owner is not there or gives no answer.
Each owner's own parser reads the words or the file, and nothing is started.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from importlib import metadata
from typing import Any

Question = dict[str, Any]

RUN, RENDEZVOUS = "torch.distributed.run", "torch.distributed.elastic.rendezvous"
# What an owner says of this machine and not of what it read.
OF_THIS_MACHINE = re.compile(r"available|install|supported device|in use|\bCUDA\b|No such file|does not exist|import")
# Stands for the parts of a command that only a run would tell.
STAND_IN = "1"
LIMIT = 400


class RefusesToStart(BaseException):
    """Something would have been started."""


def torchrun(question: Question) -> None:
    """torch.distributed.run's own parser, and what it makes of the options before anything is started."""
    run = importlib.import_module(RUN)
    for name in [name for name in os.environ if name.startswith("PET_")]:
        del os.environ[name]
    os.environ.update(question["environment"])
    if question["owner"] == "torch.distributed.launch":  # with options of its own
        args = importlib.import_module(question["owner"]).parse_args(question["words"])
    else:
        args = run.get_args_parser().parse_args(question["words"])
    if question["whole"]:
        configured(run, args)


def configured(run: Any, args: Any) -> None:
    """The launch that torchrun would start: with the GPUs of another machine, so they are not counted here."""
    if str(getattr(args, "nproc_per_node", "")) in ("auto", "gpu", "cpu", "xpu"):
        args.nproc_per_node = "1"
    args.logs_specs = None
    config = run.config_from_args(args)[0]
    rendezvous = importlib.import_module(RENDEZVOUS)
    rendezvous.RendezvousParameters(
        config.rdzv_backend, config.rdzv_endpoint, config.run_id, config.min_nodes, config.max_nodes
    )
    if config.rdzv_endpoint and args.rdzv_backend != "static":
        utils = importlib.import_module(f"{RENDEZVOUS}.utils")
        utils.parse_rendezvous_endpoint(config.rdzv_endpoint, default_port=29400)


def accelerate(question: Question) -> None:
    """accelerate's own parser, its reader of the configuration, and what it hands on to torchrun."""
    launch: Any = importlib.import_module("accelerate.commands.launch")
    utils: Any = importlib.import_module("accelerate.utils.launch")
    with tempfile.TemporaryDirectory() as folder:
        args = launch.launch_command_parser().parse_args(question["words"])
        if not question["whole"] or (args.config_file and not question["config"]):
            return
        args.config_file = None
        if question["config"]:
            args.config_file = os.path.join(folder, "given.json" if question["is_json"] else "given.yaml")
            with open(args.config_file, "w", encoding="utf-8") as stream:
                stream.write(question["config"])
        launch.default_config_file = os.path.join(folder, "none.yaml")
        answer = launch._validate_launch_command(args)  # noqa: SLF001 -- what `accelerate launch` itself calls before it starts
        args = answer[0] if isinstance(answer, tuple) else answer
        utils.is_port_in_use = lambda _port: False
        if args.use_deepspeed:
            utils.prepare_deepspeed_cmd_env(args)
        elif args.multi_gpu or args.use_fsdp:
            utils.prepare_multi_gpu_env(args)
            run = importlib.import_module(RUN)
            parser = run.get_args_parser()
            configured(run, utils._filter_args(args, parser, ["x"]))  # noqa: SLF001 -- as above


def deepspeed(question: Question) -> None:
    """The parser of the `deepspeed` command."""
    importlib.import_module("deepspeed.launcher.runner").parse_args(question["words"])


def deepspeed_config(question: Question) -> None:
    """DeepSpeed's own class of its configuration; figures that the trainer fills in, and the batch sizes, left out."""
    config = without_auto(json.loads(question["config"]))
    for name in ("train_batch_size", "gradient_accumulation_steps"):
        config.pop(name, None)
    config["train_micro_batch_size_per_gpu"] = 1
    importlib.import_module("deepspeed.runtime.config").DeepSpeedConfig(config)


def without_auto(value: Any) -> Any:
    """A configuration without what the trainer fills in."""
    if not isinstance(value, dict):
        return value
    return {name: without_auto(held) for name, held in value.items() if held != "auto"}


def transformers(question: Question) -> None:
    """The parser that transformers makes of TrainingArguments; what it does not know is the program's own."""
    theirs = importlib.import_module("transformers")
    theirs.HfArgumentParser(theirs.TrainingArguments).parse_known_args(question["words"])


def hydra(question: Question) -> None:
    """Hydra's grammar of overrides."""
    parser = importlib.import_module("hydra.core.override_parser.overrides_parser").OverridesParser
    parser.create().parse_overrides(question["words"])


def ray(question: Question) -> None:
    """The parser of `ray start`."""
    scripts = importlib.import_module("ray.scripts.scripts")
    scripts.start.make_context("ray start", list(question["words"]))


# How each reads, the package whose version counts, and the modules that it needs.
OWNERS: dict[str, tuple[Callable[[Question], None], str, tuple[str, ...]]] = {
    "torchrun": (torchrun, "torch", (RUN, RENDEZVOUS)),
    "torch.distributed.launch": (torchrun, "torch", (RUN, RENDEZVOUS, "torch.distributed.launch")),
    "accelerate": (accelerate, "accelerate", ("accelerate.commands.launch", "accelerate.utils.launch", RUN)),
    "deepspeed": (deepspeed, "deepspeed", ("deepspeed.launcher.runner",)),
    "deepspeed config": (deepspeed_config, "deepspeed", ("deepspeed.runtime.config",)),
    "transformers": (transformers, "transformers", ("transformers",)),
    "hydra": (hydra, "hydra-core", ("hydra.core.override_parser.overrides_parser",)),
    "ray": (ray, "ray", ("ray.scripts.scripts",)),
}


def refusal(read: Callable[[Question], None], question: Question) -> str:
    """Why an owner refuses what it is given, "" where it takes it. Raises what says nothing about either."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            read(question)
        except SystemExit as end:  # argparse has printed its usage, then the reason
            said = errors.getvalue().rpartition("error: ")[2] if end.code else ""
        except (ValueError, AssertionError) as error:  # pydantic's is a ValueError
            said = str(error) if question["whole"] else ""
        except Exception as error:
            if not is_of(error, "hydra", "click"):
                raise
            said = getattr(error, "message", "") or str(error)
        else:
            return ""
    said = " ".join(line for line in said.split("\n") if "For further information" not in line)
    said = " ".join(said.split())[:LIMIT]
    is_of_stand_in = not question["whole"] and f"'{STAND_IN}'" in said
    return "" if OF_THIS_MACHINE.search(said) or is_of_stand_in else said


def is_of(error: Exception, *packages: str) -> bool:
    """Whether an exception is of one of these packages."""
    return any(kind.__module__.partition(".")[0] in packages for kind in type(error).__mro__)


def no_start(*_words: Any, **_options: Any) -> None:
    """In the place of everything that starts a process."""
    raise RefusesToStart


def main() -> int:
    """Answer every question; what an owner prints by itself is kept apart from the answers."""
    questions = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    popen = subprocess.Popen.__init__
    environment = dict(os.environ)
    for question in questions:
        read, package, modules = OWNERS[question["owner"]]
        answer: dict[str, Any] = {"id": question["id"]}
        try:
            version = metadata.version(package)
            with contextlib.redirect_stderr(io.StringIO()):
                for module in modules:  # some ask the machine for its GPUs while they are imported
                    importlib.import_module(module)
            subprocess.Popen.__init__ = no_start  # type: ignore[method-assign]
            answer.update(owner=package, version=version, refused=refusal(read, question))
        except (Exception, SystemExit, RefusesToStart) as error:  # not there, of another version, or would start
            answer["absent"] = f"{type(error).__name__}: {error}"[:LIMIT]
        finally:
            subprocess.Popen.__init__ = popen  # type: ignore[method-assign]
            os.environ.clear()
            os.environ.update(environment)
        print(json.dumps(answer), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
