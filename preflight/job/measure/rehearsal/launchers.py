"""Were the launchers of all nodes started with words that fit each other, as they really arrived there?"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from preflight.facts.results.rehearsal import Cause
from preflight.job.start.rehearsal.story import Story
from preflight.launch.cast import Cast
from preflight.said import joined, said

# What must be the same on every node, and what must be another on each, by the names of torchrun and accelerate.
SAME = {
    "nnodes": "number of nodes",
    "num-machines": "number of nodes",
    "num-processes": "number of processes",
    "nproc-per-node": "number of processes on a node",
    "master-addr": "address of rank 0",
    "main-process-ip": "address of rank 0",
    "master-port": "port of rank 0",
    "main-process-port": "port of rank 0",
    "rdzv-endpoint": "endpoint of the rendezvous",
    "rdzv-id": "id of the rendezvous",
    "rdzv-backend": "kind of rendezvous",
}
OWN = ("node-rank", "machine-rank")
OPTION = re.compile(r"--([a-z][a-z0-9_-]*)(?:=(.*))?", re.DOTALL)


def options(words: Sequence[str]) -> dict[str, str]:
    """The options of a launcher up to the program, with one spelling of each name."""
    found: dict[str, str] = {}
    place = 0
    while place < len(words):
        option = OPTION.fullmatch(words[place])
        if option:
            name = option[1].replace("_", "-")
            following = words[place + 1] if place + 1 < len(words) else ""
            if option[2] is not None:
                found[name] = option[2]
            elif following and not following.startswith("--") and not following.endswith(".py"):
                found[name] = following
            else:
                found[name] = ""
        elif words[place].endswith(".py") and place > 1:
            break
        place += 1
    return found


def judged(story: Story, cast: Cast) -> Iterator[Cause]:
    """What differs and must be the same, or is the same and must differ, of nodes that start by themselves."""
    given = {
        name: options(story.nodes[name].launched[0].launcher) for name in cast.scripts if story.nodes[name].launched
    }
    if len(given) < 2:
        return
    alone = tuple(name for name, held in given.items() if "standalone" in held)
    if len(alone) > 1:
        text = said("--standalone on {alone}: each node is a job of its own and trains alone", ", ".join(alone))
        fix = "leave --standalone out, and give --nnodes, --node_rank, --master_addr and --master_port"
        yield Cause(
            about="ranks", nodes=alone, message=text, fix=fix, where=_places(cast, alone), names=("--standalone",)
        )
        return
    for option, what in SAME.items():
        values = {name: held[option] for name, held in given.items() if option in held}
        if len(set(values.values())) > 1 and not _is_one_place(option, values):
            yield _differing(option, what, values, cast)
    for option in OWN:
        values = {name: held[option] for name, held in given.items() if option in held}
        for value, count in Counter(values.values()).items():
            if count > 1:
                nodes = tuple(name for name, held in values.items() if held == value)
                text = said(
                    "--{replace} {value} on {nodes}; wanted another on each node",
                    option.replace("-", "_"),
                    value,
                    ", ".join(nodes),
                )
                fix = said("give each node its own --{replace}, from 0", option.replace("-", "_"))
                where, names = _places(cast, nodes), (f"--{option}",)
                yield Cause(about="ranks", nodes=nodes, message=text, fix=fix, where=where, names=names)


def _is_one_place(option: str, values: Mapping[str, str]) -> bool:
    """Whether it is only the name of one address that differs: localhost on rank 0, say."""
    return (
        option in ("master-addr", "main-process-ip")
        and any(value in ("localhost", "127.0.0.1") for value in values.values())
        and len(set(values.values())) == 2
    )


def _differing(option: str, what: str, values: Mapping[str, str], cast: Cast) -> Cause:
    counts = Counter(values.values())
    common = counts.most_common(1)[0]
    odd = tuple(name for name, value in values.items() if value != common[0])
    nodes = odd if common[1] > 1 else tuple(values)
    listed = joined([said("{value} on {name}", value, name) for name, value in values.items()], ", ")
    shown = option.replace("-", "_")
    fix = said("give --{shown} the same value in the script of every node", shown)
    if option == "rdzv-id":
        fix = said(
            "write one value for --{shown} into the script: what each node draws for itself ($RANDOM, date) differs",
            shown,
        )
    message, where = f"{what} (--{shown}): {listed}", _places(cast, nodes)
    return Cause(about="ranks", nodes=nodes, message=message, fix=fix, where=where, names=(f"--{option}",))


def _places(cast: Cast, nodes: Sequence[str]) -> tuple[tuple[str, int], ...]:
    files = {cast.scripts[name].name for name in nodes if name in cast.scripts}
    return tuple(dict.fromkeys((plan.where.file, plan.where.line) for plan in cast.plans if plan.where.file in files))
