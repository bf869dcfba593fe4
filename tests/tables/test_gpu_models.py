"""Tests of preflight.tables.gpu_models."""

from __future__ import annotations

import re

import pytest

from preflight.tables import gpu_models
from preflight.testing import roce
from preflight.testing.hardware import gpus


@pytest.mark.parametrize(
    ("name", "cuda", "is_known"),
    [
        ("NVIDIA B200", "12.8", True),
        ("NVIDIA B200", "12.6", False),
        ("NVIDIA GB10", "12.8", False),
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


def test_every_row_can_be_met():
    """Each pattern is one, and each names a version of CUDA."""
    for model in gpu_models.MODELS:
        assert re.compile(model.pattern)
        assert re.fullmatch(r"(>=|<)\d+(\.\d+)?", model.cuda)
