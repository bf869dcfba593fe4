"""Tests of preflight.judge.tables.gpu_models."""

from __future__ import annotations

import pytest

from preflight.judge.tables import gpu_models
from preflight.testing import roce
from preflight.testing.hardware import gpus


@pytest.mark.parametrize(
    ("name", "cuda", "is_known"),
    [
        ("NVIDIA B200", "12.8", True),
        ("NVIDIA B200", "12.6", False),
        ("NVIDIA GB10", "12.9", True),
        ("NVIDIA GB10", "12.6", False),
        ("NVIDIA B300 SXM6 AC", "12.9", True),
        ("NVIDIA GeForce RTX 5090", "12.4", False),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "13.0", True),
        ("NVIDIA H100 80GB HBM3", "11.7", False),
        ("NVIDIA GeForce RTX 4090", "11.1", True),
        ("NVIDIA A100-SXM4-80GB", "10.2", False),
        ("NVIDIA A10", "12.1", True),
        ("Tesla T4", "13.0", True),
        ("Tesla V100-SXM2-32GB", "12.6", True),
        ("Tesla V100-SXM2-32GB", "13.0", False),
        ("Tesla K80", "12.1", False),
        ("Tesla P100-PCIE-16GB", "13.0", False),
    ],
)
def test_code_begins_and_ends_with_a_cuda(name, cuda, is_known):
    """A GPU older or newer than torch's CUDA is told; one that nobody knows is not."""
    run = roce(1).broken("node1", "software", torch_cuda=cuda).broken("node1", "gpu", devices=gpus(1, name=name))
    told = [fault.message(run.cluster.first) for fault in gpu_models.CODE]
    assert ("".join(told) == "") is is_known


@pytest.mark.parametrize(
    ("name", "version", "cuda", "is_known"),
    [
        ("Tesla P100-PCIE-16GB", "2.7.1+cu126", "12.6", True),
        ("Tesla P100-PCIE-16GB", "2.7.1+cu128", "12.8", False),
        ("Tesla P100-PCIE-16GB", "2.8.0+cu128", "12.8", False),
        ("Tesla P100-PCIE-16GB", "2.9.1+cu129", "12.9", False),
        ("Tesla P100-PCIE-16GB", "2.13.0+cu126", "12.6", True),
        ("Tesla M60", "2.10.0+cu126", "12.6", True),
        ("Tesla M60", "2.10.0+cu128", "12.8", False),
        ("Tesla V100-SXM2-32GB", "2.7.1+cu128", "12.8", False),
        ("Tesla V100-SXM2-32GB", "2.8.0+cu128", "12.8", True),
        ("Tesla V100-SXM2-32GB", "2.10.0+cu129", "12.9", True),
        ("Tesla V100-SXM2-32GB", "2.11.0+cu128", "12.8", False),
        ("Tesla V100-SXM2-32GB", "2.13.0+cu126", "12.6", True),
        ("Tesla V100-SXM2-32GB", "2.11.0", "12.9", True),  # conda-forge builds for it
        ("Tesla V100-SXM2-32GB", "2.8.0a0+5228986c39.nv25.5", "12.9", True),  # NVIDIA's container
        ("Tesla T4", "2.13.0+cu128", "12.8", True),
        ("NVIDIA H200", "2.13.0+cu128", "12.8", True),
    ],
)
def test_wheels_of_pytorch_leave_out_what_their_cuda_knows(name, version, cuda, is_known):
    """By its table of releases; a build of somebody else has another list, which nothing tells."""
    run = roce(1).broken("node1", "software", torch=version, torch_cuda=cuda)
    node = run.broken("node1", "gpu", devices=gpus(1, name=name)).cluster.first
    told = {fault.name: fault.message(node) for fault in gpu_models.CODE if fault.message(node)}
    assert list(told) == ([] if is_known else ["GPUs of PyTorch's wheel"])


@pytest.mark.parametrize("name", ["NVIDIA B300 SXM6 AC", "NVIDIA GB300", "NVIDIA GB10"])
def test_a_gpu_that_runs_the_code_of_its_family_is_a_warning(name):
    """A binary for sm_100 runs on sm_103, and one for sm_120 on sm_121; what is made for sm_100a alone does not."""
    run = roce(1).broken("node1", "gpu", devices=gpus(1, name=name))
    older = run.broken("node1", "software", torch_cuda="12.8").cluster.first
    told = [fault for fault in gpu_models.CODE if fault.message(older)]
    assert [(fault.name, fault.is_advisory) for fault in told] == [("CUDA with code for this very GPU", True)]
    assert not any(fault.message(run.cluster.first) for fault in gpu_models.CODE)
