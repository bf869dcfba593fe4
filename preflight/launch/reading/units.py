"""What does a unit of systemd run, as a script of the same lines?"""

from __future__ import annotations

import re

from preflight.launch.launchers import launch_words

STARTS = re.compile(r"ExecStart(?:Pre|Post)?=[-@:+!]*(?P<command>.*)")
SETS = re.compile(r"(?P<key>Environment|EnvironmentFile|WorkingDirectory)=[-!]*(?P<value>.+)")
AS_BASH = {"Environment": "export", "EnvironmentFile": "source", "WorkingDirectory": "cd"}
SPECIFIER = re.compile(r"%([iIjHn%])")
HELD = {"H": "$(hostname)", "%": "%"}  # what names the instance comes from whoever starts it, as an argument does


def is_unit(text: str) -> bool:
    """Whether a text is a unit whose command starts a job."""
    if not re.search(r"(?m)^\[Service\]", text):
        return False
    started = "\n".join(found["command"] for found in re.finditer(rf"(?m)^{STARTS.pattern}(?:\\\n.*)*", text))
    return any(word in started for word in launch_words())


def as_script(text: str) -> str:
    """The commands and variables as bash reads them, line by line."""
    lines: list[str] = []
    goes_on = False
    for line in text.split("\n"):
        started, sets = STARTS.match(line), SETS.match(line)
        if goes_on:
            lines.append(line)
        elif started:
            lines.append(started["command"])
        else:
            lines.append(f"{AS_BASH[sets['key']]} {sets['value']}" if sets else "")
        goes_on = (goes_on or started is not None) and line.rstrip().endswith("\\")
    return SPECIFIER.sub(lambda found: HELD.get(found[1], "$1"), "\n".join(lines))
