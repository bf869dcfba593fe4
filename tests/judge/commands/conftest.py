"""Every row of commands is asked in the words of today, and with the long tests in words that nobody knows."""

from __future__ import annotations

import pytest

from tests.shares import some_first
from tests.wording import WORDINGS, commands_read_other_words


@pytest.fixture(params=some_first(WORDINGS), autouse=True)
def wording(request, monkeypatch):
    """Whether the findings that the rows get are in other words than those of today."""
    if request.param == WORDINGS[1]:
        commands_read_other_words(monkeypatch)
    return request.param
