"""How do pods rehearse, where nobody is connected to them: what do they carry, and what do their logs tell?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from preflight.job.start.rehearsal.over import ENDED
from preflight.job.start.rehearsal.run import OUT_OF_TIME, settings_of
from preflight.job.start.rehearsal.story import Began, NodeStory, Output, Story
from preflight.job.start.script import RANKS, script_of
from preflight.launch.cast import Cast, Script
from preflight.launch.manifests.rehearsal import MARK, PLACE
from preflight.launch.plan import Plan
from preflight.said.errors import HostError

PREFIXED = re.compile(r"\[pod/([^/\]]+)/([^\]]+)\] ?(.*)")  # as kubectl logs --prefix writes it
TOLD = re.compile(rf"{MARK} (\S+) (.*)")
KEPT_CHARACTERS = 64 << 10


def carried(programs: Sequence[str], *, seconds: float) -> dict[str, str]:
    """The files of the hook, by name."""
    settings = settings_of(programs, "auto", address="127.0.0.1", port=29500, seconds=seconds)
    return {
        "sitecustomize.py": (RANKS / "rehearsal" / "hook.py").read_text(encoding="utf-8"),
        "settings.json": json.dumps(settings).replace("{scratch}", f"{PLACE}/ranks").replace("{network}", ""),
        "trainee.py": script_of("rehearsal.rank").decode(),
    }


def heard(lines: Iterable[str], script: Script, plans: tuple[Plan, ...]) -> tuple[Story, Cast]:
    """What the logs of the pods tell, each pod a node, in the order in which they speak."""
    nodes: dict[str, NodeStory] = {}
    printed: dict[str, list[str]] = {}
    lasted = 0.0
    for line in lines:
        found = PREFIXED.match(line)
        name, text = (found[1], found[3]) if found else ("pod", line)
        node = nodes.setdefault(name, NodeStory(name, began=Began(script.path, "", False, 0.0)))
        told = TOLD.match(text)
        if told is None:
            printed.setdefault(name, []).append(text)
        elif told[1] == "ended":
            code, _, seconds = told[2].partition(" ")  # of several containers the one that failed counts
            node.code = node.code or (int(code) if code.isdigit() else None)
            lasted = max(lasted, float(seconds) if seconds.isdigit() else 0.0)
        else:
            with suppress(ValueError, HostError):  # a line that was cut: the others of it count
                node.take({"notes": [[told[1], json.loads(told[2])]]})
    for name, node in nodes.items():
        node.output = Output("", "\n".join(printed.get(name, ()))[-KEPT_CHARACTERS:], "", "", has_begun=True)
        starts = [rank.times["began"] for rank in node.ranks.values()] + [each.at for each in node.launched]
        node.began = Began(script.path, "", differs=False, at=min(starts, default=0.0))
    story = Story(nodes, seconds=lasted)
    has_ended = all(node.code is not None for node in nodes.values())
    story.why_over = ENDED if has_ended else OUT_OF_TIME
    return story, Cast(dict.fromkeys(nodes, script), tuple(nodes), plans)


def script_of_manifest(name: str) -> Script:
    """The manifest as the script of every pod."""
    path = Path(name)
    return Script(name, str(path.absolute()), path.read_text(encoding="utf-8"), ("sh",))
