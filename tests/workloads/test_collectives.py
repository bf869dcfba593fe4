"""Are the figures of collectives right? A wrong element, a rank that leaves and one that is absent must be told."""

from __future__ import annotations

import math
import statistics
import sys
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.results import RING, Result
from preflight.workloads import collectives, train
from preflight.workloads.collectives import COLLECTIVES, MIB

QUICK = {"target_seconds": 0.02, "cap_seconds": 0.3}
FEW = {"sizes": [MIB], "warmup": 1, "min_iterations": 6, "max_iterations": 6}

# Acts on the third whole-buffer sum of that rank: a warm-up, then a timed one, then this one.
SPOIL_AN_ELEMENT = """
import torch.distributed as dist
whole, calls = dist.all_reduce, []
def all_reduce(tensor, *args, **kwargs):
    large = tensor.numel() > 1000
    calls.append(large)
    if {before} and large and sum(calls) == 3:
        tensor[70000] += 1
    done = whole(tensor, *args, **kwargs)
    if not {before} and large and sum(calls) == 3:
        tensor[70000] += 1
    return done
dist.all_reduce = all_reduce
"""
LEAVE = """
import os, torch.distributed as dist
dist.broadcast = lambda *args, **kwargs: os._exit(7)
"""


def of_kind(records, kind):
    return [record for record in records if record["record"] == kind]


def as_result(record):
    return msgspec.convert({key: value for key, value in record.items() if key not in ("record", "rank")}, Result)


@pytest.fixture(scope="module")
def by_variables(ranks_by_variables):
    """Records by rank of two separate processes, size found by probing."""
    return ranks_by_variables("collectives.py", ranks=2, settings=QUICK)


@pytest.fixture(scope="module")
def played(forked_scenarios):
    """Every scenario of this file, played once."""
    return forked_scenarios(
        "collectives.py",
        {
            "all": {"ranks": 3, "settings": {**FEW, "operations": list(COLLECTIVES)}},
            "pipelined": {"ranks": 3, "settings": {**FEW, "operations": list(COLLECTIVES), "mode": "pipelined"}},
            "ring too": {"ranks": 2, "settings": {**FEW, "operations": ["broadcast"], "holds_to_ring": True}},
            "pairs": {
                "ranks": 3,
                "settings": {"operations": [], "pairs": [[[0, 1]], [[1, 2]], [[2, 0]]], "pair_bytes": 4 * MIB},
            },
            "small bfloat16": {
                "ranks": 3,
                "settings": {**FEW, "sizes": [8], "operations": list(COLLECTIVES), "dtype": "bfloat16"},
            },
            "groups": {
                "ranks": 4,
                "settings": {
                    **FEW,
                    "sizes": [4096],
                    "operations": list(COLLECTIVES),
                    "rounds": [
                        [{"name": "a", "ranks": [0, 2]}, {"name": "b", "ranks": [1, 3]}],
                        [{"name": "c", "ranks": [1, 2, 3]}],
                    ],
                },
            },
            "element in a group": {
                "ranks": 3,
                "settings": {**FEW, "rounds": [[{"name": "late", "ranks": [1, 2]}]]},
                "plants": {"2": SPOIL_AN_ELEMENT.format(before=False)},
            },
            "sizes of each": {
                "ranks": 2,
                "settings": {
                    **FEW,
                    "operations": ["all_reduce", "broadcast", "reduce"],
                    "sizes": [],
                    "sizes_by_operation": {"all_reduce": [4096, 8192], "broadcast": [1024]},
                },
            },
            "too large": {"ranks": 1, "settings": {"sizes": [1 << 60]}},
            "partly too large": {"ranks": 1, "settings": {**FEW, "sizes": [4096, 1 << 60]}},
            "alone": {"ranks": 1, "settings": {**FEW, "operations": list(COLLECTIVES)}},
            "element after": {
                "ranks": 3,
                "settings": FEW,
                "plants": {"1": SPOIL_AN_ELEMENT.format(before=False)},
            },
            "element before": {
                "ranks": 2,
                "settings": FEW,
                "plants": {"1": SPOIL_AN_ELEMENT.format(before=True)},
            },
            "rank leaves": {"ranks": 2, "settings": {**FEW, "operations": ["broadcast"]}, "plants": {"1": LEAVE}},
            "rank absent": {"ranks": 2, "started": [0], "settings": {"join_seconds": 1}},
            "unknown setting": {"ranks": 1, "settings": {"size": 1}},
        },
    )


