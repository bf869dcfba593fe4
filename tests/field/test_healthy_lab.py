"""Four healthy hosts over ssh: is nothing said against them?"""

from __future__ import annotations

import pytest

from tests.e2e import thresholds
from tests.e2e.test_planted_faults import Judged

PATHS = "--same=/etc/passwd"


@pytest.mark.exclusive  # a busy machine makes stragglers
def test_nothing_is_said_against_four_healthy_hosts(make_lab, tmp_path):
    """A whole run of the standard profile, logins from host to host included: no fail, no warn, no error."""
    report = tmp_path / "report"
    run = Judged(make_lab(4), report, "--ssh-trust", PATHS, thresholds.defaults(report), hosts="node[1-4]")

    assert run.code == 0, run.told()
    assert run.of("fail") + run.of("warn") + run.of("error") == [], run.told()
    assert run.report["verdict"] == "pass"
    assert run.report["ledger"]["judged"] == run.report["ledger"]["expected"]
    assert run.report["mesh"]["ok"] == run.report["mesh"]["edges"] == 12
    assert run.report["training"]["world_size"] == 4
