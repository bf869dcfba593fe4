"""Tests of preflight.node.subjects.environment."""

import msgspec
import pytest

from preflight.facts.subjects.environment import Environment
from preflight.node.subjects import environment


def collect(*layers):
    facts = environment.collect({"environment": [list(layer) for layer in layers]})
    return msgspec.convert(facts, type=Environment, strict=True).variables


def test_the_last_layer_wins_and_is_named(monkeypatch):
    """A launch file beats the node, --env beats both, and each value says where it came from."""
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    monkeypatch.setenv("NCCL_IB_HCA", "mlx5")
    variables = collect(("launch.sh", {"NCCL_DEBUG": "INFO", "RANK": "0"}), ("--env", {"RANK": "3"}))
    assert (variables["NCCL_DEBUG"].value, variables["NCCL_DEBUG"].layer) == ("INFO", "launch.sh")
    assert (variables["RANK"].value, variables["RANK"].layer) == ("3", "--env")
    assert (variables["NCCL_IB_HCA"].value, variables["NCCL_IB_HCA"].layer) == ("mlx5", "node")


def test_nccls_own_file_is_the_weakest_layer(monkeypatch, tmp_path):
    """NCCL takes from its file only what the job's environment does not set."""
    conf = tmp_path / "nccl.conf"
    conf.write_text("NCCL_SOCKET_IFNAME=eth9\nNCCL_IB_TIMEOUT=22\n")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth0")
    variables = collect(("--env", {"NCCL_CONF_FILE": str(conf)}))
    assert variables["NCCL_SOCKET_IFNAME"].value == "eth0"
    assert (variables["NCCL_IB_TIMEOUT"].value, variables["NCCL_IB_TIMEOUT"].layer) == ("22", str(conf))


def test_nccl_conf_is_read_as_nccl_reads_it():
    """Comments and lines without = are passed over, the first line of a name holds, blanks are kept."""
    text = "# NCCL_A=0\nNCCL_A=1\nNCCL_A=2\nnonsense\nNCCL_B=a=b \n NCCL_C=3\nPATH=/x\nNCCL_D="
    assert environment.parse_nccl_conf(text) == {"NCCL_A": "1", "NCCL_B": "a=b ", "NCCL_D": ""}


def test_only_listed_variables_leave_the_node():
    """Names outside the list and every name that smells of a secret stay, whatever layer they are in."""
    kept = {"NCCL_X": "1", "WORLD_SIZE": "2", "LD_LIBRARY_PATH": "/lib", "TP_SOCKET_IFNAME": "eth0"}
    dropped = {
        "HOME": "/root",
        "MY_NCCL_X": "1",
        "SLURM_JWT": "a",
        "TORCH_API_KEY": "a",
        "ACCELERATE_HUB_TOKEN": "a",
        "NCCL_Secret": "a",
        "MASTER_PASSWORD": "a",
        "PET_AUTH": "a",
        "CUDA_CREDENTIALS": "a",
    }
    names = set(collect(("--env", {**kept, **dropped})))
    assert set(kept) <= names
    assert not names & set(dropped)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("http://user:pass@proxy:3128", "http://proxy:3128"),
        ("http://user:p@ss/w@proxy", "http://proxy"),
        ("user:pass@proxy:3128", "proxy:3128"),
        ("tcp://a:b@one,tcp://c@two", "tcp://one,tcp://two"),
        ("http://user:p,w@proxy", "http://proxy"),
        ("^docker0,lo", "^docker0,lo"),
        ("http://[fd00::1]:3128", "http://[fd00::1]:3128"),
    ],
)
def test_credentials_in_addresses_stay_on_the_node(value, told):
    """User and password of a proxy are cut out, the address is kept."""
    assert collect(("--env", {"https_proxy": value}))["https_proxy"].value == told