def test_importing_the_program_does_not_import_torch():
    """The plain figures can be had without torch: nothing at module level imports it."""
    assert not hasattr(collectives, "torch")
    assert not hasattr(collectives, "dist")


@given(st.lists(st.floats(1e-6, 10), min_size=1, max_size=60))
def test_the_interval_holds_the_median_of_what_was_seen(values):
    """The interval of the median is made of values seen and has their median in it."""
    low, high = collectives.median_interval(values)
    assert {low, high} <= set(values)
    assert low <= statistics.median(values) <= high


@pytest.mark.parametrize("count", range(6, 61))
def test_the_interval_covers_95_percent_and_no_narrower_one_does(count):
    """Coverage computed from the binomial distribution is at least 0.95, and would not be one value further in."""
    low, high = collectives.median_interval([float(value) for value in range(count)])
    cut = int(low)
    assert high == count - 1 - cut
    assert coverage(count, cut) >= 0.95
    assert coverage(count, cut + 1) < 0.95


def coverage(count, cut):
    """The chance that the median lies between the values that `cut` others lie outside of on either side."""
    return sum(math.comb(count, heads) for heads in range(cut + 1, count - cut)) / 2**count


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=40), st.floats(0, 1))
def test_a_quantile_lies_among_the_values_and_agrees_with_the_median(values, share):
    """Quantiles stay within the values seen, and the one in the middle is the median."""
    assert min(values) <= collectives.quantile(values, share) <= max(values)
    assert collectives.quantile(values, 0.5) == pytest.approx(statistics.median(values))


def test_few_iterations_never_settle_however_equal_they_are():
    """Five equal values give no 95 % interval, six do; scattered ones do not settle."""
    assert not collectives.is_settled([1.0] * 5, ci=0.01)
    assert collectives.is_settled([1.0] * 6, ci=0.01)
    assert not collectives.is_settled([1.0, 1.5, 2.0] * 3, ci=0.01)


@given(st.integers(2, 5000))
def test_bus_factors_are_those_of_nccl_tests(ranks):
    """The factor of each operation is nccl-tests'."""
    assert {name: row.bus_factor(ranks) for name, row in COLLECTIVES.items()} == {
        "all_reduce": pytest.approx(2 * (ranks - 1) / ranks),
        "broadcast": 1,
        "sendrecv": 1,
        "reduce": 1,
        "all_gather": pytest.approx((ranks - 1) / ranks),
        "reduce_scatter": pytest.approx((ranks - 1) / ranks),
        "all_to_all": pytest.approx((ranks - 1) / ranks),
        "gather": pytest.approx((ranks - 1) / ranks),
        "scatter": pytest.approx((ranks - 1) / ranks),
    }


@pytest.mark.parametrize(("gbit_per_s", "wanted_mib"), [(1, 16), (0.2, 4), (10, 128), (0.001, 1)])
def test_the_size_found_makes_an_operation_last_near_the_target(gbit_per_s, wanted_mib):
    """A 1 Gbit link gets 16 MiB, a hundredth of that never less than 1 MiB."""
    seconds = MIB / (gbit_per_s * 1e9 / 8)
    found = collectives.automatic_bytes(
        probe_bytes=MIB, probe_seconds=seconds, target_seconds=0.15, most_bytes=256 * MIB
    )
    assert found == wanted_mib * MIB


@given(st.floats(1e-6, 100), st.integers(MIB, 1 << 36))
def test_the_size_found_is_a_power_of_two_within_memory(seconds, most_bytes):
    """Whatever the probe says, the size is a power of two that fits."""
    found = collectives.automatic_bytes(
        probe_bytes=MIB, probe_seconds=seconds, target_seconds=0.15, most_bytes=most_bytes
    )
    assert found.bit_count() == 1
    assert MIB <= found <= most_bytes


@given(st.integers(1, 12))
def test_what_is_received_is_what_was_sent(ranks):
    """For each operation every pattern received was sent by some rank, and none is received twice over."""
    for row in COLLECTIVES.values():
        sent = {keys for rank in range(ranks) for keys in row.sends(rank, ranks)}
        received = [key for rank in range(ranks) for keys in row.receives(rank, ranks) for key in keys]
        assert {(key,) for key in received} <= sent


