"""Is a rank that a quota of CPU stops told from one that it does not?"""

from __future__ import annotations

from preflight.job.ranks.training.quota import Quota, folders

STAT = "nr_periods {}\nnr_throttled {}\nthrottled_usec 900000\n"


def group(folder, every, stopped):
    """A control group with those counts."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.stat").write_text(STAT.format(every, stopped))


def test_periods_are_counted_from_the_beginning_of_the_steps(tmp_path):
    """What happened before, while torch was imported, is no matter; of several groups the one stopped most counts."""
    own, root = tmp_path / "cgroup", tmp_path / "fs"
    own.write_text("0::/pods/pod1\n")
    group(root / "pods/pod1", 100, 90)
    group(root / "pods", 10, 0)
    quota = Quota(str(own), str(root))
    assert quota.held() == (0, 0)
    group(root / "pods/pod1", 110, 97)
    group(root / "pods", 12, 1)
    assert quota.held() == (7, 10)


def test_the_first_version_and_a_container_are_read(tmp_path):
    """There the path is the host's, and what is mounted is the group itself."""
    own, root = tmp_path / "cgroup", tmp_path / "fs"
    own.write_text("11:memory:/docker/a\n4:cpu,cpuacct:/docker/a\n")
    group(root / "cpu,cpuacct", 4, 4)
    assert folders(str(own), str(root)) == [f"{root}/cpu,cpuacct"]


def test_without_a_quota_nothing_is_counted(tmp_path):
    """Of no file, of one that counts no periods, and of one that is none."""
    own, root = tmp_path / "cgroup", tmp_path / "fs"
    assert Quota(str(own), str(root)).held() == (0, 0)
    own.write_text("0::/\n")
    group(root, 0, 0)
    quota = Quota(str(own), str(root))
    (root / "cpu.stat").write_text("usage_usec 5\nnr_periods many\n")
    assert quota.held() == (0, 0)
