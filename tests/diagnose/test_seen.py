"""Is what a line quotes kept apart from what happened?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause
from preflight.diagnose.found import Evidence
from preflight.diagnose.seen import Seen


def take(seen: Seen, line: int, *, is_cited: bool) -> None:
    """One line of it."""
    evidence = Evidence("log", line, f"line {line}", rank=0)
    seen.take(evidence, 0, task=-1, is_warning=False, is_cited=is_cited, is_mild=False, has_ended=False, has_left=False)


def test_lines_that_quote_give_way_to_those_that_do_not():
    """Whichever came first."""
    for order in ((True, False), (False, True)):
        seen = Seen(Cause("x", "", (), "", ""), 0)
        for line, is_cited in enumerate(order, 1):
            take(seen, line, is_cited=is_cited)
        assert not seen.is_cited
        assert [one.line for one in seen.evidence] == [order.index(False) + 1]
        assert seen.count == 1


def test_a_node_counts_once_under_its_longest_name():
    """With its domain, where a line has it; addresses are no short names."""
    seen = Seen(Cause("x", "", (), "", ""), 0, nodes={"n1", "n1.cluster", "10.0", "10.0.0.1"})
    assert seen.of_nodes == ("10.0", "10.0.0.1", "n1.cluster")
