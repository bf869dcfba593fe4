"""Which words do EFA, PSM, NVSHMEM and SHARP use?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind
from preflight.diagnose.causes.network.slingshot import ENDED_ON_SLINGSHOT

# Calls before the first message: of the plug-in of NCCL and of MPICH, whose lines also look like those of a failed transfer,
BEGUN = (
    r"couldn't open (?:an? )?(?:av|cq|endpoint|domain|fabric(?! access)|\w+ endpoint)\b",
    r"couldn't (?:bind ep-\w+|enable endpoint)",
    r"creating new endpoint for domain .*failed",
    r"\bfi_(?:domain|endpoint|scalable_ep|av_open|cq_open|enable|ep_bind)(?:\(\))? failed",
    r"ofi \w.* fail\w* \(ofi_(?:init|vci)\.[ch]",
)
# and of libfabric's own providers, Mercury and Open MPI.
OPENED = (
    *BEGUN,
    r"unable to create extended cq",
    r"libfabric library call \(fi_(?:fabric|domain|endpoint|av_open|cq_open|enable|ep_bind)\)",
)

CAUSES = (
    Cause(
        "efa-no-provider",
        "libfabric finds no EFA device: the plug-in falls back or fails",
        (
            r"only efa provider is supported",
            r"fi_getinfo\(\) call failed",
            r"provider efa output empty list",
            r"could not find any optimal provider",
            r"no eligible providers were found",
            r"nccl warn net/ofi failed to initialize",
            r"nccl warn net/ofi aws-ofi-nccl initialization failed",
            r"fi_info .*efa && no data available",
        ),
        "`fi_info -p efa -t FI_EP_RDM` must list a device in the container: it needs /dev/infiniband/uverbs* and"
        " the EFA plug-in of the cluster; use an instance type with EFA and a recent aws-ofi-nccl",
        "aws/aws-ofi-nccl#1020; aws/deep-learning-containers#2675",
        check="rdma.devices_can_be_opened",
        weight=5,
        unless=(r"nccl info net/ofi no eligible",),
    ),
    Cause(
        "efa-security-group",
        "EFA peers do not answer: the security group does not allow traffic to itself in both directions",
        (
            r"unresponsive receiver",
            r"unable to insert remote address into address vector",
            r"unreachable remote \(never received a response",
            r"unreachable remote - never received a response",
        ),
        "add rules for all traffic in and out to the security group itself (0.0.0.0/0 does not cover EFA)",
        "gardener/gardener-extension-provider-aws#1832",
        check="mesh.every_node_reaches_every_other_on_random_ports",
        weight=8,
        unless=(r"previously (?:established|responsive)",),
    ),
    Cause(
        "efa-peer-lost",
        "an EFA peer stopped answering: its process ended, or its node or adapter failed",
        (
            r"unresponsive receiver \(connection previously established",
            r"unresponsive remote \(was previously responsive",
            r"bad queue pair \(qp\) number",
            r"connection was reset by remote peer",
            r"operation aborted because the peer closed its memory registration",
            r"handle_error\(\).*invalid address.*peer efa addr",
        ),
        "look at the peer in the line: the first error of its rank, and the kernel log of its node (`dmesg -T`:"
        " killed processes, Xid, efa)",
        "ofiwg/libfabric, prov/efa/src/efa_errno.h",
        Kind.SUSPICION,
        check="reach.every_node_answers",
        weight=2,
    ),
    Cause(
        "efa-versions",
        "aws-ofi-nccl was built for another libfabric than the one that it finds when it runs",
        (
            r"could(?:n't| not) set fi_opt_",
            r"requires at least libfabric version",
            r"version `fabric_\d\S*' not found",
        ),
        "use one EFA installer for image and node, and its aws-ofi-nccl; `ldd libnccl-net.so` says which libfabric is found first"
        " (LD_LIBRARY_PATH)",
        "aws/aws-ofi-nccl#241",
        check="rdma.plugin_of_nccl_is_there",
        weight=5,
    ),
    Cause(
        "efa-transfer-error",
        "a transfer over libfabric failed",
        (
            r"net/ofi request .*completed with error",
            r"efa internal error: \(\d+\)",
            r"nccl warn net/ofi .*(?:error|fail)",
            r"ofi \w.* failed \(ofi_\w+\.[ch]",
            r"ofi \w.* failed \(default nic=",
            r"\bfi_mr_reg\w*\(\) failed",
            r"(?:local|remote) memory registration is invalid, has insufficient",
            r"remote feature mismatch",
            r"no valid address handle at remote side",
            r"unexpected status returned by responder",
        ),
        "look for the first failure on the peer; check FI_EFA_USE_DEVICE_RDMA, and huge pages and memlock of the"
        " container; use the same EFA installer and aws-ofi-nccl everywhere",
        "aws/aws-ofi-nccl#24",
        Kind.SUSPICION,
        check="rdma.no_errors_were_counted_during_the_run",
        weight=4,
        unless=(
            r"previously (?:established|responsive)",
            r"bad queue pair \(qp\)",
            *ENDED_ON_SLINGSHOT,
            *BEGUN,
        ),
    ),
    Cause(
        "libfabric-not-opened",
        "libfabric found an adapter and could not open it (domain, endpoint, completion queue, address vector): locked memory, rights,"
        " an adapter that is full, or a library of another version",
        OPENED,
        "`ulimit -l` of the job must be unlimited; end what an earlier job left on the adapter; FI_LOG_LEVEL=warn says which call"
        " failed; `fi_info` and the versions of libfabric and the plug-in must be the same on every node",
        "ofiwg/libfabric; aws/aws-ofi-nccl#24, #715; pmodels/mpich#6547",
        check="limits.memlock_is_enough_for_rdma",
        weight=5,
        unless=(r"fi_(?:getinfo|mr_reg)", r"addrinfo"),
    ),
    Cause(
        "psm-not-opened",
        "PSM (Omni-Path, or PSM3 over verbs) could not open its adapter: the link is down, its contexts are used up, or the"
        " process lacks the rights",
        (
            r"psm\d can't open (?:hfi|nic) unit",
            r"psm\d was unable to open an endpoint",
            r"unable to initialize verbs nic",
            r"hfi_userinit: .*fail",
            r"failed to modify ud qp to (?:init|rtr|rts)",
        ),
        "`opainfo` or `ibstat` on the node must show the link active; start fewer ranks a node, or set PSM2_RANKS_PER_CONTEXT=2 and do not"
        " set PSM2_SHAREDCONTEXTS to 0; give a container /dev/hfi1* or /dev/infiniband; PSM3_NIC names the adapter",
        "cornelisnetworks/opa-psm2; ofiwg/libfabric, prov/psm3",
        check="rdma.devices_can_be_opened",
        weight=6,
    ),
    Cause(
        "nvshmem-transport",
        "NVSHMEM could not start its transport between GPUs: GPUDirect is missing, the driver does not let a GPU"
        " ring the adapter's doorbell, or the container has too few rights",
        (
            r"init failed for transport: \w+",
            r"cannot allocate mlx5dv_devx_uar",
            r"nvshmem.*non-zero status: \d+",
            r"non-zero status: \d+ (?:building transport map failed|nvshmem setup connections failed)",
        ),
        '`modprobe nvidia_peermem`; for IBGDA load the driver with NVreg_RegistryDwords="PeerMappingOverride=1;"'
        " NVreg_EnableStreamMemOPs=1 and make the container privileged; set NVSHMEM_HCA_LIST and"
        " NVSHMEM_IB_GID_INDEX to those of this network; else set NVSHMEM_IB_ENABLE_IBGDA=0",
        "deepseek-ai/DeepEP#139, #223; sgl-project/sglang#12533",
        Kind.SUSPICION,
        check="rdma.adapters_reach_gpu_memory",
        weight=7,
        unless=(r"bootstrap",),
    ),
    Cause(
        "nvshmem-bootstrap",
        "NVSHMEM's ranks did not find each other as they started (its bootstrap)",
        (
            r"bootstrap_(?:net|uid|loader)\w*\b.*(?:timed? ?out|fail\w*|non-zero status)",
            r"nvshmem.*bootstrap.*(?:timed? ?out|fail\w*)",
        ),
        "set NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME to the interface of the nodes' network, and look at the ranks that did not come",
        "NVSHMEM documentation, environment variables",
        weight=5,
        passed=(r"nvshmem.*pes connected",),
    ),
    Cause(
        "sharp-manager",
        "SHARP's aggregation manager (sharp_am) does not run, or a node does not reach it: collectives are not done in the switch",
        (
            r"fabricprovider must bind to port with master sm",
            r"sharp_am\b.*(?:exiting|exited, code|fail)\w*",
            r"cannot connect to sharpd",
            r"(?:connect|reach)\w* to (?:the )?aggregation manager",
        ),
        "start sharp_am on the machine whose port has the master subnet manager (`sminfo`), and run `sharp_hello` on a"
        " node; until it succeeds set NCCL_COLLNET_ENABLE=0",
        "NVIDIA/nccl#1425; NVIDIA SHARP user manual",
        Kind.NOTE,
    ),
    Cause(
        "sharp-resources",
        "the switches have no SHARP tree or group left for this job: others hold them, or it asks for too many",
        (
            r"begin job id.*no resource",
            r"streaming tree lock failed",
        ),
        "UFM, or the log of sharp_am, shows which jobs hold the trees; use CollNet for fewer communicators, or set"
        " NCCL_COLLNET_ENABLE=0",
        "NVIDIA/nccl#1460; Mellanox/nccl-rdma-sharp-plugins#151",
        Kind.NOTE,
    ),
    Cause(
        "sharp-ports",
        "SHARP found no port of this node that it can use",
        (r"collect_ports_data: .*(?:not valid|failed to find valid ports)",),
        "name the ports of the training fabric in SHARP_COLL_IB_DEV_LIST (NCCL_IB_HCA); the port of the subnet manager cannot be one",
        "NVIDIA/nccl#1219",
        Kind.NOTE,
    ),
    Cause(
        "sharp-failure",
        "SHARP (collectives in the switch) could not be used",
        (
            r"sharp.*(?:fail|error|unable)",
            r"cannot initialize collnet",
        ),
        "NCCL_COLLNET_ENABLE=0 works around it; else check that sharp_am runs and that the plug-in's version fits it",
        "NVIDIA/nccl-rdma-sharp-plugins",
        Kind.NOTE,
    ),
)
