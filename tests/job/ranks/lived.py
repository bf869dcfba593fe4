"""What do tests/data/said/ranked.txt list of a rank's life: how it meets others, waits for them and ends?"""

from __future__ import annotations

import gc
import io
import json
import types
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

import torch
import torch.distributed as dist

from preflight.job.ranks.rank import device, life, records, world
from preflight.job.ranks.rank.limits import Planned
from preflight.job.ranks.rehearsal import rank
from tests.instead import entries, instead, instead_of
from tests.job.figures import figures
from tests.job.ranks.benched import CPU, Records
from tests.job.ranks.meeting_cast import Moments, Store
from tests.job.ranks.watched import Shown

GPU: Any = types.SimpleNamespace(type="cuda")


def of_meeting_others() -> Iterator[str]:
    """For how long ranks wait for each other, and how a process group is made."""
    for backend, environ, is_bound, planned in product(
        ("gloo", "nccl"), ({}, {"WORLD_SIZE": "400"}), (True, False), (Planned(), Planned(message_bytes=1 << 32))
    ):
        said: list[str] = []
        held: Any = Records(said)
        held.await_go = partial(said.append, "waits to go")

        def meets(url: str, *, timeout: Any, said: list[str] = said) -> Iterator[Any]:
            said.append(f"meets at {url} within {timeout.total_seconds():g} s")
            yield "store", 3, 500

        def makes(backend: str, *, timeout: Any, said: list[str] = said, **named: Any) -> None:
            said.append(f"makes {backend} {named} within {timeout.total_seconds():.4g} s")

        def watched(_records: Any, said: list[str] = said, **named: Any) -> None:
            said.append(f"watched { {name: round(float(value), 2) for name, value in named.items()} }")

        with (
            entries("os.environ", environ, clear=True),
            instead(import_module("torch.distributed.rendezvous"), "rendezvous", meets),
            instead(dist, "init_process_group", makes),
            instead_of(
                world,
                own_device=lambda backend: GPU if backend == "nccl" else CPU,
                bound=lambda _device: {"device_id": "bound"},
                watch=watched,
                time=types.SimpleNamespace(perf_counter=lambda: 8.0),
            ),
        ):
            found = world.meet(
                backend,
                join_seconds=30.0,
                wait_seconds=45.0,
                import_seconds=1.5,
                records=held,
                planned=planned,
                is_bound=is_bound,
            )
        told = [found.rank, found.ranks, found.store, found.import_seconds, found.began, held.planned.ranks]
        yield f"{backend} {environ} {is_bound} {planned.message_bytes}: {told} {said}"
    for came, moved in product(({0.0: 3}, {0.0: 2, 1.2: 3}, {0.0: 1, 0.3: 2, 7.0: 3}), ((), (0.5, 4.0))):
        clock, said = Moments(), []
        put = {when: {"preflight/k/through": count - (when == 0.0)} for when, count in came.items()}
        put |= {when: {"preflight/k/moved": place + 1} for place, when in enumerate(moved)}
        slept: list[float] = []
        clock.sleep = lambda seconds, clock=clock, slept=slept: (
            slept.append(seconds),
            setattr(clock, "passed", clock.passed + seconds),
        )  # type: ignore[assignment,method-assign,misc]
        held = types.SimpleNamespace(advance=lambda beyond=0.0: said.append(f"moves beyond {beyond:g}"))  # noqa: B023
        with instead(world, "time", clock):
            world.all_through(Store(clock, said, put), ranks=3, key="k", records=held)
        yield f"{came} {moved}: {said} {[round(one, 3) for one in slept]}"
    for rank_, ranks in product((0, 1), (1, 3)):
        said = []
        kept = Store(Moments(), said, {0.0: {"preflight/k/done": ranks - 1, "preflight/k/heard": ranks - 1}})
        kept.wait = lambda keys, timeout: said.append(f"waits for {keys} {timeout.total_seconds():g}")  # type: ignore[attr-defined]  # noqa: B023
        for others in (0, 1):
            kept.held["preflight/k/done"] = kept._there()["preflight/k/done"] - others
            world.leave_together(kept, rank=rank_, ranks=ranks, key="k", seconds=7.0)
        world.advanced_with(kept, key="k", records=Records(said))  # type: ignore[arg-type]
        yield f"{rank_} {ranks}: {said}"
    for environ in ({}, {"OMP_NUM_THREADS": "4"}):
        said = []
        clock = iter((3.0, 5.5))
        with (
            entries("os.environ", environ, clear=True),
            instead(torch, "set_num_threads", lambda count: said.append(f"{count} threads")),  # noqa: B023
            instead(world, "time", types.SimpleNamespace(perf_counter=clock.__next__)),
        ):
            yield f"{environ}: {world.load_torch(Records(said))} {said}"  # type: ignore[arg-type]


