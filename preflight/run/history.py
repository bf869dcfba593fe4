"""Which runs are in a folder of runs: to list them, find the last good one, keep only the newest?"""

from __future__ import annotations

import shutil
import socket
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec

from preflight.facts import decode
from preflight.job.options.options import Options
from preflight.judge.ledger.findings import Verdict
from preflight.reach import hosts
from preflight.report import FILES
from preflight.report.compare import Snapshot
from preflight.report.document import RunInfo
from preflight.report.json import read_json
from preflight.report.language import ENGLISH, Language
from preflight.report.language.wrap import in_columns
from preflight.report.printable import printable
from preflight.report.trend import Trend, trend
from preflight.run import stored
from preflight.said import said
from preflight.said.errors import UsageError
from preflight.said.redact import HIDDEN

LAST, LAST_GOOD = "last", "last-good"
REPORTS = Path("reports")
OURS = {*FILES.values(), "facts", "logs"}
ASKS_FIRST = ("slurm:", "torchrun")  # HOSTS that are known once the job runs that asks for them
TREND_FACTS = 50  # runs
RUNNING_AT_MOST = timedelta(days=1)  # the longest --deadline: an unfinished run that began earlier is over


class Head(msgspec.Struct, frozen=True):
    """The keys of report.json that a list needs; all others are passed over."""

    finished: bool
    run: RunInfo
    verdict: Verdict
    exit_code: int
    nodes: dict[str, Any]


@dataclass(frozen=True)
class Past:
    """A run in a folder."""

    folder: Path
    head: Head


def runs(folder: Path) -> list[Past]:
    """The runs directly below a folder, the newest first; anything else there is ignored."""
    found = [
        Past(inner, head)
        for inner in (sorted(folder.iterdir()) if folder.is_dir() else ())
        if inner.is_dir() and not inner.is_symlink() and (head := _head(inner / FILES["json"])) is not None
    ]
    return sorted(found, key=lambda past: past.head.run.started, reverse=True)


def called(words: Path, *, what: str = "run") -> Path:
    """The folder of a run, given as such, as `last`, as `last-good`, or by its id in `reports` or how that begins.

    `what` was it given for. Raises UsageError where there is no such run, or more than one.
    """
    if words.exists():
        return words
    past, shown = runs(REPORTS), f"{what} {printable(str(words))}"
    if str(words) in (LAST, LAST_GOOD):
        wanted = [run for run in past if str(words) == LAST or _is_good(run.head)][:1]
    else:
        wanted = [run for run in past if run.folder.name.startswith(str(words))]
    if len(wanted) == 1:
        return wanted[0].folder
    if len(wanted) > 1:
        count, newest = len(wanted), wanted[0].folder.name
        raise UsageError(
            said(
                "{shown}: {count} runs in {REPORTS} begin with it, the newest is {newest}",
                shown,
                count,
                REPORTS,
                newest,
            )
        )
    newest = (
        said("; the newest run in {REPORTS} is {name}", REPORTS, past[0].folder.name)
        if past
        else said("; {REPORTS} holds no run", REPORTS)
    )
    raise UsageError(said("{shown}: no such run{newest}", shown, newest))


def baseline(options: Options, names: Collection[str]) -> Snapshot | None:
    """The run that --baseline names: a folder, or for last-good the newest good one of these nodes, if any.

    Those of `reports` count, and those beside this run's own folder. Raises UsageError for what is no run.
    """
    if not options.baseline:
        return None
    if options.baseline != LAST_GOOD:
        return _snapshot(options.baseline)
    wanted, places = set(names), {place.resolve() for place in (REPORTS, options.folder.parent)}
    found = [past for place in places for past in runs(place) if _is_good(past.head) and set(past.head.nodes) == wanted]
    newest = max(found, key=lambda past: past.head.run.started, default=None)
    return None if newest is None else _snapshot(str(newest.folder))


def finished_of(options: Options, names: Collection[str]) -> list[Past]:
    """The finished runs of these nodes, in `reports` or beside this run's own folder, the newest first."""
    places = {place.resolve() for place in (REPORTS, options.folder.parent)}
    found = [
        past
        for place in places
        for past in runs(place)
        if past.head.finished and set(past.head.nodes) == set(names) and past.folder != options.folder.resolve()
    ]
    return sorted(found, key=lambda past: past.head.run.started, reverse=True)


def not_green(options: Options, names: Collection[str]) -> frozenset[str]:
    """The checks that failed, were not measured or warned in the last run of these nodes.

    Those too that such a run was to ask again, and did not: it was given -k, or was stopped.
    Raises UsageError where there was no such run, and where all was green: then there is nothing to ask again.
    """
    past = finished_of(options, names)
    if not past:
        raise UsageError(
            said(
                "--last-failed: no finished run of {names} in {REPORTS}; leave the option out",
                hosts.fold(names),
                REPORTS,
            )
        )
    red: set[str] = set()
    judged: set[str] = set()
    for run in past:
        findings = read_json(run.folder / FILES["json"]).findings
        red |= {one.check for one in findings if one.counted not in (Verdict.PASS, Verdict.SKIP)} - judged
        judged |= {one.check for one in findings}
        if not {"--last-failed", "--preflight-last-failed"} & {*run.head.run.command}:
            break
    if not red:
        newest = past[0].head.run.id
        raise UsageError(
            said("--last-failed: run {newest} was green; leave the option out to ask everything again", newest)
        )
    return frozenset(red)


