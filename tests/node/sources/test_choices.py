"""Tests of preflight.node.sources.choices."""

import os

from preflight.node.sources import choices


def tree(folder, **files):
    """Files of a /proc or /sys; two underscores stand for a slash."""
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return os.fspath(folder)


def test_what_was_chosen_is_read(tmp_path):
    """Figures, switches and names as the kernel writes them; intel_pstate says no_turbo."""
    proc = tree(
        tmp_path / "proc",
        sys__vm__overcommit_memory="2\n",
        sys__kernel__numa_balancing="0\n",
        **{"sys__fs__file-nr": "92000\t2000\t100000\n"},
        sys__net__netfilter__nf_conntrack_count="131072\n",
        sys__net__netfilter__nf_conntrack_max="262144\n",
        sys__user__max_user_namespaces="15000\n",
        sys__kernel__unprivileged_userns_clone="0\n",
        sys__kernel__pid_max="32768\n",
        **{"sys__kernel__threads-max": "1024\n"},
    )
    cpu = "devices__system__cpu__"
    sysfs = tree(
        tmp_path / "sys",
        fs__selinux__enforce="1",  # the kernel ends it without a line end
        devices__system__clocksource__clocksource0__current_clocksource="hpet\n",
        **{f"{cpu}smt__active": "1\n", f"{cpu}intel_pstate__no_turbo": "1\n"},
        **{f"{cpu}cpufreq__policy0__scaling_max_freq": "2000000\n"},
        **{f"{cpu}cpufreq__policy0__cpuinfo_max_freq": "4000000\n"},
    )
    assert choices.collect(proc, sysfs) == {
        "memory_overcommit": 2,
        "numa_balancing": 0,
        "most_processes": 1024,
        "files_held": 0.9,
        "connections_held": 0.5,
        "enforces_selinux": True,
        "users_make_namespaces": False,
        "has_smt": True,
        "has_boost": False,
        "clock_source": "hpet",
        "clock_share": 0.5,
    }


def test_what_a_kernel_does_not_have_is_absent_and_what_says_nothing_is_lost(tmp_path):
    """A file that is not there is no fault of the node; one that is empty was not measured."""
    found = choices.collect(os.fspath(tmp_path), os.fspath(tmp_path))
    assert {value["kind"] for value in found.values()} == {"absent"}
    sysfs = tree(tmp_path, devices__system__cpu__smt__active="", devices__system__cpu__cpufreq__boost="1\n")
    found = choices.collect(sysfs, sysfs)
    assert found["has_smt"]["kind"] == "failed"
    assert found["has_boost"] is True
