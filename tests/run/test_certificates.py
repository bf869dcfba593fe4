"""Which certificate holds, which does not, and who could have written it?"""

import os
import stat
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import msgspec
import pytest

from preflight import __version__
from preflight.errors import UsageError
from preflight.facts.decode import Document, encode
from preflight.hosts import parse_hosts
from preflight.launch.plan import LaunchFiles
from preflight.options.options import Options
from preflight.options.settings import Settings
from preflight.run import certificates
from preflight.run.certificates import Archive, Asked
from preflight.testing import healthy

NOW = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
SIX_HOURS = timedelta(hours=6)
CHECKS = ("bench.speed", "training.loss")


def documents(*, mtu=9000, clock=0.0, names=("node1", "node2")):
    """What the nodes say: an interface, and a clock."""
    return {
        name: Document(
            1,
            name,
            index,
            f"10.0.0.{index}",
            0,
            {
                "network": {"interfaces": [{"name": "eth0", "mtu": mtu if name == "node2" else 9000}]},
                "clock": {"offset_seconds": clock if name == "node2" else 0.0, "uncertainty_seconds": 0.01},
            },
            {},
        )
        for index, name in enumerate(names)
    }


def options(tmp_path, **words):
    """Options of a run of two hosts."""
    given = {"hosts": parse_hosts("node[1-2]"), "reuse": SIX_HOURS, "report_dir": tmp_path / "report", **words}
    return Options(**given)


@pytest.fixture
def archive(tmp_path):
    """An archive of this user."""
    return Archive.opened(tmp_path / "state")


def kept(archive, opts, *, held=None, checks=CHECKS):
    """A certificate in the archive."""
    run = healthy(2)
    found = certificates.made(
        opts, held or documents(), checks, bench=run.measured_bench, training=run.measured_training, at=NOW
    )
    archive.keep(Asked(opts, checks), found)
    return found


def reason(certificate, held, opts, *, now=NOW, checks=CHECKS):
    """Why it does not hold."""
    return certificates.why_not(certificate, held, Asked(opts, checks), now=now, reuse=SIX_HOURS)


def test_what_was_measured_comes_back_as_it_was(archive, tmp_path):
    """For the same hosts, options, checks and facts; a clock that moved within a second is no change."""
    written = kept(archive, options(tmp_path))
    found = archive.find(Asked(options(tmp_path), CHECKS))
    assert found == written
    assert reason(found, documents(clock=0.9), options(tmp_path), now=NOW + SIX_HOURS) == ""
    assert reason(found, documents(), options(tmp_path), checks=CHECKS[:1]) == ""


OTHERS = {
    "host set": {"hosts": parse_hosts("node[1-3]")},
    "order of hosts": {"hosts": parse_hosts("node2,node1")},
    "user": {"hosts": parse_hosts("me@node1,node2")},
    "interpreter": {"python": "/opt/python3"},
    "variables": {"env": ("NCCL_ALGO=Tree",)},
    "backend": {"backend": "gloo"},
    "ranks": {"ranks_per_node": "4"},
    "profile": {"profile": "full"},
    "launcher": {"launcher": "torchrun"},
    "launch file": {"files": LaunchFiles(texts={"run.sh": "torchrun train.py  # now"})},
    "settings": {"settings": replace(Settings(), waivers=(1,))},
    "size": {"bench_begin": "1M"},
    "model": {"model": "small"},
    "verb": {"subjects": ("bench",)},
}


def test_other_options_have_no_certificate(archive, tmp_path):
    """What decides what is measured, and the text of launch files; where the report goes does not."""
    kept(archive, options(tmp_path, files=LaunchFiles(texts={"run.sh": "torchrun train.py"})))
    same = {"files": LaunchFiles(texts={"run.sh": "torchrun train.py"}), "fail_on_warn": True, "deadline": 60.0}
    assert not isinstance(archive.find(Asked(options(tmp_path / "other", **same), CHECKS)), str)
    for words in OTHERS.values():
        found = archive.find(Asked(options(tmp_path, **{**same, **words}), CHECKS))
        assert found == "no run of these hosts with these options is certified yet"


