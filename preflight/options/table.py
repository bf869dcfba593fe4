"""Which options are there, alike for pytest and for every verb?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OPTIONS: dict[str, dict[str, Any]] = {
    "hosts": {"metavar": "HOSTS", "help": "{forms}, node[01-16],gpu7, user@host:port or @hostfile"},
    "from": {"metavar": "RUN", "help": "judge what the run in this folder stored, and contact nobody"},
    "launch": {"metavar": "FILE", "action": "append", "default": [], "help": "a launch file of the job (repeatable)"},
    "python": {"metavar": "PATH", "help": "the job's interpreter on the nodes (python3; for local: this one)"},
    "wrap": {"metavar": "CMD", "default": "", "help": "a prefix on the node inside which the job lives"},
    "ssh-option": {"metavar": "WORDS", "default": "", "help": "further words for ssh"},
    "env": {"metavar": "NAME=VALUE", "action": "append", "default": [], "help": "a variable of the job (repeatable)"},
    "backend": {"metavar": "NAME", "default": "auto", "help": "auto, nccl or gloo"},
    "ranks-per-node": {"metavar": "N", "default": "auto", "help": "auto: its GPUs; without GPUs 1, or 2 on one node"},
    "launcher": {
        "metavar": "NAME",
        "default": None,
        "help": "what starts the reference job: {startable}; the first where none is given",
    },
    "model": {"metavar": "SIZE", "default": "tiny", "help": "of the reference job: tiny, small or medium"},
    "strategy": {"metavar": "NAME", "default": "ddp", "help": "of the reference job: ddp or fsdp"},
    "precision": {"metavar": "NAME", "default": "fp32", "help": "of the reference job: fp32, or bf16 (autocast)"},
    "accumulate": {"metavar": "N", "default": "1", "help": "parts of each batch, exchanged at the last: 1, 2 or 4"},
    "checkpoint-activations": {"action": "store_true", "help": "compute activations again instead of keeping them"},
    "checkpoint-dir": {
        "metavar": "DIR",
        "default": "",
        "help": "a folder that all nodes share: write, read and resume",
    },
    "drill": {"action": "store_true", "help": "also kill a rank in mid-run: do the others end, does torchrun restart"},
    "profile": {"metavar": "NAME", "default": "standard", "help": "quick, standard or full"},
    "deadline": {"metavar": "SECONDS", "type": float, "default": None, "help": "of the whole run (45/300/900)"},
    "settings": {"metavar": "FILE", "default": None, "help": "thresholds: preflight.toml"},
    "report-dir": {"metavar": "DIR", "default": None, "help": "where the report goes (reports/<run id>)"},
    "json": {"metavar": "FILE", "nargs": "?", "const": "-", "default": None, "help": "the result as JSON (to FILE)"},
    "shared": {
        "metavar": "PATH",
        "action": "append",
        "default": [],
        "help": "a folder that all nodes must share: a token is written, read everywhere and removed (repeatable)",
    },
    "same": {
        "metavar": "PATH",
        "action": "append",
        "default": [],
        "help": "a file or folder that must hold the same on every node: digests are compared (repeatable)",
    },
    "ssh-trust": {"action": "store_true", "help": "log in from node to node, as deepspeed, pdsh and mpirun do"},
    "fail-on-warn": {"action": "store_true", "help": "a warning ends with exit code 1"},
    "require-all": {"action": "store_true", "help": "what we may not read is an error"},
    "baseline": {"metavar": "RUN", "default": None, "help": "say what changed since this earlier run, or last-good"},
    "prune": {"action": "store_true", "help": "start bandwidth and training on the nodes that are good so far"},
    "force": {"action": "store_true", "help": "run jobs even on GPUs that other programs use"},
    "full-mesh": {"action": "store_true", "help": "every ordered pair, at any number of nodes"},
    "localize": {"action": "store_true", "help": "search for slow nodes even when the bandwidth is good"},
    "dry-run": {"action": "store_true", "help": "print hosts and commands; contact nobody"},
}

# Of the verb bench; under their canonical names, with which --preflight-bench-end is nobody else's, of pytest too.
BENCH_OPTIONS: dict[str, dict[str, Any]] = {
    "bench-op": {"metavar": "NAMES", "default": None, "help": "all, or collectives: all_reduce,broadcast,..."},
    "bench-begin": {"metavar": "SIZE", "default": None, "help": "the smallest size: 8, 512K, 32M, 1G"},
    "bench-end": {"metavar": "SIZE", "default": None, "help": "the largest size"},
    "bench-factor": {"metavar": "N", "default": None, "help": "from one size to the next (2)"},
    "bench-iters": {"metavar": "N", "default": None, "help": "iterations (as many as the median needs)"},
    "bench-warmup": {"metavar": "N", "default": None, "help": "untimed iterations of each size (2)"},
    "bench-dtype": {"metavar": "NAME", "default": None, "help": "type of the elements (float32)"},
    "bench-burn-in": {
        "action": "store_true",
        "help": "also what each GPU does alone: matrices, memory, way to the host",
    },
    "bench-mode": {"metavar": "NAME", "default": None, "help": "blocking (latency) or pipelined (bandwidth)"},
    "bench-scope": {
        "metavar": "NAME",
        "default": None,
        "help": "all ranks, intra (each node), inter (one a node) or rails",
    },
}
BENCH_SHORT = {"begin": "-b", "end": "-e", "factor": "-f"}


@dataclass(frozen=True)
class Chosen:
    """The options by their names with underscores, from whichever parser read them."""

    values: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        """The value of an option, or its default."""
        option = name.replace("_", "-")
        return self.values.get(name, {**OPTIONS, **BENCH_OPTIONS}[option].get("default"))


def for_pytest(attributes: dict[str, Any]) -> dict[str, Any]:
    """An option as pytest's help shows it: to list the launchers there, every start of pytest would import them."""
    return {
        **attributes,
        "help": attributes["help"].replace("{startable}", "see `preflight train --help`").replace("{forms}", "local"),
    }


def canonical(name: str) -> str:
    """The name that no other pytest plugin has."""
    return f"--preflight-{name}"


def destination(name: str) -> str:
    """Where a parser keeps the canonical option."""
    return f"preflight_{name.replace('-', '_')}"
