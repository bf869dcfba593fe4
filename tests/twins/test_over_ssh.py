"""Is a platform under the hosts of a lab judged over ssh as it is in a process of its own?"""

import pytest

from tests.twins import over_ssh
from tests.twins.platforms import BY_NAME


@pytest.mark.parametrize("name", ["hgx-h200-roce", "l40s"])
def test_a_platform_is_judged_over_ssh(name, make_lab, tmp_path):
    """Healthy: exit 0, neither warning nor error. With a fault on one host: exit 1, and that host alone is named."""
    platform = BY_NAME[name]
    lab = make_lab(3, rate=None)
    folders = over_ssh.lay(lab, platform)
    code, report, output = over_ssh.run(lab, tmp_path / "healthy")
    told = [f for f in report["findings"] if f["verdict"] not in ("pass", "skip")]
    assert (code, told) == (0, []), output
    assert report["mesh"]["ok"] == report["mesh"]["edges"] == 6

    folders[2].sub("opt/twin/outputs/nvidia-smi -q -x", "<remapped_row_pending>No", "<remapped_row_pending>Yes")
    code, report, output = over_ssh.run(lab, tmp_path / "broken")
    told = [(f["check"], f["nodes"]) for f in report["findings"] if f["verdict"] not in ("pass", "skip")]
    assert (code, told) == (1, [("gpu.none_is_broken", ["node3"])]), output
