"""Which certificate holds, and which does not?"""

from dataclasses import replace
from datetime import timedelta

import msgspec

from preflight import __version__
from preflight.facts.decode import encode
from preflight.judge.settings import Settings
from preflight.launch.plan import LaunchFiles
from preflight.reach.hosts import parse_hosts
from preflight.run.reuse import certificates
from preflight.run.reuse.certificates import Asked
from tests.run.reuse.samples import CHECKS, NOW, SIX_HOURS, documents, kept, options


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
        assert found == "no --reuse run of these hosts with these options is certified yet"


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
