"""How much time does a stage get, and is a broken one started again?"""

import pytest

from preflight.run.stages import CLOSING_SECONDS, Stages
from preflight.said.errors import HostError, NotMeasured


def test_a_stage_has_what_it_wants_or_what_the_deadline_leaves():
    """Without the seconds that are reserved for the end; further facts leave half of it to measurements."""
    stages = Stages(100.0)
    assert stages.left(10.0) == 10.0
    assert 91.0 < stages.left(200.0) <= 100.0 - CLOSING_SECONDS
    assert 45.0 < stages.share(200.0) <= 46.0
    assert 7.0 < Stages(10.0).left(200.0) <= 8.0


def test_without_time_left_nothing_is_started():
    """What is kept back is for ending the nodes and writing the report."""
    stages = Stages(300.0)
    stages.begun -= 300.0
    with pytest.raises(NotMeasured, match="the deadline of 300 s was reached"):
        stages.left(1.0)
    assert stages.seconds >= 300.0


def test_a_stage_that_loses_a_node_is_not_measured_and_its_time_is_noted():
    """One host failing is data; whoever asks again hears the same reason, and nothing is started."""
    stages, begun = Stages(300.0), []

    def lose() -> None:
        begun.append("bench")
        raise HostError("node2", "went away")

    for _ in range(2):
        with pytest.raises(NotMeasured, match="node2: went away"):
            stages.timed("bench", lose)
    assert begun == ["bench"]
    assert stages.seconds_of["bench"] >= 0
    assert stages.timed("mesh", lambda: 7) == 7


def test_a_fault_of_our_own_is_told_with_its_place_and_not_tried_again():
    """Else each check would start the stage anew, and none would say why."""
    stages, begun = Stages(300.0), []

    def stumble() -> None:
        begun.append("bench")
        raise KeyError("rank")

    for _ in range(2):
        with pytest.raises(
            NotMeasured, match=r"a fault of preflight itself: KeyError at test_stages\.py:\d+: 'rank'"
        ) as told:
            stages.timed("bench", stumble)
    assert begun == ["bench"]
    assert told.value.__cause__ is None
