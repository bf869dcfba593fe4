"""How did bandwidth, step time and facts go over many runs, and with which run did something get worse?"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from preflight.judge.ledger.findings import Verdict
from preflight.reach.hosts import fold
from preflight.report.columns import counted, size_text
from preflight.report.compare import Snapshot, changes
from preflight.report.language import ENGLISH, Language
from preflight.report.language.wrap import width_of
from preflight.report.printable import printable
from preflight.said import said

DROP = 0.9  # of the level before: what a shared switch or a warm room moves is less
LEVEL_RUNS = 5  # whose median is the level that a run is compared with
NODES_WIDTH = 60


@dataclass(frozen=True)
class Sample:
    """What one run measured, with its 95 % interval where it has one."""

    place: int  # of the run, 0 is the oldest
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Measure:
    """One figure over the runs that measured it in the same way: of the same nodes, size, type and so on."""

    name: str
    unit: str
    nodes: str
    samples: tuple[Sample, ...]
    is_better_high: bool = True


@dataclass(frozen=True)
class Fall:
    """A figure that got worse: with which run, from which level to which, and the run that was good again, if any."""

    measure: Measure
    first: int
    before: float
    value: float
    later: int  # further runs that measured it below the level
    recovered: int | None

    @property
    def share(self) -> float:
        """By how much it got worse, as a share of the level before."""
        return self.value / self.before - 1


@dataclass(frozen=True)
class Moved:
    """A fact that is not what it was in the run before of the same nodes."""

    place: int
    fact: str
    nodes: tuple[str, ...]
    before: str
    now: str


@dataclass(frozen=True)
class Trend:
    """Runs from the oldest to the newest, and what of them can be compared."""

    runs: tuple[Snapshot, ...]
    folders: tuple[str, ...]  # of the runs, below the page
    measures: tuple[Measure, ...]
    falls: tuple[Fall, ...]
    moved: tuple[Moved, ...]
    notes: tuple[str, ...] = field(default=())


def trend(runs: Sequence[Snapshot], folders: Sequence[str], notes: Sequence[str] = ()) -> Trend:
    """The trend of runs, the oldest first."""
    measures = tuple(_measures(runs))
    falls = tuple(fall for measure in measures for fall in _falls(measure))
    return Trend(tuple(runs), tuple(folders), measures, falls, tuple(_moved(runs)), tuple(notes))


def _measures(runs: Sequence[Snapshot]) -> Iterator[Measure]:
    """Each figure with its samples; what a run took over from an earlier one is no sample of its own."""
    samples: dict[tuple[str, str, str, bool], list[Sample]] = {}
    for place, run in enumerate(runs):
        report = run.report
        if not report.finished or any(info.proof for info in report.nodes.values()):
            continue
        if report.bench is not None:
            nodes = fold(report.bench.node_names or report.nodes)
            for result in report.bench.results:
                how = [result.dtype, *([result.mode] if result.mode != "blocking" else [])]
                how += [f"{report.bench.backend}, {counted(report.bench.world_size, 'rank')}"]
                title = said(
                    "busbw of {title}, {size_text} {how}", result.title, size_text(result.bytes), ", ".join(how)
                )
                value = Sample(
                    place,
                    result.busbw_gbytes_per_s,
                    result.busbw_low_gbytes_per_s,
                    result.busbw_high_gbytes_per_s,
                )
                key = (title + ("" if result.in_place else ", out of place"), "GB/s", nodes, True)
                samples.setdefault(key, []).append(value)
        training = report.training
        if training is not None and training.ranks and training.failure is None:
            nodes = fold(training.node_names or report.nodes)
            seconds = statistics.median(rank.step_seconds_median for rank in training.ranks)
            setup = f"{training.model}, {training.strategy}, {training.precision}, {training.launcher}"
            name = said(
                "step of the reference training, {setup}, {counted}", setup, counted(training.world_size, "rank")
            )
            samples.setdefault((name, "s", nodes, False), []).append(Sample(place, seconds, seconds, seconds))
    for (name, unit, nodes, is_better_high), found in samples.items():
        yield Measure(name, unit, nodes, tuple(found), is_better_high)


def _falls(measure: Measure) -> Iterator[Fall]:
    """Where a figure leaves its level for the worse, and whether it came back.

    A run is worse if all of its interval is; the level is the median of the last good runs.
    """
    good: list[float] = []
    bad: list[Sample] = []
    for sample in measure.samples:
        if not good or not _is_worse(measure, sample, statistics.median(good)):
            if bad:
                yield _fall(measure, bad, statistics.median(good), sample.place)
                bad = []
            good = [*good, sample.value][-LEVEL_RUNS:]
        else:
            bad.append(sample)
    if bad:
        yield _fall(measure, bad, statistics.median(good), None)


def _fall(measure: Measure, bad: Sequence[Sample], level: float, recovered: int | None) -> Fall:
    return Fall(measure, bad[0].place, level, bad[0].value, len(bad) - 1, recovered)


def _is_worse(measure: Measure, sample: Sample, level: float) -> bool:
    return sample.high < DROP * level if measure.is_better_high else sample.low > level / DROP


def _moved(runs: Sequence[Snapshot]) -> Iterator[Moved]:
    """Facts against those of the run before of the same nodes, the newest first."""
    for place in range(len(runs) - 1, 0, -1):
        now = runs[place]
        before = next((run for run in reversed(runs[:place]) if run.facts and set(run.facts) == set(now.facts)), None)
        if before is not None:
            for change in changes(before, now).facts:
                yield Moved(place, change.fact, change.nodes, change.before, change.now)


def trend_lines(found: Trend, language: Language = ENGLISH) -> list[str]:
    """For a terminal: how many runs, each fall with its first run, the newest facts that moved."""

    def labelled(word: str, text: str) -> str:
        label = language.say(word)
        return f"{label}{' ' * max(10 - width_of(label), 1)}{text}"

    say = language.say
    count = len(found.runs)
    bad = sum(run.report.verdict in (Verdict.FAIL, Verdict.ERROR) for run in found.runs)
    head = said(
        "{counted}, {bad} of them not good, {counted2}",
        counted(count, "run"),
        bad,
        counted(len(found.measures), "figure"),
    )
    lines = [labelled("worse", fall_text(found, fall, language)) for fall in found.falls]
    lines = [say(head), *(lines or [say("no figure got worse")])]
    lines += [labelled("fact", moved_text(found, moved, language)) for moved in found.moved[:10]]
    if len(found.moved) > 10:
        more = counted(len(found.moved) - 10, "more fact")
        lines.append(f"{'':10}{say(said('and {more} moved: see the page', more))}")
    return [*lines, *(labelled("note", say(printable(note))) for note in found.notes)]


def fall_text(found: Trend, fall: Fall, language: Language = ENGLISH) -> str:
    """``busbw of all_reduce ... on node[1-3]: 0.118 -> 0.061 GB/s (-48%), first in run X of TIME; 2 runs after it``."""
    measure, first = fall.measure, found.runs[fall.first].report.run
    say = language.say
    what = _of_nodes(measure.name, _cut(measure.nodes), language)
    turn = f"{fall.before:.4g} -> {fall.value:.4g} {measure.unit} ({fall.share:+.0%})"
    comma, stop = (", ", "; ") if language == ENGLISH else ("，", "；")
    words = [f"{what} {turn}{comma}{say(said('first in run {id} of {when}', first.id, when(first.started)))}"]
    words += [say(said("{counted} after it too", counted(fall.later, "run")))] if fall.later else []
    if fall.recovered is not None:
        words.append(say(said("good again in run {id}", found.runs[fall.recovered].report.run.id)))
    return printable(stop.join(words))


def _of_nodes(what: str, nodes: str, language: Language) -> str:
    """``driver on node3:``; in another language the nodes stand in brackets, as what they are of has its own commas."""
    return " ".join((what, "on", f"{nodes}:")) if language == ENGLISH else f"{language.say(what)}（{nodes}）："


def moved_text(found: Trend, moved: Moved, language: Language = ENGLISH) -> str:
    """``driver on node3: 550.54 -> 570.86, first in run X of TIME``."""
    first = found.runs[moved.place].report.run
    say = language.say
    what = _of_nodes(moved.fact, _cut(fold(moved.nodes)), language)
    comma = ", " if language == ENGLISH else "，"
    since = say(said("first in run {id} of {when}", first.id, when(first.started)))
    return printable(f"{what} {moved.before} -> {moved.now}{comma}{since}")


def when(started: str) -> str:
    """A time as people read it: "2026-11-22 04:10"."""
    return started.replace("T", " ")[:16]


def _cut(nodes: str) -> str:
    return nodes if len(nodes) <= NODES_WIDTH else f"{nodes[:NODES_WIDTH]}..."
