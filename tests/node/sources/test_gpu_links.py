"""Tests of preflight.node.sources.gpu_links."""

import msgspec
import pytest

from preflight.facts.subjects.gpus.topology import Topology
from preflight.node.agent.missing import in_order
from preflight.node.sources import gpu_links

MATRIX = """\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV18\tPIX\tSYS\t0-47\t0\t\tN/A
GPU1\tNV18\t X \tSYS\tPXB\t48-95\t1\t\tN/A
NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tPXB\tSYS\t X \t\t\t\t

Legend:

  X    = Self

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_3
"""


def test_the_matrix_names_gpus_and_adapters():
    """Relations in the order of the columns, the CPUs near a GPU, and the adapters' own names."""
    facts = msgspec.convert(in_order(gpu_links.topology(MATRIX)), type=Topology, strict=True)
    assert [row.device for row in facts.rows] == ["GPU0", "GPU1", "NIC0", "NIC1"]
    assert facts.nearest_adapters() == {"GPU0": ("mlx5_0",), "GPU1": ("mlx5_3",)}
    assert facts.are_joined_by_nvlink()
    assert facts.shared_adapters() == ""


def test_two_gpus_near_one_adapter_share_it():
    """With an adapter for each, that one of them lies idle is told."""
    shared = MATRIX.replace("SYS\tPXB\t48", "PIX\tSYS\t48")
    facts = msgspec.convert(in_order(gpu_links.topology(shared)), type=Topology, strict=True)
    assert facts.shared_adapters() == "mlx5_0 is nearest to GPU0 and GPU1"


@pytest.mark.parametrize("length", range(0, MATRIX.index("\n\nLegend") - 12, 7))
def test_a_matrix_that_is_cut_short_is_refused(length):
    """A row too few would look like a lost adapter."""
    with pytest.raises(ValueError, match="nvidia-smi topo -m"):
        gpu_links.topology(MATRIX[:length])


def test_active_and_inactive_links_are_counted():
    """One line a link; where all are inactive, how many there are is not told."""
    text = """GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)
\t Link 0: 25 GB/s
\t Link 1: <inactive>
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-2)
NVML: Unable to retrieve NVLink information as all links are inactive
GPU 2: NVIDIA L40S (UUID: GPU-3)
Device does not have or support Nvlink
"""
    found = gpu_links.nvlinks(text)
    assert (found[0], found[1]) == ({"active": 1, "inactive": 1}, {"active": 0, "inactive": 1})
    assert found[2] == {"missing": "nvidia-smi nvlink -s says Device does not have or support Nvlink", "kind": "absent"}


@pytest.mark.parametrize("words", ["as all links are inActive", "as ALL LINKS ARE INACTIVE"])
def test_links_that_are_all_dead_are_found_however_it_is_written(words):
    """Drivers write inActive and inactive."""
    text = f"GPU 0: NVIDIA B200 (UUID: GPU-1)\nNVML: Unable to retrieve NVLink information {words}\n"
    assert gpu_links.nvlinks(text) == {0: {"active": 0, "inactive": 1}}


def test_the_slowest_active_link_of_each_gpu_is_told():
    """A GPU whose links are down, or whose driver prints no rate, has none."""
    text = (
        "GPU 0: NVIDIA H100\n\t Link 0: 26.562 GB/s\n\t Link 1: 13.281 GB/s\n\t Link 2: <inactive>\n"
        "GPU 1: NVIDIA H100\n\t Link 0: <inactive>\nGPU 2: NVIDIA H100\n\t Link 0: active\n"
    )
    assert gpu_links.speeds(text) == {0: 13.281}


def test_a_sentence_that_is_not_known_is_no_answer():
    """It is neither a GPU without NVLink nor one whose links are up."""
    found = gpu_links.nvlinks(
        "GPU 0: NVIDIA H200 (UUID: GPU-1)\nNVML: Driver is busy\nGPU 1: NVIDIA H200 (UUID: GPU-2)\n"
    )
    assert (found[0]["kind"], found[1]["kind"]) == ("failed", "absent")


def test_a_text_without_gpus_is_refused():
    """An error of the tool is not a node without links."""
    with pytest.raises(ValueError, match="lists no GPU"):
        gpu_links.nvlinks("NVIDIA-SMI has failed")


def counted(*lines):
    """The form of nvidia-smi nvlink -e for one GPU."""
    return "\n".join(["GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-ab-0)", *(f"\t Link {line}" for line in lines)]) + "\n"


