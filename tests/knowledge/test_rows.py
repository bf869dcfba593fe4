"""Does every row of what is known hold what its own examples show, and does no other row hold it for it?"""

from __future__ import annotations

import pytest

from tests.knowledge.tables import TABLES
from tests.shares import shares


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_example_shows_its_row_and_its_neighbour_does_not(table):
    """With all that is known."""
    assert table.red(table.rows) == set()
    assert len({table.name(row) for row in table.rows}) == len(table.rows)


@pytest.mark.parametrize("share", shares(3))
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_row_that_is_dropped_is_missed_by_its_own_example_alone(table, share):
    """Every row in turn."""
    wrong = {}
    for row in share.of(table.rows):
        red = table.red(other for other in table.rows if other is not row)
        if red != {table.name(row)}:
            wrong[table.name(row)] = red
    assert wrong == {}


@pytest.mark.parametrize("share", shares(3))
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_row_that_says_nothing_is_missed_by_its_own_example_alone(table, share):
    """Every row in turn has its texts emptied."""
    wrong = {}
    for row in share.of(table.rows):
        red = table.red(table.emptied(other) if other is row else other for other in table.rows)
        if red != {table.name(row)}:
            wrong[table.name(row)] = red
    assert wrong == {}