def test_patterns_of_neighbours_differ_everywhere():
    """Data of another rank, or moved by a power of two, matches in no element."""
    for index in range(collectives.PERIOD):
        assert collectives.pattern(index, 0) != collectives.pattern(index, 1)
        assert all(collectives.pattern(index, 0) != collectives.pattern(index + (1 << bit), 0) for bit in range(30))


def test_each_rank_joins_and_ends(by_variables):
    """Every rank says where it is, on what device it runs and that it is done."""
    for rank, records in by_variables.items():
        stages = [record["stage"] for record in of_kind(records, "stage")]
        assert stages == ["import", "rendezvous", "communicator", "running", "running", "done"]
        (joined,) = of_kind(records, "joined")
        assert (joined["rank"], joined["device"], joined["nccl"]) == (rank, "cpu", "")
        assert joined["import_seconds"] > 0
        assert records[-1] == {"record": "done"}


def test_figures_and_fields_of_a_result_are_the_same(by_variables):
    """What a rank measures and the report has no field for would be lost, a field that no rank fills stay empty."""
    fields = set(Result.__struct_fields__)
    figures = set(collectives.summary([0.1, 0.2], size_bytes=8, bus_factor=1.0))
    assert figures <= fields
    (record,) = of_kind(by_variables[0], "result")
    assert set(record) - {"record"} == fields
    assert figures <= set(record)


def test_an_iteration_takes_as_long_as_its_slowest_rank(by_variables):
    """The result's figures are those of the maximum over ranks of each iteration, and rank 0 alone sends it."""
    (result,) = [as_result(record) for record in of_kind(by_variables[0], "result")]
    assert not of_kind(by_variables[1], "result")
    (ours,), (theirs,) = (of_kind(by_variables[rank], "matrix") for rank in (0, 1))
    slowest = [max(pair) for pair in zip(ours["seconds"], theirs["seconds"], strict=True)]
    assert result.iterations == len(slowest)
    assert result.seconds_median == pytest.approx(statistics.median(slowest))
    assert (result.seconds_low, result.seconds_high) == collectives.median_interval(slowest)
    assert result.algbw_gbytes_per_s == pytest.approx(result.bytes / result.seconds_median / 1e9)
    assert result.busbw_low_gbytes_per_s <= result.busbw_gbytes_per_s <= result.busbw_high_gbytes_per_s
    assert result.busbw_gbytes_per_s == result.algbw_gbytes_per_s  # of two ranks


@pytest.mark.parametrize("scenario", ["all", "alone", "pipelined", "small bfloat16"])
def test_every_operation_delivers_the_right_elements(played, scenario):
    """Each operation runs over gloo, its timed buffers hold exactly what they must, also with a rank alone."""
    results = {record["op"]: as_result(record) for record in of_kind(played[scenario]["records"], "result")}
    assert list(results) == list(COLLECTIVES)
    assert {result.wrong for result in results.values()} == {0}
    assert {result.in_place for name, result in results.items() if name in ("all_reduce", "broadcast")} == {True}


def test_an_element_spoilt_in_one_ranks_buffer_is_counted_there(played):
    """One element wrong in the timed buffer of one rank is one wrong element, of that rank."""
    (result,) = [as_result(record) for record in of_kind(played["element after"]["records"], "result")]
    assert (result.wrong, result.wrong_ranks) == (1, (1,))


def test_an_element_spoilt_before_the_operation_is_wrong_on_all(played):
    """What one rank puts in wrongly every rank counts."""
    (result,) = [as_result(record) for record in of_kind(played["element before"]["records"], "result")]
    assert (result.wrong, result.wrong_ranks) == (2, (0, 1))


def test_a_rank_that_leaves_fails_the_others_in_one_line(played):
    """The rank that is left says in which stage it failed, in one line, and ends with 1."""
    assert played["rank leaves"]["codes"] == [1, 7]
    (failed,) = of_kind(played["rank leaves"]["records"], "failed")
    assert (failed["rank"], failed["stage"]) == (0, "running")
    assert "\n" not in failed["error"]


def test_an_absent_rank_is_told_at_the_rendezvous(played):
    """With one rank never started the other gives up in the rendezvous, within its patience."""
    assert played["rank absent"]["codes"] == [1]
    (failed,) = of_kind(played["rank absent"]["records"], "failed")
    assert failed["stage"] == "rendezvous"


