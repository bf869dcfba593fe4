"""Is the text of an option taken as it was meant, and anything else refused?"""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from preflight.job.options.values import duration, reach, vendor_tests, webhook
from preflight.said.errors import UsageError


def test_words_are_split_as_a_shell_would():
    """--wrap and --ssh-option are one argument each, of several words."""
    given = reach("/opt/py", "docker exec -i 'my trainer'", "-F cfg -oPort=22")
    assert given.wrap == ("docker", "exec", "-i", "my trainer")
    assert given.ssh_options == ("-F", "cfg", "-oPort=22")
    assert given.python == "/opt/py"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"wrap": "-x y"}, "--wrap '-x': wanted a program"),
        ({"wrap": "--privileged trainer"}, "--wrap '--privileged': wanted a program"),
        ({"python": "-c"}, "--python '-c': wanted a program"),
        ({"python": "-"}, "--python '-': wanted a program"),
        ({"ssh_option": "other"}, "--ssh-option 'other': wanted an option of ssh"),
        ({"ssh_option": "-v other"}, "--ssh-option 'other': wanted an option of ssh"),
        ({"ssh_option": "-p 22 other"}, "--ssh-option 'other': wanted an option of ssh"),
        ({"ssh_option": "-p22 other"}, "--ssh-option 'other': wanted an option of ssh"),
        ({"ssh_option": "-- other"}, "--ssh-option '--': wanted an option of ssh"),
        ({"ssh_option": "-"}, "--ssh-option '-': wanted an option of ssh"),
    ],
)
def test_a_word_is_nothing_else_than_it_was_meant_for(given, words):
    """No program is told an option in the place of a program, nor ssh a host in the place of an option."""
    with pytest.raises(UsageError, match=re.escape(words)):
        reach(**{"python": None, "wrap": "", "ssh_option": "", **given})


@pytest.mark.parametrize(
    "text", ["", "-v", "-vvv", "-p 22", "-vp 22 -4", "-oPort=22 -o Port=22", "-i -key -J jump,two"]
)
def test_options_of_ssh_are_taken_with_their_values(text):
    """Of one letter, or of several together."""
    assert reach(None, "", text).ssh_options == tuple(text.split())


@pytest.mark.parametrize("text", ["dcgm", "dcgmi:4", "rvs:1", "agfhc:9", "dcgmi,dcgmi:3"])
def test_a_vendors_test_that_is_not_known_is_a_usage_error(text):
    """With those that are."""
    with pytest.raises(
        UsageError, match=r"wanted some of dcgmi:2, dcgmi:1, dcgmi:3, nvbandwidth, rvs, agfhc:1, agfhc:2, agfhc:3"
    ):
        vendor_tests(text)


def test_a_time_has_a_unit_and_is_a_week_at_most():
    """What is older was measured on other machines."""
    assert [duration(text) for text in ("90s", "30m", " 6h ", "7d")] == [
        timedelta(seconds=90),
        timedelta(minutes=30),
        timedelta(hours=6),
        timedelta(days=7),
    ]
    for text in ("6", "h", "0h", "8d", "-1h", "1.5h", "1h30m", ""):
        with pytest.raises(UsageError, match="wanted a time up to 7d, such as 6h"):
            duration(text)


def test_a_webhook_is_a_url_and_nothing_of_another_is_shown():
    """It holds a secret."""
    assert webhook("https://hooks.example/T0/xyzzy") == "https://hooks.example/T0/xyzzy"
    for url in (
        "hooks.example/xyzzy",
        "ftp://a/xyzzy",
        "https:///xyzzy",
        "https://a:0/xyzzy",
        "https://a:x/xyzzy",
        "https://a/ xyzzy",
    ):
        with pytest.raises(UsageError, match="--notify: wanted the URL of a webhook") as caught:
            webhook(url)
        assert "xyzzy" not in str(caught.value)
