"""Which words do libfabric and MPI use on Slingshot?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind

# How the adapter says that a message found nobody.
ENDED_ON_SLINGSHOT = (
    r"handle_cq_error\b.* - canceled\b",
    r"error\b.*\b(?:undeliverable|ptlte_not_found)\b",
)

CAUSES = (
    Cause(
        "cxi-no-service",
        "libfabric may not use the Slingshot adapters: this process has no virtual network (VNI) and no service of its own",
        (
            r"failed to find valid default rgroup and vni",
            r"couldn't open a fabric access domain.*function not implemented",
            r"\bvni_not_found\b",
            r"\bcxil_alloc_svc: ",
        ),
        "start the ranks with srun (SwitchType=switch/hpe_slingshot; `--network=single_node_vni` on one node,"
        " job_vni for others); run `cxi_service list` on the node; a container needs /dev/cxi* and SLINGSHOT_*"
        " of the step",
        "aws/aws-ofi-nccl#801; openpmix/prrte#2004; mochi-hpc/mochi-margo#305",
        weight=6,
    ),
    Cause(
        "cxi-queue-full",
        "MPI on Slingshot cannot post messages any more: a completion queue is full, and the ranks wait",
        (r"ofi is failing to make progress on posting",),
        "set FI_CXI_DEFAULT_CQ_SIZE=131072 on all ranks; set FI_CXI_RX_MATCH_MODE=hybrid where many messages"
        " arrive before they are asked for",
        "ofiwg/libfabric#9286",
        weight=8,
    ),
    Cause(
        "cxi-match-entries",
        "a Slingshot adapter ran out of entries for messages that nobody has asked for yet",
        (
            r"fi_cxi_rx_match_mode=\[hybrid\|software\] is required",
            r"flow control triggered due to failure to append le",
            r"flow control ux le resources",
        ),
        "set FI_CXI_RX_MATCH_MODE=hybrid (or software) on all ranks, and with it a larger FI_CXI_REQ_BUF_SIZE",
        "ofiwg/libfabric, fi_cxi(7)",
        weight=6,
    ),
    Cause(
        "cxi-undeliverable",
        "Slingshot could not deliver a message (UNDELIVERABLE): the node, adapter or link of the other side is down, or its adapter"
        " had no room for messages that no rank was waiting for",
        (r"error\b.*\bundeliverable\b",),
        "look for the rank that ended first, and at the node of its peer: `dmesg -T | grep -i cxi`, `cxi_stat`; where it comes back on"
        " other nodes, set FI_CXI_RX_MATCH_MODE=software on all ranks",
        "quokka-astro/quokka#353; ofiwg/libfabric, prov/cxi",
        Kind.SUSPICION,
        check="reach.every_node_answers",
        weight=6,
    ),
    Cause(
        "cxi-peer-gone",
        "a message over Slingshot found no endpoint on the other side (PTLTE_NOT_FOUND): that rank had ended, or had closed its endpoint",
        (r"error\b.*\bptlte_not_found\b",),
        "look for the first error of the other ranks, and for a rank that finished earlier than the others",
        "ofiwg/libfabric#10072",
        Kind.SUSPICION,
        weight=3,
    ),
)