def test_groups_of_ranks_measure_by_themselves(played):
    """At once where they share no rank, then the next; each with its own figures, and every rank ends."""
    results = of_kind(played["groups"]["records"], "result")
    assert {(r["op"], r["group"], r["ranks"], r["rank"]) for r in results} == {
        (op, *group) for op in COLLECTIVES for group in (("a", 2, 0), ("b", 2, 1), ("c", 3, 1))
    }
    assert {result["wrong"] for result in results} == {0}
    assert played["groups"]["codes"] == [0, 0, 0, 0]
    assert len(of_kind(played["groups"]["records"], "done")) == 4


def test_a_wrong_element_in_a_group_is_of_the_rank_among_all(played):
    """Its number in the group would name another node."""
    (result,) = of_kind(played["element in a group"]["records"], "result")
    assert (result["wrong"], result["wrong_ranks"]) == (1, [2])


def test_several_at_once_are_told_as_such(played):
    """The result says in which mode and type it was taken."""
    for scenario, mode, dtype in (("pipelined", "pipelined", "float32"), ("small bfloat16", "blocking", "bfloat16")):
        for record in of_kind(played[scenario]["records"], "result"):
            assert (record["mode"], record["dtype"]) == (mode, dtype)


def test_a_size_that_memory_has_no_room_for_is_refused(played):
    """In one line, before anything is allocated."""
    (failed,) = of_kind(played["too large"]["records"], "failed")
    assert failed["error"].startswith("MemoryError: all_reduce of 1152921504606846976 bytes: the ranks have room for")


def test_the_sizes_that_fit_are_measured(played):
    """What does not fit is told, and costs none of the others."""
    records = played["partly too large"]["records"]
    assert [record["bytes"] for record in of_kind(records, "result")] == [4096]
    assert [record["bytes"] for record in of_kind(records, "left_out")] == [1 << 60]
    assert of_kind(records, "done")


@given(st.sampled_from(sorted(collectives.EXACT)), st.integers(1, 512))
def test_sums_of_patterns_are_exact_in_every_type(dtype, ranks):
    """The largest sum is one that the type holds, or the type is refused for so many ranks."""
    try:
        levels = collectives.levels_of(dtype, ranks=ranks)
    except ValueError:
        assert ranks > collectives.EXACT[dtype]
    else:
        assert ranks * (levels - 1) <= collectives.EXACT[dtype]
        assert max(collectives.pattern(index, 0, levels) for index in range(collectives.PERIOD)) == levels - 1


def test_an_unknown_setting_is_an_error_that_names_it(played):
    """A mistyped setting is not ignored."""
    (failed,) = of_kind(played["unknown setting"]["records"], "failed")
    assert "'size'" in failed["error"]


def test_started_by_hand_without_variables_it_says_what_is_lacking(monkeypatch):
    """One line that names the variables, no traceback."""
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["collectives.py"])
    with pytest.raises(SystemExit, match="RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT not set"):
        collectives.main()


def test_the_all_reduce_is_measured_once_more_over_a_ring(played):
    """Whatever else was asked for, with a name of its own; NCCL reads the variable when it makes the communicator."""
    told = [(as_result(r).title, as_result(r).wrong) for r in of_kind(played["ring too"]["records"], "result")]
    assert told == [("broadcast", 0), (f"all_reduce ({RING})", 0)]


def test_pairs_are_timed_by_who_receives(played):
    """Round by round, with the rate of its bytes in its seconds."""
    told = {
        (record["rank"], record["source"], record["round"]): record
        for record in of_kind(played["pairs"]["records"], "pair")
    }
    assert set(told) == {(1, 0, 0), (2, 1, 1), (0, 2, 2)}
    assert all(MIB <= r["bytes"] <= 4 * MIB for r in told.values())
    assert all(math.isclose(r["gbytes_per_s"], r["bytes"] / r["seconds"] / 1e9) for r in told.values())


def test_of_thousands_of_channels_the_log_keeps_each_path_and_every_algorithm(tmp_path):
    """What NCCL says after the channels of an all-to-all over many ranks is still there; the file is not."""
    log = tmp_path / "nccl"
    said = [
        f"n1:7:9 [0] NCCL INFO Channel {channel:02d}/1 : 0[0] -> {peer}[0] [send] via NET/IB/{channel % 8}/GDRDMA"
        for peer in range(1, 512)
        for channel in range(16)
    ]
    tuning = "n1:7:9 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}"
    log.write_text("\n".join([*said, "n1:7:9 [0] NCCL INFO unheard", tuning]) + "\n")
    kept = collectives.nccl_lines(str(log))
    assert kept == [*said[:8], tuning]


