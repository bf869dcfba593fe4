"""Are the rows of variables sound, and do they take what the libraries' own guides show?"""

from __future__ import annotations

import re

import pytest

from preflight.knowledge.variables.names import NCCL_ROWS, OTHER_ROWS, ROWS, TORCH_ROWS
from tests.bench.nccl_names import disagreements, names_in, newest_tags, spans


def test_rows_are_sound():
    """Every row has a source, a name of its own, and either forbids or allows a difference."""
    rows = (*NCCL_ROWS, *TORCH_ROWS, *OTHER_ROWS)
    assert len({row.name for row in rows}) == len(rows) == len(ROWS) > 250
    assert all(row.source.startswith("https://") for row in rows)
    assert not [row.name for row in rows if row.may_differ and row.must_agree]


def test_a_variable_stands_among_those_of_its_library():
    """NCCL's own under its name; none of them among torch's or the others'."""
    assert all(row.name.startswith("NCCL_") for row in NCCL_ROWS)
    assert not [row.name for row in OTHER_ROWS if row.name.startswith(("NCCL_", "TORCH_NCCL_"))]


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.since or row.until], ids=lambda row: row.name)
def test_a_version_is_told_by_its_number(row):
    """Perhaps of torch, perhaps with what to use instead. A name read since a version is not gone before it."""
    numbers = [re.match(r"(?:torch )?(\d+(?:\.\d+)*)", text) for text in (row.since, row.until) if text]
    assert all(numbers)
    if row.since and row.until:
        first, last = (tuple(map(int, found[1].split("."))) for found in numbers if found)
        assert first < last


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("NCCL_SOCKET_FAMILY", ("AF_INET", "AF_INET6"), ("ipv4", "4")),
        ("NCCL_DEBUG", ("INFO", "warn"), ("VERBOSE", "1")),
        ("NCCL_DEBUG_SUBSYS", ("INIT,NET", "^GRAPH"), ("NETWORK",)),
        ("NCCL_ALGO", ("Ring", "^Tree", "ring;allreduce:tree"), ("Star",)),
        ("NCCL_PROTO", ("LL128", "^LL128", "LL,Simple"), ("LL256",)),
        ("NCCL_IB_TIMEOUT", ("22", "20"), ("long",)),
        ("NCCL_P2P_LEVEL", ("NVL", "SYS", "5"), ("FAR",)),
        ("NCCL_IB_DISABLE", ("0", "1"), ("true", "yes")),
        ("NCCL_SOCKET_IFNAME", ("=eth0", "^lo,docker", "eth"), ()),
        ("CUDA_VISIBLE_DEVICES", ("0,1", "GPU-8a", ""), ("0 1",)),
        ("OMP_NUM_THREADS", ("8", "8,4"), ("0", "many")),
    ],
)
def test_a_row_takes_what_the_guide_of_its_library_shows(name, taken, refused):
    """And says what was wanted where the library would ignore or refuse the value."""
    assert [value for value in taken if ROWS[name].kind.refuses(value)] == []
    assert [value for value in refused if not ROWS[name].kind.refuses(value)] == []


def test_only_what_tells_a_node_from_the_others_may_differ():
    """What all ranks must agree on is never among it."""
    assert ROWS["NCCL_SOCKET_IFNAME"].may_differ
    for name in ("NCCL_SOCKET_FAMILY", "NCCL_IB_SL", "NCCL_IB_TC", "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_ADDR_FAMILY"):
        assert ROWS[name].must_agree
    assert not ROWS["NCCL_DEBUG"].may_differ


def test_names_are_drawn_from_nccls_sources():
    """Parameters and environment look-ups of a source, told by the versions that have them, against the table."""
    old = names_in('NCCL_PARAM(IbTimeout, "IB_TIMEOUT", 20);\n  env = ncclGetEnv("NCCL_SOCKET_IFNAME");\n')
    new = names_in('NCCL_PARAM(IbTimeout, "IB_TIMEOUT", 20);\nNCCL_PARAM(X, "MADE_UP", 1);\nINFO("NCCL_TEXT");\n')
    found = spans({"2.18": old, "2.30": new})
    assert found["NCCL_IB_TIMEOUT"] == ("2.18", "2.30")
    assert disagreements(found) == ["NCCL_MADE_UP: read by 2.30 to 2.30, and not in the table"]
    assert newest_tags(["v2.17.1-1", "v2.18.1-1", "v2.18.6-1", "v2.30.7-1"]) == {
        "2.18": "v2.18.6-1",
        "2.30": "v2.30.7-1",
    }
