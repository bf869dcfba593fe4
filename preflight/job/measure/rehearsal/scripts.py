"""Does the script of every node come to its ranks, or at which line does it stop?"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from preflight.facts.results.rehearsal import Cause
from preflight.job.start.rehearsal.lines import (
    NOT_FOUND,
    NOT_RUN,
    Line,
    failed_lines,
    last_line,
    last_words,
    text_at,
    whole_at,
    without_noise,
)
from preflight.job.start.rehearsal.story import NodeStory, Story
from preflight.launch.cast import Cast, Script
from preflight.reach.hosts import fold
from preflight.said import said
from preflight.said.redact import without_secrets

# What starts Python where our hook does not come -> what to add for the rehearsal.
HIDDEN = (
    (r"\b(?:docker|podman|nerdctl)\s+(?:container\s+)?run\b(?!.*PYTHONPATH)", "-e PYTHONPATH --ipc=host"),
    (r"\b(?:docker|podman|nerdctl)\s+(?:container\s+)?exec\b(?!.*PYTHONPATH)", "-e PYTHONPATH"),
    (
        r"\b(?:apptainer|singularity)\b.*--(?:cleanenv|containall)\b(?!.*PYTHONPATH)",
        "--env PYTHONPATH=$PYTHONPATH",
    ),
    (r"--export[= ]+NONE\b", "--export=ALL"),
    (r"\benv\s+(?:-i|--ignore-environment)\b(?!.*PYTHONPATH)", "PYTHONPATH=$PYTHONPATH behind `env -i`"),
    (r"\bsudo\b(?!.*PYTHONPATH|.*-E\b)", "--preserve-env=PYTHONPATH behind sudo"),
    (r"\bpython[0-9.]*\s+(?:-\S+\s+)*-[a-zA-Z]*[IES]", "no -I, -E or -S for python"),
    (r"\bPYTHONPATH=(?!\S*\$\{?PYTHONPATH)", "`:$PYTHONPATH` behind what PYTHONPATH is set to"),
    (r"\bmpi(?:run|exec)\b(?=.*\s-x\s)(?!.*PYTHONPATH)", "-x PYTHONPATH"),
)
LOGINS = frozenset({"ssh", "rsh", "pdsh", "clush", "pssh", "parallel-ssh", "kubectl"})  # they hand no variable on
MAYBE_HIDDEN = (
    (r"^\s*(?:export\s+)?PYTHONPATH=(?!\S*\$\{?PYTHONPATH)", "`:$PYTHONPATH` behind what PYTHONPATH is set to"),
    (r"\bunset\s+PYTHONPATH\b", "no `unset PYTHONPATH`"),
    (r"\bmpi(?:run|exec)\b", "-x PYTHONPATH"),
    (r"\bssh\b", "PYTHONPATH=$PYTHONPATH before the command for the other node"),
)
NODE = "\0node\0"  # in a message, until all nodes with the same are known
ACTORS = re.compile(r"\bray\s+(?:start|job|up)\b|\bvllm\s+serve\b|\bsglang\b")


def judged(story: Story, cast: Cast) -> Iterator[Cause]:
    """Each place where a script did not come to its ranks, or where a command cannot be run, with its nodes."""
    found: dict[Cause, list[str]] = {}
    for name, script in cast.scripts.items():
        for cause in _of_node(story.nodes[name], script, story):
            found.setdefault(cause, []).append(name)
    for cause, names in found.items():
        message = cause.message.replace(NODE, fold(names))
        yield msgspec.structs.replace(cause, nodes=tuple(names), message=message)


def _of_node(node: NodeStory, script: Script, story: Story) -> Iterator[Cause]:
    if node.failure:
        yield Cause(about="scripts", nodes=(), message=node.failure, is_unmeasured=True)
    elif _is_over_before(node):
        yield _before_script(node)
    else:
        yield from _of_file(node, script)
        yield from _of_script(node, script, story)


def _of_file(node: NodeStory, script: Script) -> Iterator[Cause]:
    """The node lacks the script, or has another text under its name. What is submitted is copied by the scheduler."""
    if node.began is None or script.is_batch:
        return
    what = ""
    if node.began.path != script.path:
        what = said(
            "{path} is not on {NODE}: the text from here was run there, in {folder}",
            script.path,
            NODE,
            node.began.folder,
        )
    elif node.began.differs:
        what = said("{path} on {NODE} is not the file that was given: that of the node was run", script.path, NODE)
    if what:
        fix = said("bring {name} to the same path on every node (scp, or a shared folder)", script.name)
        yield Cause(about="scripts", nodes=(), message=what, fix=fix, is_advisory=True)


def _is_over_before(node: NodeStory) -> bool:
    return node.output is not None and not node.output.has_begun


def _before_script(node: NodeStory) -> Cause:
    """The login ended, or went on to something else, before the script's first line."""
    printed = (node.output.err_before, node.output.out_before) if node.output else ()
    words = next(filter(None, map(without_noise, printed)), [])
    last = f": {without_secrets(words[-1])[:200]}" if words else ""
    how = said("ended with {code}", node.code) if node.code is not None else "did not come to its command"
    return Cause(
        about="scripts",
        nodes=(),
        message=said("the login shell on {NODE} {how} before the script began{last}", NODE, how, last),
        fix="look through ~/.bash_profile, ~/.profile and ~/.bashrc there for exit, exec, read and what fails",
    )


