"""The all-reduce figure is the link's: beside the shaped rate, and beside iperf3 on the same link."""

from __future__ import annotations

import pytest

from tests.bench.busbw import LIMIT, busbw, iperf3


@pytest.mark.exclusive
@pytest.mark.parametrize("hosts", [2, 3])
def test_busbw_is_what_the_link_carries(make_lab, hosts):
    """Within 5 % of 0.9564 x the shaped rate and of iperf3, verified data, and the derivation said."""
    lab = make_lab(hosts=hosts)
    found, bench = busbw(lab, "all_reduce")
    ours = found["all_reduce"]
    theirs = iperf3(lab)

    assert ours == pytest.approx(LIMIT, rel=0.05)
    assert ours == pytest.approx(theirs, rel=0.05)
    assert bench["results"][0]["wrong"] == 0
    assert bench["expected"]["derivation"]
    assert bench["slow"] == []
