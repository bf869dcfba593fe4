"""Does the page of many runs show them all, and does nothing on it act?"""

from preflight.report.html.trend import trend_html
from preflight.report.trend import trend


def test_the_page_shows_it_all_and_nothing_of_a_node_acts(series):
    """A curve a figure, the fall, the facts, links to the runs; hostile names are text."""
    runs = series([12.0, 12.0, 6.0])
    page = trend_html(trend(runs, ["r0", "<b>&", "r 2"], ["a <script>note"]))
    assert page.count("<svg") == 2
    assert "first in run r2" in page
    assert 'href="r%202/report.html"' in page
    assert "<script" not in page
    assert "<b>" not in page
    assert "script-src" not in page
