"""Which fixtures may a check take? Markers of how it runs: the judge puts the real objects in their place."""

from __future__ import annotations

import pytest

from preflight.job.options.options import Options
from preflight.judge.settings import Settings


class Fixtures:
    """The fixtures of a session with hosts."""

    options: Options

    @pytest.fixture
    def node(self) -> None:
        """Facts of one node; the check's body is evaluated for every node."""

    @pytest.fixture
    def cluster(self) -> None:
        """All nodes that answered."""

    @pytest.fixture
    def mesh(self) -> None:
        """The mesh of random ports."""

    @pytest.fixture
    def bench(self) -> None:
        """The all-reduce benchmark and the streams."""

    @pytest.fixture
    def training(self) -> None:
        """The reference training."""

    @pytest.fixture
    def rehearsal(self) -> None:
        """The user's own start, rehearsed."""

    @pytest.fixture
    def ending(self) -> None:
        """All nodes once more, after the last job."""

    @pytest.fixture
    def settings(self) -> Settings:
        """The thresholds of the run, as preflight.toml has them."""
        return self.options.settings
