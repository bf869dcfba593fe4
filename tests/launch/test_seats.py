"""What every rank will see."""

from __future__ import annotations

from preflight.launch.read import read_texts
from preflight.launch.seats import described, folded, ranks_table, section, span
from tests.launch.nodes import cluster, cluster_of, node
from tests.launch.samples import config, exports, pair, torchrun


def test_a_seat_for_every_rank():
    """Sixteen ranks over two nodes, with device, interface and address."""
    seats = ranks_table(read_texts(pair(torchrun)).plans, cluster())
    assert len(seats) == 16
    assert seats[9] == (9, "node2", 1, "cuda:1", "eth0", "10.0.0.2")


def test_rows_of_equal_shape_are_one():
    """Sixteen ranks are two rows, thousands of them one where the nodes differ in their number alone."""
    seats = ranks_table(read_texts(pair(torchrun)).plans, cluster())
    assert folded(seats) == [
        ("0-7", "node1", "0-7", "cuda:0-7", "eth0", "10.0.0.1"),
        ("8-15", "node2", "0-7", "cuda:0-7", "eth0", "10.0.0.2"),
    ]
    many = ranks_table(read_texts({"n.sh": torchrun(nodes=512)}).plans)
    assert folded(many) == [("0-4095", "node 0-511", "0-7", "", "", "")]
    apart = [(rank, f"n{rank}", 0, "cpu", "eth0", f"10.0.{rank}.1") for rank in range(100)]
    assert len(folded(apart)) == 65
    assert folded(apart)[-1][1] == "and 36 more"


def test_what_does_not_count_up_is_listed():
    """Devices 4 and 6 are no range."""
    assert span(["cuda:4", "cuda:6"]) == "cuda:4,cuda:6"
    assert span(["gpu09", "gpu10"]) == "gpu09-10"
    assert span(["cpu", "cpu"]) == "cpu"


def test_devices_that_are_not_there():
    """Eight processes on a node of two GPUs; device ids as they are listed."""
    seats = ranks_table(read_texts(pair(config)).plans, cluster_of(node(0), node(1, gpus=2)))
    assert [seat.device for seat in seats[8:11]] == ["cuda:0", "cuda:1", "none left"]
    listed = {"n.yaml": config(num_machines="1", num_processes="2", gpu_ids="'4,6'", main_process_ip=None)}
    assert [seat.device for seat in ranks_table(read_texts(listed).plans)] == ["cuda:4", "cuda:6"]


def test_ranks_by_hand():
    """RANK and LOCAL_RANK of the scripts, in the order of the ranks."""
    texts = {"a.sh": exports(1), "b.sh": exports(0)}
    assert [(seat.rank, seat.node) for seat in ranks_table(read_texts(texts).plans, cluster())] == [
        (0, "node2"),
        (1, "node1"),
    ]


def test_secrets_are_hidden():
    """Tokens of the environment and of the command, in the plan of the report."""
    plan = read_texts({"n.sh": "export HF_TOKEN=abc\n" + torchrun()}).plans[0]
    assert "abc" not in str(described(plan))
    assert described(plan)["nodes"] == {"value": 2, "file": "n.sh", "line": 4, "origin": "written"}


def test_the_section_of_the_report_has_every_start_and_rank():
    """Ranks by their names, as the table has them."""
    files = read_texts(pair(torchrun))
    found = section(files, cluster())
    assert found["launches"] == [described(plan) for plan in files.plans]
    assert len(found["ranks"]) == 16
    assert found["ranks"][9] == {
        "rank": 9,
        "node": "node2",
        "local_rank": 1,
        "device": "cuda:1",
        "interface": "eth0",
        "address": "10.0.0.2",
    }


def test_without_starts_there_are_no_ranks():
    """And a start by hand that names no rank has none."""
    assert ranks_table([]) == ()
    files = read_texts({"a.sh": exports(0), "b.sh": exports(1).replace("export RANK=1\n", "unset RANK\n")})
    assert [seat.rank for seat in ranks_table(files.plans)] == [0]
