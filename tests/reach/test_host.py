"""Is a host written as HOSTS has it?"""

from __future__ import annotations

import pytest

from preflight.reach.host import Host


@pytest.mark.parametrize(
    ("host", "written"),
    [
        (Host("n1", "n1"), "n1"),
        (Host("n1", "10.0.0.1"), "n1"),
        (Host("n1", "n1", user="ada"), "ada@n1"),
        (Host("n1", "n1", port=2222), "n1:2222"),
        (Host("n1", "fe80::1", user="ada", port=22), "ada@[fe80::1]:22"),
        (Host("n1", "fe80::1", user="ada"), "ada@fe80::1"),
    ],
)
def test_a_host_is_written_as_it_was_given(host, written):
    """With user and port where they were given, and brackets only where a port follows an IPv6 address."""
    assert host.written == written
