"""Tests of preflight.node.calls.rdma.perftest: the forms that ib_write_bw prints."""

import pytest

from preflight.node.calls.rdma import perftest

HEAD = """ WARNING: BW peak won't be measured in this run.
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_3
 Number of qps   : 4\t\tTransport type : IB
---------------------------------------------------------------------------------------
 local address: LID 0x02 QPN 0x0032 PSN 0x5f2841 RKey 0x002440 VAddr 0x007f2e5f64b000
---------------------------------------------------------------------------------------
"""


@pytest.mark.parametrize(
    ("header", "row", "wanted"),
    [
        (
            "#bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]",
            " 1048576    1024             0.00               392.08  \t\t     0.046740",
            49.01,
        ),
        (
            "#bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]",
            " 2          5000           0.042350            0.042185            2.636533",
            0.042185 / 8,
        ),
        (
            "#bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]",
            " 65536      5000             11734.10           11728.47\t\t   0.187656",
            12.298,
        ),
        (
            "#bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]",
            " 65536      5000             11734.10           11728.47\t\t   0.187656",
            12.298,
        ),
    ],
)
def test_the_average_is_read_in_its_unit(header, row, wanted):
    """perftest#108, #132 and #225: with --report_gbits, small figures, and older versions that know no such option."""
    assert perftest.rate(f"{HEAD} {header}\n{row}\n{'-' * 87}\n") == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "ib_write_bw printed nothing"),
        (f"{HEAD}Couldn't allocate MR\n failed to create mr\n", "failed to create mr"),
        (f"{HEAD} #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec]\n", "#bytes #iterations"),  # cut short
        ("Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n", "scnt=128"),
    ],
)
def test_what_has_no_figure_is_told_by_its_last_words(text, words):
    """Never a rate of 0."""
    with pytest.raises(ValueError, match=words):
        perftest.rate(text)


def test_a_port_is_named_as_nccl_takes_it():
    """Device, port, GID row, service level and traffic class; the client has the address of the server."""
    port = {"number": 3, "device": "mlx5_3", "port": 1, "gid": 3, "level": 1, "traffic_class": 106}
    words = perftest.argv("/usr/bin/ib_write_bw", port, tcp_port=18515, address="10.0.0.2")
    told = " ".join(words)
    assert told.startswith("/usr/bin/ib_write_bw -d mlx5_3 -i 1 -p 18515 -F --report_gbits -s 1048576 -n 256 -q 4")
    assert told.endswith("-x 3 -S 1 --tclass 106 10.0.0.2")
    assert perftest.argv("ib_write_bw", port, tcp_port=1)[-1] == "106"
    assert "--ipv6-addr" in perftest.argv("ib_write_bw", port, tcp_port=1, address="fd00::2")