HOPPER = [f"{link}: {name} Errors: 0" for link in (0, 1) for name in ("Replay", "Recovery", "CRC")]
BLACKWELL = (
    *("0: Malformed packet Errors: 0", "0: Tx discards: 5", "0: Link recovery failed events: 2"),
    *("0: Total link recovery events: 2", "0: Effective Errors: 0", "0: Effective BER: 15e-255"),
    *("0: Symbol Errors: 9", "0: FEC Errors - 0: 36140749276"),
)


def test_errors_of_nvlinks_are_told_by_link_and_name():
    """Counters at 0 are only counted; what FEC corrects and other rates are no errors."""
    assert gpu_links.errors(counted(*HOPPER)) == {"GPU-ab-0": {"links": 2, "counters": 6, "counted": {}}}
    (found,) = gpu_links.errors(counted(*BLACKWELL)).values()
    told = {"link 0: Link recovery failed events": 2, "link 0: Total link recovery events": 2}
    assert found == {"links": 1, "counters": 5, "counted": {**told, "link 0: Symbol Errors": 9}}
    (found,) = gpu_links.errors("GPU 3: NVIDIA GB300\n\t Link 0: CRC Errors: 7\n").items()
    assert found == ("3", {"links": 1, "counters": 1, "counted": {"link 0: CRC Errors": 7}})


def test_counters_that_are_cut_short_are_not_known():
    """In the middle of a word, or between the counters of a link; without NVLink there is none."""
    for lines in (HOPPER[:-1], [*HOPPER[:3], "1: Replay Err"], HOPPER[:1] + HOPPER[3:]):
        (found,) = gpu_links.errors(counted(*lines)).values()
        assert found == {"missing": "nvidia-smi nvlink -e was cut short", "kind": "failed"}
    (found,) = gpu_links.errors("GPU 0: NVIDIA L40S (UUID: GPU-1)\nDevice does not have or support Nvlink\n").values()
    assert found["kind"] == "absent"
    (found,) = gpu_links.errors("GPU 0: NVIDIA H100 (UUID: GPU-1)\nUnknown Error\n").values()
    assert found["kind"] == "failed"
    with pytest.raises(ValueError, match="lists no GPU"):
        gpu_links.errors("")


ACCESS = "\t\x1b[4mGPU0\tGPU1\x1b[0m\n GPU0\tX\tOK\n GPU1\tOK\tX\n\nLegend:\n\n  X    = Self\n"


def test_peer_access_is_what_both_matrices_grant():
    """By reading and by writing; the first that is refused says why."""
    assert gpu_links.peer_access(ACCESS, ACCESS) == [["X", "OK"], ["OK", "X"]]
    assert gpu_links.peer_access(ACCESS, ACCESS.replace("OK", "TNS", 1)) == [["X", "TNS"], ["OK", "X"]]


@pytest.mark.parametrize("text", ["", ACCESS[:35], ACCESS[: ACCESS.index("Legend") - 8], ACCESS.replace("OK", "?")])
def test_a_matrix_of_peer_access_that_is_not_whole_is_refused(text):
    """However much of it is lost."""
    for pair in ((text, ACCESS), (ACCESS, text)):
        with pytest.raises(ValueError, match="nvidia-smi topo -p2p"):
            gpu_links.peer_access(*pair)


BY_NAME = """\tGPU0\tGPU1\tibp59s0\tbnxt_re0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV12\tPXB\tSYS\t0-31\t0
GPU1\tNV12\t X \tSYS\tPXB\t32-63\t1
ibp59s0\tPXB\tSYS\t X \tSYS\t\t
bnxt_re0\tSYS\tPXB\tSYS\t X \t\t
"""


def test_adapters_that_stand_there_by_name_are_read():
    """Drivers before 515 have no legend of NICs, and not every adapter is called mlx5."""
    told = msgspec.convert(in_order(gpu_links.topology(BY_NAME)), Topology)
    assert told.nearest_adapters() == {"GPU0": ("ibp59s0",), "GPU1": ("bnxt_re0",)}


@pytest.mark.parametrize(("words", "counts"), [("Down", (1, 1)), ("<inactive>", (1, 1)), ("N/A", (1, 0))])
def test_a_link_is_up_by_its_rate_only(words, counts):
    """What else may stand there is no link that carries anything."""
    text = f"GPU 0: NVIDIA B200 (UUID: GPU-1)\n\t Link 0: 50 GB/s\n\t Link 1: {words}\n"
    assert gpu_links.nvlinks(text)[0] == dict(zip(("active", "inactive"), counts, strict=True))