def test_an_operation_has_the_sizes_given_for_it(played):
    """The others find theirs by probing."""
    found = {}
    for record in played["sizes of each"]["records"]:
        if record["record"] == "result":
            found.setdefault(record["op"], []).append(record["bytes"])
    assert (found["all_reduce"], found["broadcast"], len(found["reduce"])) == ([4096, 8192], [1024], 1)


@pytest.mark.parametrize("ranks", [2, 16, 128, 1024])
@pytest.mark.parametrize("operation", ["all_to_all", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("size_bytes", [MIB, 4096 * MIB])
def test_tiles_fit_a_gpu_of_40_gb_at_any_number_of_ranks(ranks, operation, size_bytes):
    """A GiB at most, and none longer than what it is compared with."""
    row = COLLECTIVES[operation]
    tiles = len({*row.sends(1, ranks), *row.receives(1, ranks)})
    segment = size_bytes // 4 // ranks
    periods = collectives.periods_of_tile(tiles, segment=segment, itemsize=4, device="cuda")
    assert tiles * periods * collectives.PERIOD * 4 <= 1 << 30
    assert periods * collectives.PERIOD < segment + collectives.PERIOD
    assert periods >= 1


TOPO = """<system version="1">
  <cpu host_hash="0x8d3" numaid="1" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:9a:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
      <pci busid="0000:9b:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="8">
        <gpu dev="4" sm="90" rank="4" gdr="1"><nvlink target="0000:05:00.0" count="14"/><nvlink count="4"/></gpu>
      </pci>
      <nic><net name="mlx5_4" dev="4" latency="0" speed="400000" port="1" guid="0x2c2a" maxconn="131072" gdr="1"/></nic>
    </pci>
  </cpu>
</system>"""


def test_a_dump_of_nccl_becomes_a_line_a_part(tmp_path):
    """Without addresses, GUIDs and names, which are each node's own; cut short it gives none."""
    path = tmp_path / "topo"
    path.write_text(TOPO)
    assert collectives.nccl_dump(str(path)) == [
        "CPU 1: x86_64 GenuineIntel 143",
        "GPU 4: NUMA 1, 32.0 GT/s x16, 16.0 GT/s x8, 18 NVLinks, GPUDirect 1",
        "adapter 4: NUMA 1, 32.0 GT/s x16, 400000 Mbit/s, GPUDirect 1",
    ]
    graph = '<graphs version="1"><graph id="0" pattern="4" nchannels="16" speedintra="20" speedinter="20" '
    path.write_text(graph + 'typeintra="NVL" typeinter="PIX"><channel><gpu dev="0"/></channel></graph></graphs>')
    assert collectives.nccl_dump(str(path)) == ["graph 0: 16 channels, 20/20 GB/s, NVL/PIX"]
    for text in ("", TOPO[:300]):
        path.write_text(text)
        assert collectives.nccl_dump(str(path)) == []
    assert collectives.nccl_dump(str(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("confined", "local", "seen", "number"),
    [("", 3, 8, 3), ("", 3, 1, 3), ("1", 3, 1, 0), ("1", 1, 2, 1), ("1", 5, 2, 0), ("1", 3, 0, 3)],
    ids=["all are seen", "a GPU too few", "its own", "two of its own", "the third with two", "none is seen"],
)
def test_a_rank_takes_its_own_gpu_where_a_task_sees_no_other(monkeypatch, confined, local, seen, number):
    """Elsewhere a GPU that is not there is asked for, and the rank ends with CUDA's own words."""
    monkeypatch.setenv("LOCAL_RANK", str(local))
    monkeypatch.delenv("PREFLIGHT_OWN_GPUS", raising=False)
    if confined:
        monkeypatch.setenv("PREFLIGHT_OWN_GPUS", confined)
    assert [workload.own_gpu(seen) for workload in (collectives, train)] == [number, number]
    device = SimpleNamespace(type="cuda")
    assert train.name_of(device) == (f"cuda:{local}" if confined else str(device))
