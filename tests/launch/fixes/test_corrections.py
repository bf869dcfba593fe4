"""Is the corrected line the line that was meant?"""

from __future__ import annotations

import pytest

from preflight.judge.ledger.findings import Verdict, Where
from preflight.judge.tables.launch_rules import VERDICTS
from preflight.launch.fixes.corrections import with_edits
from preflight.launch.plan import fail, problem, warn
from preflight.said import knowing, said

PORT = said("{name} {value}; wanted 1-65535", "--master_port", 66664)
CHANCE = said("the port {expression} comes out different on every node", "$((RANDOM % 9))")
ID = said("--rdzv_id {expression} comes out different on every node: the nodes never meet", "$RANDOM")
BATCH = said("train_batch_size {total} does not divide by {spelled}: DeepSpeed stops", 9, "2")
SET = said("{name} is set", "MASTER_ADDR")
NAME = "NCCL_IB_HCAS is read by no library"
LATE = "NCCL_IB_TIMEOUT=99; wanted 0 to 31"


@pytest.mark.parametrize(
    ("rule", "message", "fix", "line", "right"),
    [
        ("master_port_is_valid", PORT, "--master_port: 29500", "  --master_port=66664 \\", "  --master_port=29500 \\"),
        ("master_port_is_valid", PORT, "", "PORT=${PORT:-66664}", "PORT=${PORT:-29500}"),
        ("master_port_is_valid", PORT, "", "a 66664 b 66664", None),
        ("master_port_is_the_same_everywhere", CHANCE, "", 'P="$((RANDOM % 9))"', "P=29500"),
        ("master_port_is_the_same_everywhere", CHANCE, "", 'ssh a "P=\\$((RANDOM % 9))"', 'ssh a "P=29500"'),
        ("rendezvous_id_is_the_same_everywhere", ID, "--rdzv_id=job1, x", "--rdzv_id $RANDOM", "--rdzv_id job1"),
        ("nccl_variables_are_known", NAME, "NCCL_IB_HCA=a", "export NCCL_IB_HCAS=a", "export NCCL_IB_HCA=a"),
        ("variables_have_values_that_count", LATE, "NCCL_IB_TIMEOUT=31", "NCCL_IB_TIMEOUT='99'", "NCCL_IB_TIMEOUT=31"),
        ("variables_have_values_that_count", "GLOO=^a", "GLOO=eth0", "GLOO=^a", None),
        ("cuda_launches_do_not_block", "", "unset CUDA_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING=1 python t.py", None),
        ("variables_are_exported", SET, "", "  MASTER_ADDR=a", "  export MASTER_ADDR=a"),
        ("ranks_are_distinct", said("rank {taken} is given {where} times", 0, 3), "rank: 1", "rank: 0", None),
        ("master_address_is_an_address", said("master address {value!r} is", "me@n1"), "n1", "ip: me@n1", "ip: n1"),
        ("batch_sizes_multiply", BATCH, "train_batch_size: 8",
         '"train_batch_size": 9', None),
        ("counts_are_positive", "0 nodes", "1", "--nnodes 0", None),
    ],
)  # fmt: skip
def test_a_line_is_corrected_where_one_value_is_right(rule, message, fix, line, right):
    """What stands in it once, in whatever form; a line that leaves a choice is left alone."""
    found = with_edits(problem(Verdict(VERDICTS[rule][0]), rule, message, Where("x", 1), fix=fix), {"x": [line]})
    assert [edit.lines[0] for edit in found.edits] == ([] if right is None else [right])
    assert found.fix == (fix if right is None else f"line 1: {right.strip()}")


def test_a_line_that_only_sets_what_is_to_be_unset_goes():
    """The edit leaves nothing of it."""
    finding = warn("nccl_variables_are_safe", "", Where("x", 1), fix="unset NCCL_A")
    (edit,) = with_edits(finding, {"x": ["export NCCL_A=1  # why"]}).edits
    assert edit.lines == ()


def test_the_few_follow_the_many():
    """Of three files the one that differs; of two neither."""
    held = {"29500": [Where("a", 1), Where("b", 1)], "29400": [Where("c", 1)]}
    message = knowing("they differ", held=held)
    finding = fail("fields_agree", message, Where("c", 1), fix="")
    lines = {name: ["port: 29500"] for name in "ab"} | {"c": ["port: 29400"]}
    assert with_edits(finding, lines).edits[0].lines == ("port: 29500",)
    tie = fail(
        "fields_agree",
        knowing("they differ", held={"29500": [Where("a", 1)], "29400": [Where("c", 1)]}),
        Where("c", 1),
        fix="",
    )
    assert with_edits(tie, lines).edits == ()


def test_a_line_that_is_not_there_is_left():
    """A finding may point beyond what was given."""
    finding = fail("master_port_is_valid", PORT, Where("y", 7), fix="z")
    assert with_edits(finding, {"x": ["66664"]}) == finding
