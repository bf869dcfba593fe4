"""What comes of the launch files of each test is listed in full (tests.launch.listing)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.launch import listing


@pytest.fixture(autouse=True)
def heard(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hold the test to what is listed for it."""
    item = request.node
    if not listing.is_listed(item):
        yield
        return
    found = listing.Heard(str(request.getfixturevalue("tmp_path")) if "tmp_path" in request.fixturenames else "")
    for module, name, function in list(listing.uses(request.module)):
        monkeypatch.setattr(module, name, found.hear(function))
    yield
    file, name = item.nodeid.partition("::")[0].removeprefix(listing.FOLDER), listing.name_of(item)
    writing = next((one for one in item.config.pluginmanager.get_plugins() if isinstance(one, listing.Writing)), None)
    if writing:
        writing.take(file, name, found)
    else:
        listing.assert_listed(file, name, found)
