"""Tests of preflight.knowledge.variables.kinds."""

from __future__ import annotations

import pytest

from preflight.knowledge.variables import kinds


@pytest.mark.parametrize(
    ("kind", "taken", "refused"),
    [
        (kinds.whole(0, 31), ("0", "22", " 31", "0x1f", "22s"), ("-1", "32", "0x20", "many", "1e3x" * 0 + "x1")),
        (kinds.SWITCH, ("0", "1", "-2"), ("true", "yes", "3")),
        (kinds.FLAG, ("1", "TRUE", "no"), ("2", "maybe")),
        (kinds.choice("AF_INET", "AF_INET6"), ("AF_INET6", "af_inet"), ("IPv4", "AF_INET7")),
        (kinds.some_of("INIT", "NET"), ("INIT", "init,NET", "^NET"), ("NETWORK", "INIT NET")),
        (kinds.of_functions("Ring", "Tree"), ("ring", "^tree", "ring;allreduce:tree,ring"), ("rin", "ring tree")),
        (kinds.LEVEL, ("NVL", "sys", "4"), ("NEAR",)),
        (kinds.VISIBLE, ("0,1", "GPU-8a", "", "-1", "MIG-GPU-8a/1/0"), ("0 1", "a;b")),
        (kinds.THREADS, ("8", "8,4"), ("0", "all")),
        (kinds.TEXT, ("anything\nat all", ""), ()),
    ],
)
def test_what_a_library_takes_is_taken_and_nothing_else(kind, taken, refused):
    """An empty value is the same as none to all of them."""
    assert [value for value in (*taken, "") if kind.refuses(value)] == []
    assert [value for value in refused if not kind.refuses(value)] == []