def _of_script(node: NodeStory, script: Script, story: Story) -> Iterator[Cause]:
    failed = failed_lines(node, script)
    stopped = last_line(node, script)
    has_own_reason = any(rank.error for rank in story.ranks) and bool(node.ranks)
    others = any(other.launched or other.ranks for other in story.nodes.values())
    if node.code and not has_own_reason:
        yield _stopped(node, stopped, has_trained=story.has_trained)
        failed = [line for line in failed if line != stopped]
    if node.code == 0 and not node.ranks and not node.launched and others and stopped:
        yield Cause(
            about="scripts",
            nodes=(),
            message=said(
                "the script on {NODE} ended with 0 at {command} and started no rank, as others did",
                NODE,
                stopped.command,
            ),
            where=((stopped.file, stopped.line),),
        )
    for line in failed:
        yield Cause(
            about="scripts",
            nodes=(),
            message=said(
                "{command} ended with {status} on {NODE}, and the script went on: {words}",
                line.command,
                line.status,
                NODE,
                _words(node, line),
            ),
            fix=_fix(line.status, line),
            where=((line.file, line.line),),
            is_advisory=any(rank.stage == "done" for rank in node.ranks.values()),
        )


def _stopped(node: NodeStory, line: Line | None, *, has_trained: bool) -> Cause:
    at = said("at {command}", line.command) if line else "at a line that its shell does not tell"
    status = line.status if line and line.status > 0 else node.code or 0
    words = _words(node, line)
    ended = said(" with {status}", status) + ("" if status == node.code else said(", and ended with {code}", node.code))
    after = "; the ranks were done by then, and what follows may need what the training writes" if has_trained else ""
    return Cause(
        about="scripts",
        nodes=(),
        message=said("the script on {NODE} stopped {at}{ended}", NODE, at, ended)
        + (f": {words}" if words else "")
        + after,
        fix=_fix(status, line),
        is_advisory=has_trained,
        where=((line.file, line.line),) if line else (),
        names=tuple(word.partition("=")[0] for word in line.text.split() if word in words.split()) if line else (),
    )


def _words(node: NodeStory, line: Line | None) -> str:
    """What was printed of that line, else what was printed last."""
    if node.output is not None and line is not None:
        marked = re.compile(rf": (?:line )?{line.line}: ")
        for text in reversed(node.output.err.splitlines()):
            if marked.search(text):
                return without_secrets(marked.split(text, 1)[1])[:300]
    return last_words(node)


def _fix(status: int, line: Line | None) -> str:
    if line is None:
        return ""
    if status == NOT_FOUND:
        return said(
            "install what {place} calls there, or load it before: its PATH on the other nodes leads to it", line.place
        )
    if status == NOT_RUN:
        return said("`chmod +x` what {place} calls there; a file system mounted with noexec runs nothing", line.place)
    return ""