def test_a_change_takes_it_back_in_words(archive, tmp_path):
    """Age, a clock that was set, a fact, a node that did not answer, a check more, another version; values if known."""
    opts = options(tmp_path)
    found = kept(archive, opts)
    assert reason(found, documents(), opts, now=NOW + timedelta(hours=7)) == f"run {opts.run_id} was 7 h 0 min ago"
    assert "in the future" in reason(found, documents(), opts, now=NOW - timedelta(minutes=1))
    assert reason(found, documents(clock=1.5), opts) == "node2: the clock moved by +1.5 s"
    assert reason(found, documents(mtu=1500), opts) == "node2: network.interfaces has changed"
    assert reason(found, documents(names=("node1",)), opts) == "node2 did not answer"
    assert "was not asked for bench.more and 1 more" in reason(found, documents(), opts, checks=("bench.more", "x"))
    other = msgspec.structs.replace(found, version="0.0.1")
    assert reason(other, documents(), opts).endswith(f"was measured by preflight 0.0.1, this is {__version__}")
    (tmp_path / "report" / "facts").mkdir(parents=True)
    for name, held in documents().items():
        (tmp_path / "report" / "facts" / f"{name}.json").write_bytes(encode(held))
    assert reason(found, documents(mtu=1500), opts) == "node2: network.interfaces.eth0.mtu was 9000, is 1500"


def test_a_certificate_that_this_key_did_not_sign_is_none(archive, tmp_path):
    """One letter changed, or a key of another user: both are measured anew."""
    opts = options(tmp_path)
    kept(archive, opts)
    path = archive.path(Asked(opts, CHECKS))
    text = path.read_bytes()
    path.write_bytes(text.replace(b'"wrong": 0', b'"wrong": 1', 1))
    assert "was changed after it was signed" in archive.find(Asked(opts, CHECKS))
    path.write_bytes(text)
    (tmp_path / "state" / "certificates.key").write_bytes(bytes(32))
    other = Archive.opened(tmp_path / "state")
    assert other.find(Asked(opts, CHECKS)) == "no run of these hosts with these options is certified yet"
    os.rename(path, other.path(Asked(opts, CHECKS)))
    assert "signed with another key" in other.find(Asked(opts, CHECKS))


def test_the_key_is_for_this_user_alone(tmp_path):
    """It is made 0600 in a folder 0700, kept from run to run, and refused where others can read or replace it."""
    first = Archive.opened(tmp_path / "state")
    path = tmp_path / "state" / "certificates.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert Archive.opened(tmp_path / "state").key == first.key
    assert len(first.key) == 32
    path.chmod(0o640)
    with pytest.raises(UsageError, match="can be read by others: chmod 600 it"):
        Archive.opened(tmp_path / "state")
    path.chmod(0o600)
    path.parent.chmod(0o777)
    with pytest.raises(UsageError, match="can be written by others"):
        Archive.opened(tmp_path / "state")
    path.parent.chmod(0o700)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(bytes(32))
    with pytest.raises(UsageError, match=r"certificates\.key: Too many levels of symbolic links"):
        Archive.opened(tmp_path / "state")
    path.unlink()
    os.mkfifo(path, 0o666)  # nobody will ever write into it
    with pytest.raises(UsageError, match="can be read by others"):
        Archive.opened(tmp_path / "state")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
@pytest.mark.parametrize("which", ["certificates.key", "."])
def test_what_another_user_made_is_refused(tmp_path, which):
    """A key that he holds would sign whatever he writes; a folder of his holds what he puts there."""
    Archive.opened(tmp_path / "state")
    os.chown(tmp_path / "state" / which, 65534, 65534)
    with pytest.raises(UsageError, match="by others: chmod"):
        Archive.opened(tmp_path / "state")


def test_old_certificates_go(archive, tmp_path):
    """Fifty are kept; what else lies in the folder stays."""
    for number in range(certificates.KEPT + 2):
        kept(archive, options(tmp_path, deadline=60.0, bench_iters=str(number + 1)))
    assert len(list(archive.folder.glob("*.certificate"))) == certificates.KEPT
    assert (archive.folder / "certificates.key").exists()
