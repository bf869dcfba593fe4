"""Does nothing that a node, its tools or a job's logs say break what reads it?"""

from __future__ import annotations

import pytest

from tests.bench import fuzz
from tests.bench.fuzz import PARSERS, fault

SLOWEST_MACHINE = 10  # what has no end takes longer than any machine's tenth of a second


@pytest.mark.parametrize("name", PARSERS)
def test_changed_inputs_are_read_or_refused_in_time(monkeypatch, name):
    """The first of the inputs that python -m tests.bench.fuzz takes 10,000 of."""
    monkeypatch.setattr(fuzz, "SECONDS", SLOWEST_MACHINE * fuzz.SECONDS)
    assert [words for seed in range(40) if (words := fault(name, seed))] == []