def of_living() -> Iterator[str]:
    """How a rank ends, on which device it is, and what its socket hears."""

    def works(given: dict[str, Any], own: Any) -> None:
        own.stage("at work", **given)
        if given.get("fails"):
            raise ValueError("x" * given["fails"])

    for settings, environ in product(
        (None, {"a": 1}, {"fails": 3}, {"fails": 5000}), ({}, {"RANK": "2"}, dict.fromkeys(life.OF_A_JOB, "2"))
    ):
        out, said = io.StringIO(), []
        given = {} if settings is None else {"PREFLIGHT_SETTINGS": json.dumps(settings)}
        with (
            entries("os.environ", {**environ, **given}, clear=True),
            instead(life, "Records", lambda rank: Shown(said, rank)),  # noqa: B023
            instead(gc, "disable", partial(said.append, "collects no more")),
        ):
            for needs in (life.OF_A_JOB, ("RANK",)):
                try:
                    said.append(str(life.live(works, needs=needs)))
                except SystemExit as end:
                    said.append(f"exits: {end.code}")
        yield f"{settings} {list(environ)}: {[f'{one[:150]} ({len(one)})' for one in said]} {out.getvalue()}"
    for local, own, seen in product(("", "0", "3"), (False, True), (0, 1, 8)):
        environ = {**({"LOCAL_RANK": local} if local else {}), **({"PREFLIGHT_OWN_GPUS": ""} if own else {})}
        said = []
        with (
            entries("os.environ", environ, clear=True),
            instead(torch.cuda, "device_count", gives=seen),
            instead(torch.cuda, "set_device", lambda one: said.append(str(one))),  # noqa: B023
        ):
            names = [device.name_of(one) for one in (CPU, torch.device("cuda", 1))]
            backends = [rank.backend_of(one) for one in ("auto", "gloo", "nccl")]
            yield f"{environ} {seen}: {device.own_device('gloo')} {device.own_device('nccl')} {said} {names} {backends}"
    for known in (lambda device_id: None, lambda other: None):
        with instead(dist, "init_process_group", known):
            yield f"{device.bound(CPU)}"
    for environ, fails in product(({}, {"RANK": "4"}, {"RANK": "x"}), (0, 9, 5000)):
        said = []
        with (
            entries("os.environ", {**environ, "PREFLIGHT_SETTINGS": json.dumps({"fails": fails})}, clear=True),
            instead(rank, "Records", lambda rank: Shown(said, rank)),  # noqa: B023
            instead(rank, "rehearse", works),
        ):
            said.append(str(rank.main()))
        yield f"{environ} {fails}: {[f'{one[:150]} ({len(one)})' for one in said]}"


class Wire:
    """The socket of a node."""

    def __init__(self, said: list[str], heard: list[bytes]) -> None:
        self.said, self.heard = said, heard

    def __call__(self, family: int, kind: int) -> Wire:
        self.said.append(f"opens {int(family)} {int(kind)}")
        return self

    def __getattr__(self, name: str) -> Any:
        def asked(*words: Any) -> Any:
            self.said.append(f"{name} {words}")
            return self.heard.pop(0) if name == "recv" else None

        return asked


def of_wires() -> Iterator[str]:
    """What a rank tells its node, and waits for."""
    for heard in ([b"go\n"], [b"g", b"o\n"], [b""]):
        said: list[str] = []
        with (
            entries("os.environ", {"PREFLIGHT_RECORDS": "the-node"}, clear=True),
            instead(records.socket, "socket", Wire(said, list(heard))),
        ):
            one = records.Records(rank=3)
            try:
                one.await_go()
                one.send({"record": "x", "loss": 1.0})
            except BaseException as error:
                said.append(repr(error))
        yield f"{heard}: {said} {figures(one.at)} {one.doing!r} {one.planned}"
