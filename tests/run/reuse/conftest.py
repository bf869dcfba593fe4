"""An archive for the tests of certificates."""

import pytest

from preflight.run.reuse.archive import Archive


@pytest.fixture
def archive(tmp_path):
    """An archive of this user."""
    return Archive.opened(tmp_path / "state")
