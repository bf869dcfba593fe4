"""Are limits raised where the next login reads them?"""

from __future__ import annotations

import subprocess

import pytest

from preflight.testing import healthy, roce
from tests.judge.commands.typed import as_root, typed


@pytest.mark.parametrize(("user_id", "whom"), [(0, "* root"), (1000, "*")])
def test_a_limit_is_written_where_logins_read_it(tmp_path, user_id, whom):
    """Soft and hard, in a file of its own; root has lines of its own, for those of everybody are not for root."""
    run = as_root(roce()).broken("node2", "limits", memlock_soft_bytes=1 << 16)
    run = run.broken("node2", "identity", user_id=user_id)
    (command,) = typed(run, "limits.memlock_is_enough_for_rdma").values()
    file = tmp_path / "limits.conf"
    path = "/etc/security/limits.d/90-preflight.conf"
    assert path in command
    subprocess.run(["sh", "-c", command.replace(path, str(file)).replace("sudo ", "")], check=True)
    lines = [f"{one} {kind} memlock unlimited\n" for one in whom.split() for kind in ("soft", "hard")]
    assert file.read_text() == "".join(lines)


def test_in_slurm_a_limit_is_that_of_its_daemon(tmp_path):
    """A task of slurmd is no login; the daemon's limit acts when it was started anew."""
    run = (
        as_root(roce())
        .broken("node2", "limits", memlock_soft_bytes=1 << 16)
        .broken("node2", "identity", context="slurm")
    )
    (command,) = typed(run, "limits.memlock_is_enough_for_rdma").values()
    folder, restarted = "/etc/systemd/system/slurmd.service.d", "systemctl daemon-reload && systemctl restart slurmd"
    assert command.endswith(restarted)
    subprocess.run(["sh", "-c", command.replace(folder, str(tmp_path)).replace(restarted, "true")], check=True)
    assert (tmp_path / "90-preflight-memlock.conf").read_text() == "[Service]\nLimitMEMLOCK=infinity\n"


def test_shared_memory_gets_half_of_the_memory_now_and_after_a_boot():
    """In a container its size is none of the node's."""
    run = as_root(healthy()).broken("node2", "limits", shm_free_bytes=1 << 20, shm_total_bytes=1 << 26)
    run = run.broken("node2", "identity", memory_bytes=64 << 30)
    assert typed(run, "limits.shared_memory_is_enough") == {"node2": "mount -o remount,size=32g /dev/shm"}
    (lasting,) = typed(run, "limits.shared_memory_is_enough", lasting=True).values()
    assert lasting.endswith("tee -a /etc/fstab >/dev/null")
    assert typed(run.broken("node2", "identity", context="container"), "limits.shared_memory_is_enough") == {}


def test_a_device_is_made_again():
    """By its own number, and for everybody."""
    run = as_root(healthy()).broken("node3", "limits", device_faults=("/dev/zero is no device",))
    wanted = {"node3": "rm -f /dev/zero && mknod -m 666 /dev/zero c 1 5"}
    assert typed(run, "limits.devices_of_every_program_are_there") == wanted


def test_what_is_left_behind_is_removed_by_its_name():
    """Quoted, whatever it is called."""
    run = as_root(healthy()).broken("node3", "limits", leftovers=("/dev/shm/preflight-a b",))
    assert typed(run, "limits.nothing_is_left_behind") == {"node3": "rm -r -- '/dev/shm/preflight-a b'"}
