"""Is every setting of sysctl that decides how a job runs read on the nodes and compared between them?"""

from __future__ import annotations

import pytest

from preflight.knowledge.sysctls import SYSCTLS
from preflight.node.subjects import kernel
from preflight.testing import healthy
from tests.checks.samples import judge


def read_from(folder, value, row):
    """The facts of a node whose /proc holds a value for a row."""
    file = folder / "sys" / row.name.replace(".", "/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{value}\n")
    return kernel.settings(str(folder), [row.name])


@pytest.mark.parametrize("row", SYSCTLS, ids=lambda row: row.name)
def test_a_node_with_another_setting_is_named(row, tmp_path):
    """By what its /proc holds; not where all hold the same."""
    field = "network_settings" if row.name.startswith("net.") else "settings"
    usual, odd = (read_from(tmp_path, value, row) for value in (row.neighbour, row.example))
    run = healthy(3)
    run = run.broken(run.names, "kernel", **{field: usual})
    check = "kernel.settings_are_the_same_on_every_node"
    assert not [found for found in judge(check, run) if row.name in found.message]
    (found,) = (one for one in judge(check, run.broken("node3", "kernel", **{field: odd})) if one.fix)
    assert found.nodes == ("node3",)
    assert found.message.startswith(f"{row.name}: {row.neighbour} on node[1-2], {row.example} on node3")
