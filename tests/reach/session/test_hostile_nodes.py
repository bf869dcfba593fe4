"""Does a node that lies, floods or falls silent cost itself alone?"""

from __future__ import annotations

import dataclasses
import resource
import sys
import time
from pathlib import Path

import pytest

from preflight.job.collect import ending, files, subjects
from preflight.job.measure import mesh, streams
from preflight.job.options.options import Options
from preflight.judge import blame
from preflight.reach.host import Host
from preflight.reach.session.budget import POOL_BYTES
from preflight.reach.session.connection import SILENT_BEATS
from preflight.reach.session.fleet import Fleet
from preflight.reach.transport import Reach
from preflight.said import values_in
from tests.bench import hostile_node

SECONDS = 20.0
SHARING_SECONDS = 18.0  # of which a silent node takes its part, and a busy machine its own
SLACK_SECONDS = 5.0
# One of each sort; python -m tests.bench.hostile has them all, with every verb.
UNREACHED = (
    "hello.null",
    "hello.fewer",
    "hello.lists for leaves",
    "hello.text",
    "hello.deep",
    "opened.list",
    "pong.nan",
    "pong.null",
    "pong.texts for numbers",
    "network.crowd",
    "kernel.twice",
    "identity.null",
    "environment.list",
    "one crowd",
    "small frames",
    "ends",
    "noise",
    "key twice",
    "frame too long",
)
PARTLY = ("network.inked keys", "software.silent", "kernel.negative", "limits.empty")


def beside(folder: Path, modes: tuple[str, ...], *, honest: int = 1) -> tuple[Host, ...]:
    """Honest nodes and one of each hostile mode, all on this machine, which one run may hold several times."""
    names = ["honest", *(f"honest{number}" for number in range(2, honest + 1))]
    made = [Host(name, "127.0.0.1", transport="local", python=sys.executable) for name in names]
    for number, mode in enumerate(modes):
        python = folder / f"python{number}"
        python.write_text(
            f"#!/bin/sh\nexec {sys.executable} {hostile_node.__file__} '{mode}' {sys.executable} \"$@\"\n"
        )
        python.chmod(0o755)
        made.append(Host(mode, "127.0.0.1", transport="local", python=str(python)))
    return tuple(made)


@pytest.fixture
def hosts(tmp_path: Path) -> tuple[Host, ...]:
    """One honest node, and one of each mode."""
    return beside(tmp_path, (*UNREACHED, *PARTLY))


@pytest.mark.parametrize("mode", ["listening.never", "listening.empty"])
def test_a_node_that_does_not_say_where_it_listens_costs_nobody_else_the_mesh(tmp_path, mode, patience):
    """The others connect to each other in the time that is left, and it alone is not measured."""
    nodes = beside(tmp_path, (mode,), honest=2)
    fleet = Fleet(nodes, Reach(), run_id="test", deadline=time.monotonic() + 60 * patience)
    try:
        fleet.run(fleet.open(), seconds=30 * patience)
        addresses = dict.fromkeys(fleet.sessions, "127.0.0.1")
        found = fleet.run(mesh.run(fleet.sessions, addresses, full=True, seconds=6 * patience), seconds=20 * patience)
    finally:
        fleet.close()
    assert list(found.unmeasured) == [mode]
    assert f"did not say within {3 * patience:.0f} s at which port it listens" in found.unmeasured[mode]
    assert found.edges == 2


@pytest.mark.parametrize("mode", ["round.boasting", "round.belittling"])
def test_a_node_that_lies_about_its_streams_makes_no_other_look_slow(tmp_path, mode, patience):
    """Each stream is counted at both ends: who contradicts all others is named for that, and nobody for being slow."""
    nodes = beside(tmp_path, (mode,), honest=3)
    fleet = Fleet(nodes, Reach(), run_id="test", deadline=time.monotonic() + 90 * patience)
    try:
        fleet.run(fleet.open(), seconds=30 * patience)
        addresses = {name: f"127.0.0.{number}" for number, name in enumerate(fleet.sessions, start=1)}
        work = streams.search(fleet.sessions, addresses, threshold=0.1)
        found, slow = fleet.run(work, seconds=60 * patience)
    finally:
        fleet.close()
    assert slow == ()
    assert blame.liars(blame.disputes(found), tuple(addresses)) == ((mode,),)
    assert len(blame.agreed(found)) == 6
    assert max(stream.gbytes_per_s for stream in blame.agreed(found)) < 50


@pytest.mark.parametrize("mode", [hostile_node.UNCONNECTED, hostile_node.DEAF])
def test_a_node_that_never_connects_or_hears_nobody_is_named_and_the_others_are_measured(tmp_path, mode, patience):
    """Neither ends the search, nor makes its honest partner the one that failed; both words are told."""
    nodes = beside(tmp_path, (mode,), honest=3)
    fleet = Fleet(nodes, Reach(), run_id="test", deadline=time.monotonic() + 90 * patience)
    try:
        fleet.run(fleet.open(), seconds=30 * patience)
        addresses = {name: f"127.0.0.{number}" for number, name in enumerate(fleet.sessions, start=1)}
        found, slow = fleet.run(streams.search(fleet.sessions, addresses, threshold=0.1), seconds=80 * patience)
    finally:
        fleet.close()
    failed = blame.disputes(found)
    assert slow == ()
    assert blame.liars(failed, tuple(addresses)) == ((mode,),)
    assert len(blame.agreed(found)) == 9
    sender = mode == hostile_node.UNCONNECTED
    assert {one.source if sender else one.target for one in failed} == {mode}
    for one in failed:
        assert one.failure.startswith(f"{one.target} says: {one.source} did not connect; {one.source} says: ")
        assert ("refused: " if sender else "it sent ") in one.failure


