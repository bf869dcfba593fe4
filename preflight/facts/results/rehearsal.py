"""What did a rehearsal of the user's own start show? The section of that name in report.json."""

from __future__ import annotations

from preflight.facts.results.measured import Measured


class Cause(Measured, frozen=True, kw_only=True, omit_defaults=True):
    """Something that does not hold, with its nodes and the line of the script: `about` is a word of ABOUT.

    `names` are the variables, options and programs that it is about, as they are written.
    """

    about: str
    nodes: tuple[str, ...]
    message: str
    fix: str = ""
    where: tuple[tuple[str, int], ...] = ()
    names: tuple[str, ...] = ()
    is_advisory: bool = False
    is_unmeasured: bool = False


class RehearsedScript(Measured, frozen=True, kw_only=True, omit_defaults=True):
    """A script on its node: `code` is none where it was still running, `line` the last that was reached."""

    node: str
    file: str
    folder: str
    code: int | None = None
    line: int = 0


class RehearsedRank(Measured, frozen=True, kw_only=True, omit_defaults=True):
    """A rank as it came: `seconds` is what each stage took, `stage` how far it got."""

    rank: int
    world_size: int
    node: str
    stage: str
    interpreter: str
    torch: str = ""
    program: str = ""
    master: str = ""
    limits: dict[str, int] = {}
    devices: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    seconds: dict[str, float] = {}
    error: str = ""


class Rehearsal(Measured, frozen=True, kw_only=True, omit_defaults=True):
    """All of it; `unjudged` holds what could not be judged of a node, and why: about -> node -> reason."""

    scripts: tuple[RehearsedScript, ...]
    ranks: tuple[RehearsedRank, ...]
    causes: tuple[Cause, ...]
    unjudged: dict[str, dict[str, str]] = {}
    node_names: tuple[str, ...] = ()
    backend: str = ""
    seconds: float = 0.0


# What is judged, in the order in which one is needed for the next.
ABOUT = ("scripts", "ranks", "alike", "limits", "training", "pace")
