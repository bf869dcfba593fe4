"""Are the rows of packages that break together sound?"""

from __future__ import annotations

from preflight.knowledge import packages
from preflight.knowledge.versions import is_within


def test_every_bad_pair_can_be_met():
    """Its versions can be read, and its source is an address."""
    for pair in packages.BAD_PAIRS:
        assert pair.source.startswith("https://")
        assert is_within(pair.versions.split(",")[0].lstrip("<>=") + ".0", ">=0")
        assert bool(pair.other) == bool(pair.other_versions)