@pytest.mark.parametrize("mode", ["looked.never", "written.never", "read.never", "files.never"])
def test_a_node_that_is_silent_in_a_round_of_shared_paths_costs_nobody_else_the_folders(tmp_path, mode, patience):
    """Whichever round it is: the others read the token that one of them wrote, and are done in time."""
    honest, other, silent = beside(tmp_path, (mode,), honest=2)
    fleet = Fleet((silent, honest, other), Reach(), run_id="test", deadline=time.monotonic() + 90 * patience)
    path = tmp_path / "shared"
    path.mkdir()
    options = Options(shared=(str(path),), same=(str(path),))
    try:
        fleet.run(fleet.open(), seconds=60 * patience)
        sessions = {host.name: fleet.sessions[host.name] for host in fleet.hosts}
        begun = time.monotonic()
        seconds = SHARING_SECONDS * patience
        answers = fleet.run(files.collect(sessions, options, seconds=seconds), seconds=seconds + SLACK_SECONDS)
        taken = time.monotonic() - begun
    finally:
        fleet.close()
    assert taken < seconds + SLACK_SECONDS
    assert {name: missing for name, (_, missing) in answers.items() if name != mode} == {"honest": {}, "honest2": {}}
    assert answers[mode][1]["files"].missing == "no answer within the time limit of the call"
    for name in ("honest", "honest2"):
        (shared,) = answers[name][0]["files"]["shared"]
        assert shared["trouble"] == ""
        assert shared["writer"] in ({"honest", "honest2"} if mode in ("looked.never", "written.never") else sessions)
    assert list(path.iterdir()) == []


def test_a_node_that_falls_silent_for_good_is_lost_once(tmp_path, patience):
    """It is waited for in the first call alone; one that only keeps an answer back is not lost."""
    modes = ("files.silent", "files.never")
    fleet = Fleet(beside(tmp_path, modes), Reach(), run_id="test", deadline=time.monotonic() + 60 * patience)
    fleet.bounds.beat_seconds = 0.5 * patience
    try:
        fleet.run(fleet.open(), seconds=30 * patience)
        answers = fleet.run(files.collect(fleet.sessions, Options(), seconds=15 * patience), seconds=30 * patience)
        lost = {name for name, session in fleet.sessions.items() if session.failure is not None}
        again = fleet.run(ending.collect(fleet.sessions, []), seconds=30 * patience)
    finally:
        fleet.close()
    silent = f"it has said nothing for {0.5 * patience * SILENT_BEATS:.0f} s, though asked"
    assert answers["files.silent"][1]["files"].missing == again["files.silent"][1]["ending"].missing == silent
    assert [*values_in(answers["files.silent"][1]["files"].missing, "loss")] == ["mid-run"]
    assert answers["files.never"][1]["files"].missing == "no answer within the time limit of the call"
    assert again["files.never"][1] == answers["honest"][1] == again["honest"][1] == {}
    assert lost == {"files.silent"}


def test_slow_nodes_that_flood_us_with_logs_at_once_cost_themselves_alone(tmp_path, patience):
    """What is kept of all of them together is bounded, not only of each; the honest ones are whole and not blamed."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    flooding = 6
    named = [
        dataclasses.replace(host, name=f"{host.name}{number}")
        for number, host in enumerate(beside(tmp_path, ("slow logs",) * flooding, honest=2))
    ]
    fleet = Fleet(tuple(named), Reach(), run_id="test", deadline=time.monotonic() + 60 * patience)
    try:
        work = subjects.collect(fleet, [], "gloo", seconds=40 * patience)
        documents, cluster = fleet.run(work, seconds=42 * patience)
    finally:
        fleet.close()
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown_mib < 2 * (POOL_BYTES >> 20)  # of 900 MiB that they have
    honest = {host.name for host in named[:2]}
    assert all(cluster[name].missing.keys() <= {"files", "trust", "ending", "vendor", "engine"} for name in honest)
    broken = {host.name for host in named[2:]}
    assert broken <= fleet.failures.keys() | {
        name for name in documents if cluster[name].missing.keys() & subjects.COLLECTED
    }
    assert not honest & fleet.failures.keys()


def test_hostile_nodes_cost_themselves_alone(hosts, patience):
    """Facts of the honest node are whole and in time, every other is named, and memory stays bounded."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.monotonic()
    seconds = SECONDS * patience
    fleet = Fleet(hosts, Reach(), run_id="test", deadline=begun + 60 * patience)
    try:
        fleet.bounds.beat_seconds *= patience  # who is silent is not lost before the time is over
        work = subjects.collect(fleet, [], "gloo", seconds=seconds - 0.5)
        documents, cluster = fleet.run(work, seconds=seconds)
        taken = time.monotonic() - begun
    finally:
        fleet.close()
    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert taken < seconds
    assert grown_mib < 300
    assert cluster["honest"].missing.keys() <= {"files", "trust", "ending", "vendor", "engine"}
    assert {name: str(error) for name, error in fleet.failures.items() if name not in UNREACHED} == {}
    assert set(UNREACHED) <= fleet.failures.keys()
    assert {mode: bool(cluster[mode].missing.keys() & subjects.COLLECTED) for mode in PARTLY} == dict.fromkeys(
        PARTLY, True
    )
    assert "honest" in documents
