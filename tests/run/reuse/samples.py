"""Two nodes, a run of them, and the certificate that it leaves."""

from datetime import datetime, timedelta, timezone

from preflight.facts.decode import Document
from preflight.job.options.options import Options
from preflight.reach.hosts import parse_hosts
from preflight.run.reuse import certificates
from preflight.run.reuse.certificates import Asked
from preflight.testing import healthy

NOW = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
SIX_HOURS = timedelta(hours=6)
PATHS = {"node1 > node2": 0.12, "node2 > node1": 0.12}
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


def kept(archive, opts, *, held=None, checks=CHECKS):
    """A certificate in the archive."""
    run = healthy(2)
    found = certificates.made(
        opts, held or documents(), checks, bench=run.measured_bench, training=run.measured_training, paths=PATHS, at=NOW
    )
    archive.keep(Asked(opts, checks), found)
    return found
