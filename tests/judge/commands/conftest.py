"""Every row of commands is asked twice: in the words of today, and in words that nobody knows."""

from __future__ import annotations

import pytest

from tests.wording import WORDINGS, commands_read_other_words


@pytest.fixture(params=WORDINGS, autouse=True)
def wording(request, monkeypatch):
    """Whether the findings that the rows get are in other words than those of today."""
    if request.param == WORDINGS[1]:
        commands_read_other_words(monkeypatch)
    return request.param
