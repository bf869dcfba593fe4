"""Do the gates name checks that exist?"""

from __future__ import annotations

import pytest

from preflight.judge.existing import checks_folder, existing
from preflight.ledger.gates import BENCH_GATES, GATES, MESH_GATES, RULES, is_gate

CHECKS = existing([str(checks_folder())], checks_folder())


@pytest.mark.parametrize("word", sorted({*MESH_GATES, *BENCH_GATES}))
def test_every_gate_is_a_check_or_the_subject_of_some(word):
    """A check that was renamed would open its gate without a word."""
    assert CHECKS
    found = [check for check in CHECKS if (check.startswith(word) if word.endswith(".") else check == word)]
    assert found, f"no check is called {word}"


def test_a_gate_is_a_whole_id_or_a_whole_subject():
    """Nothing gates by the beginning of its name, and no check has the subject of the rules on launch files."""
    assert is_gate("bench", "network.training_interface_exists")
    assert not is_gate("bench", "network.training_interface_exists_no_more")
    assert is_gate("bench", "names.anything")
    assert not is_gate("bench", "names_of_ours.anything")
    assert {kind for kind in GATES if is_gate(kind, "launch.any_rule")} == {"training"}
    assert not [check for check in CHECKS if check.startswith(RULES)]
