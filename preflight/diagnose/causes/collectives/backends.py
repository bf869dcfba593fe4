"""Which words do backends other than NCCL and Gloo use?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind

CAUSES = (
    Cause(
        "hccl-connect",
        "HCCL (Ascend NPU) did not reach another rank in time: that rank is late or stuck, or the NPUs' own network is broken",
        (
            r"\bei0006\b",
            r"\]transport init error!",
            r"-connect timeout detect result-",
            r"ops function error: hccl\w+",
        ),
        "look for the first error of the other ranks; if all wait, compare `hccn_tool -i N -link -g`, `-ip -g`"
        " and `-tls -g` on every node: they must agree; raise HCCL_CONNECT_TIMEOUT where ranks start minutes apart",
        "vllm-project/vllm-ascend#486; hiascend.com, EI0006",
        Kind.SUSPICION,
        weight=7,
    ),
    Cause(
        "hccl-wait",
        "an HCCL collective waited for a rank that did not come to it",
        (
            r"\bei0002\b",
            r"synchronizeexecutedtask:stream synchronize timeout",
            r"hccl \w+ task timeout occurred",
            r"stuck notify (?:num|wait)",
        ),
        "read the log of the rank that does not print this line; uneven batches or a slow NPU are usual reasons; HCCL_EXEC_TIMEOUT lengthens the wait",
        "hiyouga/LlamaFactory#975; hiascend.com, EI0002",
        Kind.SUSPICION,
        weight=6,
    ),
    Cause(
        "hccl-port-in-use",
        "HCCL (Ascend NPU) could not listen: the port is taken on that node, so the other ranks cannot connect",
        (
            r"hccl.*listen on ip.* port\[\d+\] fail",
            r"\bej0003\b",
        ),
        "run `ss -ltnp` on the node whose address is in the line, and end what holds the port; where processes"
        " share an NPU, set another HCCL_IF_BASE_PORT, or HCCL_NPU_SOCKET_PORT_RANGE=auto",
        "vllm-project/vllm-ascend#1955; hiascend.com, EJ0003",
        weight=7,
    ),
    Cause(
        "neuron-peers-missing",
        "Neuron's collectives waited for another worker that did not connect: it has not started, or it cannot"
        " reach this one",
        (r"ccom warn timeout waiting for (?:incoming connection|rx)",),
        "read the logs of the workers that do not print this line: the host may be out of memory, or still"
        " compiling (run neuron_parallel_compile first); set NEURON_RT_ROOT_COMM_ID to the same HOST:PORT of the"
        " first node everywhere",
        "aws-neuron/aws-neuron-sdk#713; ray-project/ray#65070",
        Kind.SUSPICION,
        check="mesh.every_node_reaches_every_other_on_random_ports",
        weight=5,
    ),
    Cause(
        "gaudi-collective",
        "a collective of Gaudi (HCL) failed; this line does not say why",
        (
            r"n3c105errore\b.*collective call returned error",
            r"process_group_hccl_base\.cpp:\d+",
            r"\bhccl\w+\(.*\) failed: ",
            r"/hcl/src/.*the condition \[.*\] failed",
        ),
        "read $HABANA_LOGS/hcl.log and synapse_log.txt of every node, the earliest error first; `hl-smi -n`"
        " shows ports that are down; set HCCL_SOCKET_IFNAME to the network that all share",
        "huggingface/optimum-habana#505",
        Kind.SUSPICION,
        weight=4,
    ),
    Cause(
        "libfabric-no-provider",
        "libfabric has no provider that MPI or oneCCL can use here: FI_PROVIDER names one that is missing, or its device cannot be"
        " opened",
        (
            r"ofi (?:fi_getinfo|addrinfo)\(\) failed",
            r"atl_ofi\S* .*can't (?:find suitable provider|create providers|init provider)",
            r"can not open network providers(?! with)",
            r"atl_ofi\S* .*fi_getinfo error",
        ),
        "run `fi_info -l` on the node; unset FI_PROVIDER or name one of those (tcp works everywhere, shm only"
        " inside a node), with the FI_PROVIDER_PATH of the same installation; psm3 and verbs need"
        " /dev/infiniband and unlimited memlock",
        "uxlfoundation/oneCCL#106; intel/ipex-llm#11877",
        check="rdma.devices_can_be_opened",
        weight=6,
    ),
    Cause(
        "oneccl-threads",
        "oneCCL could not start its worker threads on the cores that it chose: the process may not use them",
        (r"error while creating worker thread", r"\bstart_workers: .*failed to start worker"),
        "set CCL_WORKER_AFFINITY to cores of the process (`taskset -cp PID`), or start with mpirun, which says"
        " how many ranks share the node, and set CCL_WORKER_COUNT=1",
        "intel/torch-ccl#54",
        weight=6,
    ),
    Cause(
        "ucc-no-transport",
        "UCC has no transport layer that it can use here",
        (
            r"ucc +error .*(?:no tls are selected|no cl (?:context|teams?) (?:were )?created)",
            r"cl_basic +error no tl teams were created",
            r"ucc +error required tl \w+ is not part of the context",
        ),
        "run `ucc_info -s`: UCC_TLS and UCC_CLS may name only what is built and whose libraries are found"
        " (UCC_COMPONENT_PATH); read the lines of UCX before this one",
        "openucx/ucc#566, #656",
        Kind.SUSPICION,
        weight=4,
    ),
    Cause(
        "ucc-failed",
        "UCC failed; this line does not say why",
        (
            r"\bucc +error\b",
            r"processgroupucc\.cpp:\d+\].*failed to post",
            r"\b[tc]l_(?!sharp)\w+ +error\b",
            r"\b(?:cuda|rocm|cpu) [me]c +error\b",
        ),
        "read the earliest line of UCX, the driver or RDMA in the logs of all ranks; try UCC_TLS=ucp, with UCC_LOG_LEVEL=info",
        "openucx/ucc",
        Kind.SUSPICION,
        weight=2,
    ),
    Cause(
        "oneccl-failed",
        "oneCCL (Intel) failed",
        (r"\boneccl: .*exception", r"\|ccl_error\|", r"ccl::v1::exception"),
        "set CCL_LOG_LEVEL=info and read the lines before the error; use the same oneCCL and MPI on every node,"
        " CCL_ATL_TRANSPORT=mpi|ofi and FI_PROVIDER of its network; where a group across nodes fails, use HSDP"
        " with shards inside a node",
        "saforem2/ezpz#214; uxlfoundation/oneCCL",
        Kind.SUSPICION,
        weight=5,
    ),
)
