"""Does one node write what all others must read, and is nothing left of it?"""

from __future__ import annotations

import os

import msgspec
import pytest

from preflight.facts.subjects.files import Files
from preflight.job.collect import files
from preflight.job.options.options import Options
from preflight.said.errors import HostError
from tests.job.measure.local import opened


class Lost:
    """A session to a node that has gone away."""

    async def start(self, *_words, **_options):
        """Nothing can be started any more."""
        raise HostError("c", "went away")


@pytest.fixture(scope="module")
def collect():
    """Options, and the names of nodes that are lost -> the subject of each node."""
    with opened() as (fleet, session):

        def run(options: Options, *lost: str):
            sessions = {name: Lost() if name in lost else session for name in ("a", "b", *lost)}
            return fleet.run(files.collect(sessions, options), seconds=60)

        yield run


def facts(told, name):
    """The facts of one node, in the shape that checks see."""
    subjects, missing = told[name]
    assert missing == {}
    return msgspec.convert(subjects["files"], type=Files, strict=True)


def test_without_a_path_home_and_temporary_files_are_looked_at(collect):
    """Nothing is written anywhere."""
    told = facts(collect(Options()), "a")
    assert [place.purpose for place in told.places] == ["home", "temporary files"]
    assert (told.shared, told.same) == ((), ())


def test_the_first_node_writes_and_all_read(collect, tmp_path):
    """The token says who wrote it, and is gone afterwards."""
    path = os.fspath(tmp_path)
    told = collect(Options(shared=(path,), same=(path,)))
    for name in ("a", "b"):
        (shared,) = facts(told, name).shared
        assert (shared.writer, shared.trouble) == ("a", "")
    assert facts(told, "a").same == facts(told, "b").same
    assert os.listdir(path) == []


def test_a_path_that_nobody_can_write_to_has_no_writer(collect):
    """Every node says so, and none is taken for unshared."""
    (shared,) = facts(collect(Options(shared=("/nonexistent",))), "b").shared
    assert (shared.writer, shared.trouble) == ("", "no node could write there: No such file or directory (asked: b)")


def test_the_folder_of_the_checkpoint_is_looked_at_as_a_shared_one(collect, tmp_path):
    """Before any training: a token is written and read, and what is missing is told with the reason."""
    told = facts(collect(Options(checkpoint_dir=os.fspath(tmp_path))), "b")
    assert [(shared.path, shared.writer, shared.trouble) for shared in told.shared] == [(os.fspath(tmp_path), "a", "")]
    assert [place.path for place in told.places if place.purpose == "--checkpoint-dir"] == [os.fspath(tmp_path)]
    gone = facts(collect(Options(checkpoint_dir="/nonexistent")), "b")
    assert gone.places[2].trouble == "No such file or directory"


def test_a_node_that_is_lost_is_missing_and_the_others_are_told(collect, tmp_path):
    """Also when it would have been the writer."""
    told = collect(Options(shared=(os.fspath(tmp_path),)), "lost")
    assert told["lost"][1]["files"].missing == "went away"
    assert facts(told, "b").shared[0].trouble == ""
