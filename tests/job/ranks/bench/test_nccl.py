"""Is what NCCL says of its paths kept, however much it says?"""

from __future__ import annotations

from preflight.job.ranks.bench.nccl import bytes_so_far, dump_topology, nccl_dump, nccl_lines


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
    kept = nccl_lines(str(log))
    assert kept == [*said[:8], tuning]


def test_what_was_written_before_is_left_out(tmp_path):
    """As far as it was when somebody looked; a file that is not there yet has nothing."""
    log = tmp_path / "nccl"
    assert bytes_so_far(str(log)) == 0
    first, second = (f"n1:7:9 [0] NCCL INFO NET/IB : Using [0]mlx5_{number}:1/IB" for number in range(2))
    log.write_text(first + "\n")
    begin = bytes_so_far(str(log))
    log.write_text(f"{first}\n{second}\n")
    assert nccl_lines(str(log), begin=begin) == [second]


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
    assert nccl_dump(str(path)) == [
        "CPU 1: x86_64 GenuineIntel 143",
        "GPU 4: NUMA 1, 32.0 GT/s x16, 16.0 GT/s x8, 18 NVLinks, GPUDirect 1",
        "adapter 4: NUMA 1, 32.0 GT/s x16, 400000 Mbit/s, GPUDirect 1",
    ]
    graph = '<graphs version="1"><graph id="0" pattern="4" nchannels="16" speedintra="20" speedinter="20" '
    path.write_text(graph + 'typeintra="NVL" typeinter="PIX"><channel><gpu dev="0"/></channel></graph></graphs>')
    assert nccl_dump(str(path)) == ["graph 0: 16 channels, 20/20 GB/s, NVL/PIX"]
    for text in ("", TOPO[:300]):
        path.write_text(text)
        assert nccl_dump(str(path)) == []
    assert nccl_dump(str(tmp_path / "none")) == []


def test_one_rank_of_a_node_asks_for_its_topology(monkeypatch):
    """All ranks of a node would write the same."""
    for local, asked in (("0", {"NCCL_TOPO_DUMP_FILE_RANK": "9", "NCCL_GRAPH_DUMP_FILE_RANK": "9"}), ("1", {})):
        monkeypatch.setattr("os.environ", {"LOCAL_RANK": local})
        dump_topology("/log", 9)
        import os

        assert {name: value for name, value in os.environ.items() if name.endswith("_RANK") and "DUMP" in name} == asked