def hidden(script: Script) -> tuple[int, str] | None:
    """The first line whose command starts Python where our hook does not come, and what to add there."""
    for number, text in enumerate(script.text.splitlines(), 1):
        if text.lstrip().startswith("#"):
            continue
        for pattern, words in (*HIDDEN, *MAYBE_HIDDEN):
            if re.search(pattern, text):
                return number, words
    return None


def refused(cast: Cast) -> Iterator[Cause]:
    """The commands of a job that would surely run the real program: the script is then not run at all."""
    for name, script in cast.scripts.items():
        lines = script.text.splitlines()
        places = {plan.where.line for plan in cast.plans if plan.where.file == script.name}
        sure = [(line, words) for line in sorted(places) for words in _hiding(whole_at(lines, line))]
        sure += [
            (plan.where.line, "PYTHONPATH=$PYTHONPATH before the command for the other node")
            for plan in cast.plans
            if plan.where.file == script.name
            and plan.wraps & LOGINS
            and "PYTHONPATH" not in f"{plan.command} {whole_at(lines, plan.where.line)}"
        ]
        # An assignment of its own line takes our folder away from every command behind it.
        for number, text in enumerate(lines, 1):
            if re.search(MAYBE_HIDDEN[0][0], text):
                sure.append((number, MAYBE_HIDDEN[0][1]))
        for line, words in sure[:1]:
            message = said(
                "the script was not run on {name}: its ranks start where our hook does not reach, so that "
                "the real program would run: {name2}:{line} (`{text_at}`)",
                name,
                script.name,
                line,
                text_at(lines, line),
            )
            fix = said("for the rehearsal add {words} at {name}:{line}", words, script.name, line)
            where = ((script.name, line),)
            yield Cause(about="ranks", nodes=(name,), message=message, fix=fix, where=where, is_unmeasured=True)


def _hiding(text: str) -> list[str]:
    return [words for pattern, words in HIDDEN if re.search(pattern, text)]


def stray(story: Story, cast: Cast) -> Iterator[Cause]:
    """The real program that ran without our hook, until it was seen and ended."""
    for name, node in story.nodes.items():
        if node.stray:
            script = cast.scripts.get(name)
            line = last_line(node, script) if script else None
            at = said(" at {command}", line.command) if line else ""
            where = ((line.file, line.line),) if line else ()
            message = said(
                "the real program ran on {name} without our hook{at}, and was ended: `{stray}`", name, at, node.stray
            )
            fix = "start it so that PYTHONPATH reaches it, for the rehearsal"
            yield Cause(about="ranks", nodes=(name,), message=message, fix=fix, where=where, is_unmeasured=True)


def unseen(story: Story, cast: Cast) -> Iterator[Cause]:
    """No rank reported on any node, though no script stopped: what was started has to be said, and is not measured."""
    for name, script in cast.scripts.items():
        node = story.nodes[name]
        line = last_line(node, script)
        found = hidden(script)
        where = f"{script.name}:{found[0]}" if found else line.command if line else script.name
        if ACTORS.search(script.text):
            message = said(
                "{name} starts actors and no ranks: whether the nodes joined is all that was rehearsed", script.name
            )
        elif node.code is None and not node.launched and line:
            message = said("the script on {name} was still at {command} when the time was over", name, line.command)
        elif node.launched:
            message = said(
                "no rank reported on {name}, though {shown} was started at {where}", name, _shown(node), where
            )
        else:
            message = said(
                "no rank reported on {name}: the ranks start where our hook does not reach ({where})", name, where
            )
        fix = said("for the rehearsal add {found} at {where}", found[1], where) if found else ""
        places = ((script.name, found[0]),) if found else ()
        yield Cause(about="ranks", nodes=(name,), message=message, fix=fix, where=places, is_unmeasured=True)


def _shown(node: NodeStory) -> str:
    words = node.launched[-1].launcher
    return f"`{without_secrets(' '.join(word.rpartition('/')[2] for word in words))[:160]}`"
