"""What does its maker's data sheet say of a GPU?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

NVIDIA, AMD = "https://www.nvidia.com/en-us", "https://www.amd.com/en/products/accelerators/instinct"
PAPERS = "https://images.nvidia.com/aem-dam/Solutions"
GEN3, GEN4, GEN5, GEN6 = 15.75, 31.5, 63.0, 121.0  # GB/s of 16 lanes in one direction
C2C = 450.0  # NVLink-C2C of a Grace, in one direction; two GPUs share it in GB200 and GB300


@dataclass(frozen=True)
class Model:
    """What the maker's data sheet says of a model: tensor cores without sparsity, in bfloat16 or else float16.

    ``gpu`` is the name of such a one, by which no other row may be found; a slice of it has no row.
    """

    pattern: str  # of the name that the driver reports
    matmul_tflops_per_s: float
    memory_gbytes_per_s: float
    host_gbytes_per_s: float
    gpu: str
    source: str
    matmul_kept: float = 1.0  # the share that cards of little power, or libraries of the maker, keep up
    host_kept: float = 1.0  # the share that hosts of an older PCIe leave


# NVIDIA's data sheets of each product ("Tensor Core", halved where with sparsity) and the white papers of GA102, AD102
# and GB202 (with float32 accumulation); AMD's of each Instinct. HGX B300: 36 PFLOP/s with sparsity of eight; B200: a
# bus of 7680 bits at 3996 MHz (pytorch/ao#4002); the RTX PRO 6000 by the clocks of each edition. The first that fits
# counts.
MODELS = (
    Model("GB300", 2500, 8000, C2C / 2, "NVIDIA GB300", f"{NVIDIA}/data-center/gb300-nvl72/"),
    Model("B300", 2250, 8000, GEN6, "NVIDIA B300", f"{NVIDIA}/data-center/hgx/", host_kept=0.5),
    Model("GB200", 2500, 8000, C2C / 2, "NVIDIA GB200", f"{NVIDIA}/data-center/gb200-nvl72/"),
    Model("B200", 2250, 7672, GEN5, "NVIDIA B200", "https://github.com/pytorch/ao/issues/4002"),
    Model(
        "GH200 144G HBM3e", 989, 4900, C2C, "NVIDIA GH200 144G HBM3e", f"{NVIDIA}/data-center/grace-hopper-superchip/"
    ),
    Model(
        "GH200 (480GB|120GB|96GB HBM3)",
        989,
        4000,
        C2C,
        "NVIDIA GH200 480GB",
        f"{NVIDIA}/data-center/grace-hopper-superchip/",
    ),
    Model("H200 NVL", 836, 4800, GEN5, "NVIDIA H200 NVL", f"{NVIDIA}/data-center/h200/"),
    Model("H200", 989, 4800, GEN5, "NVIDIA H200", f"{NVIDIA}/data-center/h200/"),
    Model("H100 NVL", 836, 3900, GEN5, "NVIDIA H100 NVL", f"{NVIDIA}/data-center/h100/"),
    Model("(H100|H800) PCIe", 756, 2000, GEN5, "NVIDIA H100 PCIe", f"{NVIDIA}/data-center/h100/"),
    Model("H100 80GB HBM3|H800", 989, 3350, GEN5, "NVIDIA H100 80GB HBM3", f"{NVIDIA}/data-center/h100/"),
    Model("H20-3e", 148, 4800, GEN5, "NVIDIA H20-3e", "https://willitrunai.com/es/gpus/h20-96gb"),
    Model("H20", 148, 4000, GEN5, "NVIDIA H20", "https://willitrunai.com/es/gpus/h20-96gb"),
    Model("(A100|A800)-SXM4-80GB", 312, 2039, GEN4, "NVIDIA A100-SXM4-80GB", f"{NVIDIA}/data-center/a100/"),
    Model("(A100|A800) 80GB PCIe", 312, 1935, GEN4, "NVIDIA A100 80GB PCIe", f"{NVIDIA}/data-center/a100/"),
    Model("(A100|A800)-(SXM4|PCIE)-40GB", 312, 1555, GEN4, "NVIDIA A100-SXM4-40GB", f"{NVIDIA}/data-center/a100/"),
    Model("A30", 165, 933, GEN4, "NVIDIA A30", f"{NVIDIA}/data-center/products/a30-gpu/"),
    Model("A40", 149.7, 696, GEN4, "NVIDIA A40", f"{NVIDIA}/data-center/a40/"),
    Model("A10", 125, 600, GEN4, "NVIDIA A10", f"{NVIDIA}/data-center/products/a10-gpu/"),
    Model(
        "A10G",
        70,
        600,
        GEN4,
        "NVIDIA A10G",
        "https://d1.awsstatic.com/product-marketing/ec2/NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf",
    ),
    Model("L40S", 362, 864, GEN4, "NVIDIA L40S", f"{NVIDIA}/data-center/l40s/"),
    Model("L40", 181, 864, GEN4, "NVIDIA L40", f"{NVIDIA}/data-center/l40/"),
    Model("L20", 119.5, 864, GEN4, "NVIDIA L20", f"{NVIDIA}/data-center/l40/"),
    Model("L4", 121, 300, GEN4, "NVIDIA L4", f"{NVIDIA}/data-center/l4/", matmul_kept=0.6),  # 72 W
    Model("V100S-PCIE-32GB", 130, 1134, GEN3, "NVIDIA V100S-PCIE-32GB", f"{NVIDIA}/data-center/v100/"),
    Model("V100-SXM2-(16|32)GB|V100-SXM3-32GB", 125, 900, GEN3, "NVIDIA V100-SXM2-16GB", f"{NVIDIA}/data-center/v100/"),
    Model("V100-PCIE-(16|32)GB", 112, 900, GEN3, "NVIDIA V100-PCIE-16GB", f"{NVIDIA}/data-center/v100/"),
    Model("T4", 65, 300, GEN3, "NVIDIA T4", f"{NVIDIA}/data-center/tesla-t4/", matmul_kept=0.6),  # 70 W
    Model(
        "RTX PRO 6000 Blackwell Server Edition",
        484,
        1597,
        GEN5,
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        f"{NVIDIA}/data-center/rtx-pro-6000-blackwell-server-edition/",
    ),
    Model(
        "RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        443,
        1792,
        GEN5,
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        f"{NVIDIA}/data-center/rtx-pro-6000-blackwell-server-edition/",
    ),
    Model(
        "RTX PRO 6000 Blackwell Workstation Edition",
        503.8,
        1792,
        GEN5,
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        f"{NVIDIA}/data-center/rtx-pro-6000-blackwell-server-edition/",
    ),
    Model(
        "RTX 6000 Ada Generation",
        364,
        960,
        GEN4,
        "NVIDIA RTX 6000 Ada Generation",
        f"{NVIDIA}/products/workstations/rtx-6000/",
    ),
    Model("RTX A6000", 154.8, 768, GEN4, "NVIDIA RTX A6000", f"{NVIDIA}/products/workstations/rtx-a6000/"),
    Model(
        "RTX 5090",
        209.5,
        1792,
        GEN5,
        "NVIDIA RTX 5090",
        f"{PAPERS}/geforce/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf",
    ),
    Model("RTX 4090", 165.2, 1008, GEN4, "NVIDIA RTX 4090", f"{PAPERS}/geforce/ada/nvidia-ada-gpu-architecture.pdf"),
    Model(
        "RTX 3090",
        71,
        936,
        GEN4,
        "NVIDIA RTX 3090",
        "https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf",
    ),
    # ROCm's libraries keep up half of the peak of MI300 and less. Each half of an MI250 or MI250X is a device.
    Model("MI355X", 2516, 8000, GEN5, "AMD Instinct MI355X", f"{AMD}/mi350/mi355x.html", matmul_kept=0.7),
    Model("MI350X", 2309, 8000, GEN5, "AMD Instinct MI350X", f"{AMD}/mi350/mi350x.html", matmul_kept=0.7),
    Model("MI325X", 1307, 6000, GEN5, "AMD Instinct MI325X", f"{AMD}/mi300/mi325x.html", matmul_kept=0.7),
    Model("MI300X", 1307, 5300, GEN5, "AMD Instinct MI300X", f"{AMD}/mi300/mi300x.html", matmul_kept=0.7),
    Model("MI300A", 980, 5300, GEN5, "AMD Instinct MI300A", f"{AMD}/mi300/mi300a.html", matmul_kept=0.7, host_kept=0.1),
    Model("MI250X", 191.5, 1638, GEN4, "AMD Instinct MI250X", f"{AMD}/mi200/mi250x.html", matmul_kept=0.7),
    Model("MI250", 181, 1638, GEN4, "AMD Instinct MI250", f"{AMD}/mi200/mi250.html", matmul_kept=0.7),
    Model("MI210", 181, 1638, GEN4, "AMD Instinct MI210", f"{AMD}/mi200/mi210.html", matmul_kept=0.7),
)


def model_of(name: str, rows: Iterable[Model] = MODELS) -> Model | None:
    """The data sheet of a GPU by its driver's name; None for a model we do not know, and for a slice of one."""
    if "MIG" in name:
        return None
    return next((row for row in rows if re.search(rf"(?<![\w-])({row.pattern})(?![\w-])", name)), None)
