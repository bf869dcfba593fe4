"""What is said of a job over nodes of two models of GPUs?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from preflight.judge.ledger.findings import Verdict
from tests.twins import faults_gpu, node
from tests.twins.hardware import FM, H100, H200, LAB, MLX, NVIDIA, RAILS, nic_place
from tests.twins.platform import Hca, Nic, Platform
from tests.twins.twin import Twin, notable

# HGX boards of one server's two years: NVIDIA HGX H100 and H200 (nvidia-smi -q of both), the same adapters and image.
BOARD = Platform(
    name="hgx-two-years",
    source="NVIDIA HGX H100 and H200: one baseboard, other memory and VBIOS; nvidia-smi -q -x of driver 570",
    nics=(Nic("ens3f0np0", (LAB,), 100000, 9000, "0000:e1:00.0"),),
    hcas=tuple(Hca(f"mlx5_{rail}", pci=nic_place(rail), board_id="MT_0000000838") for rail in RAILS),
    gpus=H100,
    environment={"NCCL_IB_HCA": "mlx5", "NCCL_SOCKET_IFNAME": "ens3f0np0", "GLOO_SOCKET_IFNAME": "ens3f0np0"},
    modules=(*NVIDIA, "nvidia_peermem", *MLX),
    processes=FM,
)
MODEL = "gpu.model_is_the_same_on_every_node"


def mixed(under, *, newer):
    """Four nodes, or as many, of which some have H200."""
    older, later = (
        node.make(replace(BOARD, gpus=gpus), 4, under / gpus.name.replace(" ", "-")) for gpus in (H100, H200)
    )
    folders = [later[n] if n in newer else older[n] for n in range(4)]
    for folder in (later[n] for n in newer):
        folder.sub(faults_gpu.QUERY, r"<vbios_version>.*<", "<vbios_version>96.00.B9.00.01<", 0)
    return Twin(folders)


@pytest.mark.parametrize("newer", [(3,), (2, 3)], ids=["one of four", "half"])
def test_two_models_are_one_finding(newer, tmp_path, lab_is_possible):
    """That the models differ is said once; what follows from it, as another VBIOS, is not a fault of its own."""
    twin = mixed(tmp_path, newer=newer)
    told = notable(twin.judge(twin.documents()))
    assert [(one.check, one.verdict) for one in told] == [(MODEL, Verdict.FAIL)]
    assert "NVIDIA H100 80GB HBM3 81559 MiB" in told[0].message
    assert "NVIDIA H200 143771 MiB" in told[0].message
