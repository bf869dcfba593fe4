"""Which platforms are there?

Each description is written by hand from the source it names; where a vendor publishes nothing of a file, its form is
that of the kernel's and the driver's documentation. Names of adapters, counts, rates and variables are the source's.
"""

from __future__ import annotations

from .boards import B200_IB, DGX_A100, DGX_H100, GB200, HGX_H200, MI300X
from .clouds import A3_MEGA, A3_ULTRA, AWS_P4D, AWS_P5, AZURE, COREWEAVE, LAMBDA, ORACLE
from .further import FURTHER
from .guests import GUESTS
from .plain import PLAIN
from .servers import CONTAINER, IPV6, L40S, MIXED, POD, SLURM, UBUNTU, gbe
from .unseen import UNSEEN
from .vendors import VENDORS

PLATFORMS = (
    *(gbe("1gbe", 1000), gbe("10gbe", 10000), gbe("25gbe", 25000), gbe("100gbe", 100000)),
    *(UBUNTU, DGX_H100, HGX_H200, B200_IB, DGX_A100, AZURE, AWS_P5, AWS_P4D, A3_MEGA, A3_ULTRA, ORACLE, LAMBDA),
    *(COREWEAVE, GB200, MI300X, L40S, IPV6, POD, SLURM, CONTAINER, MIXED),
    *(*VENDORS, *GUESTS, *FURTHER, *PLAIN, *UNSEEN),
)
BY_NAME = {platform.name: platform for platform in PLATFORMS}