def last_run() -> Past:
    """The newest finished run in `reports`, whose command line says what to ask again.

    Raises UsageError where there is none, or where it does not say it: a secret was left out, or it judged another run.
    """
    past = next((run for run in runs(REPORTS) if run.head.finished), None)
    if past is None:
        raise UsageError(said("--last-failed: no finished run in {REPORTS}; name the hosts with --hosts", REPORTS))
    command = past.head.run.command
    if any(HIDDEN in word for word in command):
        raise UsageError(
            said("--last-failed: the command line of run {id} held a secret; give its options again", past.head.run.id)
        )
    if any(word.partition("=")[0] in ("--from", "--preflight-from") for word in command):
        raise UsageError(
            said("--last-failed: run {id} judged a stored run; name the hosts with --hosts", past.head.run.id)
        )
    return past


def refuse_other_nodes(past: Past, given: str) -> None:
    """Raise UsageError where HOSTS no longer names the nodes of that run: its hostfile has changed, or the allocation.

    What asks for its nodes first, a partition of Slurm, has none yet.
    """
    if given.startswith(ASKS_FIRST):
        return
    was = _hostname(past.folder) if given == hosts.LOCAL else ""
    if was not in ("", socket.gethostname()):  # on a file system that both share
        raise UsageError(
            said(
                "--last-failed: run {id} was started on {was}, this is {gethostname}",
                past.head.run.id,
                was,
                socket.gethostname(),
            )
        )
    now = [host.name for host in hosts.parse_hosts(given)]
    if set(now) != set(past.head.nodes):
        raise UsageError(
            said(
                "--last-failed: run {id} was of {nodes}, and {given} is now {now}; name the hosts with --hosts",
                past.head.run.id,
                hosts.fold(past.head.nodes),
                given,
                hosts.fold(now),
            )
        )


def _hostname(folder: Path) -> str:
    """Whom a run of this machine found it to be; "" where it does not say."""
    try:
        found = decode.read(folder / "facts" / f"{hosts.LOCAL}.json").subjects["identity"]["hostname"]
    except (UsageError, OSError, KeyError):
        return ""
    return str(found)


def list_text(folder: Path, language: Language = ENGLISH) -> str:
    """A line a run: when, verdict, nodes, how long, where."""
    rows = [
        [
            past.head.run.started.replace("T", " ")[:16],
            language.verdict(str(past.head.verdict)) if past.head.finished else language.say("unfinished"),
            hosts.fold(past.head.nodes),
            f"{past.head.run.seconds:.0f} s",
            str(past.folder),
        ]
        for past in runs(folder)
    ]
    if not rows:
        return language.say(said("no run in {folder}", printable(str(folder))))
    cells = [[printable(cell) for cell in row] for row in rows]
    heads = [language.say(head) for head in ("started (UTC)", "verdict", "nodes", "took", "run")]
    return in_columns([heads, *cells])


def trend_of(folder: Path) -> Trend:
    """The finished runs of a folder, the oldest first; facts are read of the newest alone. UsageError without runs."""
    past = [run for run in reversed(runs(folder)) if run.head.finished]
    if not past:
        raise UsageError(said("report --trend: no finished run in {folder}", printable(str(folder))))
    with_facts = {run.folder for run in past[-TREND_FACTS:]}
    snapshots, folders, notes = [], [], []
    for run in past:
        try:
            place = run.folder if run.folder in with_facts else run.folder / FILES["json"]
            snapshots.append(stored.snapshot(place))
            folders.append(run.folder.name)
        except UsageError as error:  # one that cannot be read is no reason to leave out the others
            notes.append(str(error))
    if len(past) > TREND_FACTS:
        notes.append(said("facts are those of the newest {TREND_FACTS} runs", TREND_FACTS))
    return trend(snapshots, folders, notes)


def keep(folder: Path, count: int) -> list[str]:
    """Delete all runs in a folder but the newest; a line for each that went, or had to stay.

    A folder goes only if all that it holds is a run's; one that may still be under way stays.
    """
    lines = []
    for past in runs(folder)[count:]:
        name = printable(str(past.folder))
        others = sorted({path.name for path in past.folder.iterdir()} - OURS)
        if others:
            lines.append(said("kept {name}: it also holds {others}", name, printable(", ".join(others[:3]))))
        elif not past.head.finished and not _is_over(past.head.run.started):
            lines.append(said("kept {name}: it may still be under way", name))
        else:
            shutil.rmtree(past.folder)
            lines.append(said("deleted {name}", name))
    return lines


def _snapshot(words: str) -> Snapshot:
    try:
        return stored.snapshot(called(Path(words)))
    except UsageError as error:
        raise UsageError(f"--baseline {printable(words)}: {error}") from None


def _is_good(head: Head) -> bool:
    return head.finished and head.exit_code == 0 and head.verdict in {Verdict.PASS, Verdict.WARN}


def _is_over(started: str) -> bool:
    try:
        return datetime.now(timezone.utc) - datetime.fromisoformat(started) > RUNNING_AT_MOST
    except (ValueError, TypeError):
        return False


def _head(path: Path) -> Head | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Head)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
