"""Is a variable that does nothing, or was left over, told with what was meant or what it does?"""

from __future__ import annotations

import pytest

from preflight.knowledge.variables import judged as variables


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NCCL_IFNAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),
        ("NCCL_DISABLE_P2P", "NCCL_P2P_DISABLE"),
        ("NCCL_HCA", "NCCL_IB_HCA"),
        ("NCCL_IB_GID", "NCCL_IB_GID_INDEX"),
        ("NCCL_DEBUG ", "NCCL_DEBUG"),
        ("NCC_DEBUG", "NCCL_DEBUG"),
        ("GLOO_IFNAME", "GLOO_SOCKET_IFNAME"),
        ("TORCH_NCCL_BLOCKINGWAIT", "TORCH_NCCL_BLOCKING_WAIT"),
        ("TORCH_DISTRIBUTED_DEBUGG", "TORCH_DISTRIBUTED_DEBUG"),
    ],
)
def test_the_name_that_was_meant_is_offered(written, meant):
    """Letters wrong, words swapped, a word left out, a blank too many."""
    assert variables.unknown(written) == f"{written} is read by no library; did you mean {meant}?"


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_VERSION",
        "NCCL_TESTS_DEVICE",
        "NCCL_FASTRAK_IFNAME",
        "NCCL_UCX_TLS",
        "NCCL_EXCLUDE_IB_HCA",
        "TORCH_MY_OWN_THING",
        "CUDA_HOME",
        "RCCL_DEBUG",
        "CCL_DEBUG",
        "FOO",
    ],
)
def test_names_of_others_are_left_alone(name):
    """Plugins, test programs, images and frameworks have variables of their own."""
    assert variables.unknown(name) == ""


@pytest.mark.parametrize(
    ("name", "nccl", "torch", "words"),
    [
        ("NCCL_ASYNC_ERROR_HANDLING", "2.18.1", "2.1.0", ""),
        ("NCCL_ASYNC_ERROR_HANDLING", "2.18.1", "2.2.0", ""),
        ("NCCL_MAX_NRINGS", "none", "none", ""),
        ("NCCL_RINGS", "none", "none", "no longer read since 2.5"),
        ("TORCH_FR_BUFFER_SIZE", "2.27", "2.6.0+cu124", "not read by torch 2.6.0+cu124, but since 2.9"),
        ("NCCL_CONF_FILE", "none", "2.13.0", ""),
        ("NCCL_CONF_FILE", "2.22.3", "2.13.0", "not read by NCCL 2.22.3, but since 2.23"),
        ("NCCL_DEBUG", "2.1", "1.0", ""),
    ],
)
def test_a_variable_is_read_by_some_versions_only(name, nccl, torch, words):
    """The installed version decides; an unknown one is taken for new."""
    told = variables.unread(name, nccl=nccl, torch=torch)
    assert words in told if words else told == ""


def test_what_sets_a_node_apart_may_differ():
    """Ranks, devices and interfaces; nothing else."""
    names = ("NODE_RANK", "SLURM_NODEID", "CUDA_VISIBLE_DEVICES", "NCCL_SOCKET_IFNAME", "NCCL_IB_GID_INDEX", "RANK")
    assert all(map(variables.may_differ, names))
    assert not any(map(variables.may_differ, ("NCCL_DEBUG", "OMP_NUM_THREADS", "NCCL_ALGO", "NCCL_IB_TIMEOUT")))


def test_ranks_that_wait_for_different_numbers_of_ranks_must_agree():
    """A node that sets none may get it from its launcher; two values hang the start."""
    assert variables.must_agree("WORLD_SIZE", {"2", "3"})
    assert not variables.must_agree("WORLD_SIZE", {"2"})
