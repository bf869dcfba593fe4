"""Which lines, pasted into the shell from which the run was started, put its nodes right?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

import msgspec

from preflight.judge.ledger.findings import Command, Finding, Verdict
from preflight.reach.hosts import fold, parse_hosts
from preflight.reach.transport import written_for
from preflight.reach.transport.local import Local
from preflight.report.document import RunReport
from preflight.report.language import ENGLISH, Language
from preflight.report.material import in_language
from preflight.report.printable import printable
from preflight.said import said
from preflight.said.errors import UsageError

# What a shell reads as it stands, so that ssh's command needs no second pair of quotes.
PLAIN = re.compile(r"[A-Za-z0-9_./:=@%+,\- ]+")
OF_THAT_RUN = ("--from", "--report-dir")
BAD = (Verdict.FAIL, Verdict.WARN)
UNTRIED = "untested: no test of preflight has run it on this fault"


def here(report: RunReport, command: Command, language: Language = ENGLISH) -> str:
    """The line that runs `now` on its node; as a comment where it cannot be pasted safely or we know no way there."""
    if command.is_for_job:
        return next(_for_job([command], language), f"# {_comment(command.node)}: {_comment(command.now)}")
    return _marked(_line(report, command.node, command.now), command, language)


def with_lines(report: RunReport) -> RunReport:
    """The report, each command with the line to paste, for programs that read report.json."""
    if not any(finding.commands for finding in report.findings):
        return report
    found = [
        replace(one, commands=tuple(replace(command, paste=here(report, command)) for command in one.commands))
        if one.commands
        else one
        for one in report.findings
    ]
    return msgspec.structs.replace(report, findings=tuple(found))


def lines(report: RunReport, findings: Iterable[Finding], *, most: int, language: Language = ENGLISH) -> list[str]:
    """The lines for some findings, each once; of more than `most` the first, and how to see them all."""
    found = [command for finding in findings for command in finding.commands]
    every = list(dict.fromkeys(here(report, command, language) for command in found if not command.is_for_job))
    every += _for_job(found, language)
    if len(every) <= most:
        return every
    more = language.say(said("and {most} more", len(every) - most))
    return [*every[:most], said("# {more}: preflight report {id} --format=fix", more, report.run.id)]


def is_mended(findings: Iterable[Finding]) -> bool:
    """Whether every finding has commands, each typed on its fault by a test: then no words need to say what to do."""
    return all(one.commands and all(command.is_tried for command in one.commands) for one in findings)


def _for_job(commands: Collection[Command], language: Language) -> Iterator[str]:
    """The lines for the shell or file that starts the job, each once, with the nodes whose job needs it."""
    nodes: dict[str, list[str]] = {}
    tried = {command.now for command in commands if command.is_tried}
    for command in commands:
        if command.is_for_job and command.node not in nodes.setdefault(command.now, []):
            nodes[command.now].append(command.node)
    for now, names in nodes.items():
        is_held = any(_holds(other, now) and {*names} <= {*nodes[other]} for other in nodes)
        if printable(now) == now and not is_held:
            line = f"{now}  # {language.say(said('where the job starts, on {comment}', _comment(fold(names))))}"
            yield line if now in tried else f"# {language.say(UNTRIED)}: {line}"


def _marked(line: str, command: Command, language: Language) -> str:
    """The line; of a command that no test has tried a comment, so that nobody pastes it unread."""
    return line if command.is_tried or line.startswith("#") else f"# {language.say(UNTRIED)}: {line}"


def _holds(line: str, other: str) -> bool:
    """Whether a line sets all that another one sets, and more."""
    words, fewer = (set(shlex.split(one)) if one.startswith("export ") else set() for one in (line, other))
    return bool(fewer) and fewer < words


def script(report: RunReport, language: Language = ENGLISH) -> str:
    """All commands as one shell script for a person to read and run, node by node; preflight runs none of them."""
    return "\n".join(_script(in_language(report, language), language)) + "\n"


def _script(report: RunReport, language: Language) -> Iterator[str]:
    say = language.say
    yield "#!/bin/sh"
    yield f"# {say(said('What puts right what preflight found in its run {comment}.', _comment(report.run.id)))}"
    yield f"# {say('Read it before you run it.')}"
    yield f"# {say('Lines are for the machine from which that run was started; what outlasts a reboot is marked so.')}"
    faults = [finding for finding in report.findings if finding.counted in BAD and not finding.blocked_by]
    for node in report.nodes:
        own = [finding for finding in faults if any(command.node == node for command in finding.commands)]
        if own:
            yield from ("", f"# ---- {_comment(node)}")
        for finding in own:
            yield f"# {_comment(finding.check)}: {_comment(finding.message)}"
            yield from _of_node(report, node, finding, language)
    yield from _here(report, language)
    others = [finding for finding in faults if not finding.commands]
    if others:
        yield from ("", f"# ---- {say('What the facts give no command for')}")
    for finding in others:
        yield f"# {_comment(', '.join(finding.nodes))}: {_comment(finding.check)}: {_comment(finding.message)}"
        if finding.fix:
            yield f"#   {say('Fix')}: {_comment(finding.fix)}"
    yield from ("", f"# {say('Then see that it holds')}: {_comment(_again(report))}")


def _here(report: RunReport, language: Language) -> Iterator[str]:
    """The command line of the run put right, for the machine where it was typed: no node is to blame for its words."""
    own = [finding for finding in report.findings if any(command.node == Local.name for command in finding.commands)]
    if Local.name in report.nodes or not own:
        return
    yield from ("", f"# ---- {language.say('where this run was started')}")
    for finding in own:
        yield f"# {_comment(finding.check)}: {_comment(finding.message)}"
        yield from _of_node(report, Local.name, finding, language)


def _of_node(report: RunReport, node: str, finding: Finding, language: Language) -> Iterator[str]:
    """The commands of one finding for one node, each with what makes it last."""
    for command in finding.commands:
        if command.node == node and command.is_for_job:
            yield _marked(f"# {language.say('where the job starts on it')}: {_comment(command.now)}", command, language)
        elif command.node == node:
            yield _marked(_line(report, node, command.now), command, language)
            if command.lasting.startswith("#"):
                by_hand = _comment(language.say(command.lasting)).lstrip("# ")
                yield f"# {language.say('no command for this, do it by hand')}: {by_hand}"
            elif command.lasting:
                yield _marked(f"{_line(report, node, command.lasting)}  # {language.say('lasts')}", command, language)


def _again(report: RunReport) -> str:
    """The command of the run, with a report of its own; one that judged a stored run asked no node, the next has to."""
    words: list[str] = []
    is_stored = is_value = False
    for word in report.run.command:
        name = word.partition("=")[0].replace("--preflight-", "--")
        if is_value or name in OF_THAT_RUN:
            is_stored = is_stored or name == "--from"
            is_value = not is_value and "=" not in word
        else:
            words.append(word)
    hosts = ",".join(name if name == Local.name else info.host for name, info in report.nodes.items())
    return shlex.join([*words, *([f"--hosts={hosts}"] * is_stored)])


def _line(report: RunReport, node: str, command: str) -> str:
    if printable(command) != command:
        return f"# {_comment(node)}: {_comment(command)}"
    way = _way(report, node)
    if way is None:
        return said("# on {comment}: {command}", _comment(node), command)
    if not way:
        return command
    return f"{way} {command if PLAIN.fullmatch(command) else shlex.quote(command)}"


def _way(report: RunReport, node: str) -> str | None:
    """The words before a command that run it on a node, "" for this machine; None where there are none."""
    if node == Local.name:
        return ""
    if node not in report.nodes or written_for(report.nodes[node].host).form not in ("", Local.form):
        return None  # what a stored report says must not make a transport ask for its hosts
    try:
        (host,) = parse_hosts(report.nodes[node].host)
    except (UsageError, ValueError):
        return None
    if host.transport == Local.name:
        return ""
    port = ["-p", str(host.port)] if host.port is not None else []
    return shlex.join(["ssh", *port, f"{host.user}@{host.address}" if host.user else host.address])


def _comment(text: str) -> str:
    """A text as a comment of a script may hold it: one line, without control characters."""
    return printable(" ".join(text.split()))
