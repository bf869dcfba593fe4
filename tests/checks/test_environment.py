"""Is the node named whose variables do nothing, cannot be, were left over, or differ where they may not?"""

from __future__ import annotations

import pytest

from preflight.facts.subjects.environment import Variable
from preflight.judge.ledger.findings import Verdict
from preflight.node.subjects.environment import preloaded
from preflight.testing import healthy, roce
from tests.checks.samples import Broken, judge

PROXY = "http://proxy:3128"
BROKEN = (
    Broken(
        "environment.nothing_stands_before_cuda",
        roce()
        .broken("node2", "environment", preloaded=("/usr/local/vgpu/libvgpu.so",))
        .broken("node2", "software", packages={"torch": "2.7.1", "vllm": "0.9.1"}),
        ("node2",),
        "/usr/local/vgpu/libvgpu.so is loaded into every program",
    ),
    Broken(
        "environment.files_that_variables_name_exist",
        healthy()
        .with_variables("node2", NCCL_TOPO_FILE="/opt/topo.xml")
        .broken("node2", "environment", unread_files=(("NCCL_TOPO_FILE", "No such file or directory"),)),
        ("node2",),
        "NCCL_TOPO_FILE=/opt/topo.xml: No such file or directory",
    ),
    Broken(
        "environment.variables_of_all_ranks_agree",
        healthy()
        .with_variables("node1", WORLD_SIZE="3")
        .with_variables("node2", WORLD_SIZE="2")
        .with_variables("node3", WORLD_SIZE="3"),
        ("node2",),
        "WORLD_SIZE: '3' (from --env) on node[1,3], '2' (from --env) on node2",
    ),
    Broken(
        "environment.a_persons_shell_has_the_variables_of_the_job",
        healthy().broken("node2", "environment", shells={"a new window": {"NCCL_SOCKET_IFNAME": "eth1"}}),
        ("node2",),
        "NCCL_SOCKET_IFNAME: 'eth1' in a new window, not set in the job's environment",
    ),
    Broken(
        "environment.variables_exist",
        healthy().with_variables("node2", NCCL_IFNAME="eth0"),
        ("node2",),
        "NCCL_IFNAME is read by no library; did you mean NCCL_SOCKET_IFNAME? (set by --env)",
    ),
    Broken(
        "environment.variables_exist",
        healthy().with_variables("node2", NCCL_IB_CUDA_SUPPORT="1"),
        ("node2",),
        "NCCL_IB_CUDA_SUPPORT is no longer read since 2.4: NCCL_NET_GDR_LEVEL",
    ),
    Broken(
        "environment.variables_exist",
        roce().broken("node2", "software", nccl="2.18.5").with_variables("node2", NCCL_IB_ADDR_FAMILY="AF_INET"),
        ("node2",),
        "NCCL_IB_ADDR_FAMILY is not read by NCCL 2.18.5, but since 2.21",
    ),
    Broken(
        "environment.what_sets_nodes_apart_is_each_nodes_own",
        roce().with_variables("node1", "node2", NCCL_HOSTID="gpu").with_variables("node3", NCCL_HOSTID="gpu3"),
        ("node1", "node2"),
        "NCCL_HOSTID=gpu on several nodes (set by --env)",
    ),
    Broken(
        "environment.values_are_possible",
        healthy().with_variables("node2", NCCL_IB_DISABLE="true"),
        ("node2",),
        "NCCL_IB_DISABLE='true': wanted 0 or 1",
    ),
    Broken(
        "environment.nothing_is_left_from_debugging",
        healthy().with_variables("node2", CUDA_LAUNCH_BLOCKING="1"),
        ("node2",),
        "CUDA_LAUNCH_BLOCKING=1: every kernel is waited for",
    ),
    Broken(
        "environment.nothing_is_left_from_debugging",
        roce().with_variables("node2", NCCL_IB_DISABLE="1"),
        ("node2",),
        "NCCL_IB_DISABLE=1: RDMA is not used",
    ),
    Broken(
        "environment.variables_of_all_ranks_agree",
        healthy().with_variables("node2", NCCL_PROTO="Simple"),
        ("node2",),
        "NCCL_PROTO: not set on node[1,3], 'Simple' (from --env) on node2",
    ),
    Broken(
        "environment.variables_of_all_ranks_agree",
        healthy().with_variables("node2", TORCH_DISTRIBUTED_DEBUG="DETAIL"),
        ("node2",),
        "TORCH_DISTRIBUTED_DEBUG: not set on node[1,3], 'DETAIL' (from --env) on node2",
    ),
    Broken(
        "environment.other_variables_are_the_same_on_every_node",
        healthy().with_variables("node2", TORCH_DISTRIBUTED_DEBUG="INFO"),
        ("node2",),
        "TORCH_DISTRIBUTED_DEBUG: not set on node[1,3], 'INFO' (from --env) on node2",
    ),
    Broken(
        "environment.other_variables_are_the_same_on_every_node",
        healthy().with_variables("node2", OMP_NUM_THREADS="64"),
        ("node2",),
        "OMP_NUM_THREADS: not set on node[1,3], '64' (from --env) on node2",
    ),
    Broken(
        "environment.proxies_leave_the_peers_out",
        healthy()
        .with_variables("node2", https_proxy=PROXY, no_proxy="*", RAY_ADDRESS="ray://node3:10001")
        .broken("node2", "software", packages={"ray": "2.7.1"}),
        ("node2",),
        "Ray's client 2.7.1 goes through the proxy to node3",
    ),
)


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_the_broken_nodes_are_named(broken):
    """Each row: the check names exactly the broken nodes, says what is wrong, and how to fix it."""
    broken.assert_named()


def test_nodes_may_have_interfaces_ranks_and_devices_of_their_own():
    """What sets a node apart may differ."""
    run = healthy().with_variables("node2", NCCL_SOCKET_IFNAME="eth0", NODE_RANK="1", SLURM_NODEID="1", RANK="1")
    for name in ("variables_of_all_ranks_agree", "other_variables_are_the_same_on_every_node"):
        assert {finding.verdict for finding in judge(f"environment.{name}", run)} == {
            Verdict.SKIP
        }  # nothing to compare


def test_rdma_may_be_off_where_there_is_none():
    """NCCL_IB_DISABLE=1 is how people on Ethernet keep NCCL from looking for it."""
    run = healthy().with_variables(NCCL_IB_DISABLE="1")
    assert {f.verdict for f in judge("environment.nothing_is_left_from_debugging", run)} == {Verdict.PASS}


@pytest.mark.parametrize(
    ("variables", "verdict"),
    [
        ({"NCCL_IB_RETRY_CNT": "13"}, Verdict.WARN),
        ({"NCCL_DEBUG": "verbose"}, Verdict.WARN),
        ({"NCCL_DEBUG": "verbose", "NCCL_IB_DISABLE": "true"}, Verdict.FAIL),
    ],
)
def test_a_value_with_which_the_job_runs_all_the_same_is_a_warning(variables, verdict):
    """An adapter takes the lowest three bits of 13 retries; a log level that does not exist is none."""
    (found,) = [
        f
        for f in judge("environment.values_are_possible", roce().with_variables("node2", **variables))
        if f.nodes == ("node2",)
    ]
    assert found.verdict is verdict


SHELLS = "environment.a_persons_shell_has_the_variables_of_the_job"


def typed(node, layer="", **values):
    """A person's shell on a node sets these; the job's environment has what `layer` gives, else nothing."""
    shells = {"a new window": values}
    given = {"variables": {name: Variable("eth0", layer) for name in values}} if layer else {"variables": {}}
    return healthy().broken(node, "environment", shells=shells, **given)


def test_what_only_a_persons_shell_sets_is_a_warning():
    """With the value on both sides, on that node alone, and the line that gives it to the job."""
    found = [f for f in judge(SHELLS, typed("node2", NCCL_SOCKET_IFNAME="eth1", OMP_NUM_THREADS="8")) if f.commands]
    ((verdict, nodes, message),) = [(f.verdict, f.nodes, f.message) for f in found]
    assert (verdict, nodes) == (Verdict.WARN, ("node2",))
    assert message == "NCCL_SOCKET_IFNAME: 'eth1' in a new window, not set in the job's environment"
    assert found[0].commands[0].now == "export NCCL_SOCKET_IFNAME=eth1"


@pytest.mark.parametrize(
    "run",
    [
        typed("node2", NCCL_DEBUG="INFO"),
        typed("node2", NCCL_SOCKET_IFNAME=""),
        typed("node2", "launch files", NCCL_SOCKET_IFNAME="eth1"),
        typed("node2", "node", NCCL_SOCKET_IFNAME="eth0"),
    ],
)
def test_logs_what_is_equal_and_what_the_launch_sets_are_no_difference(run):
    """The launch files set a variable for every way to start."""
    assert {f.verdict for f in judge(SHELLS, run) if f.nodes == ("node2",)} <= {Verdict.PASS}


def test_a_shell_that_tells_nothing_is_no_reason_to_stop():
    """An account without a login shell, one whose files wait for input: said, and skipped."""
    run = healthy().broken("node2", "environment", shells={}, shells_unread={"a new window": "the shell is nologin"})
    (found,) = [f for f in judge(SHELLS, run) if "node2" in f.nodes]
    assert (found.verdict, found.message) == (
        Verdict.SKIP,
        "no interactive shell reported its variables: the shell is nologin",
    )


@pytest.mark.parametrize("where", ["/etc/ld.so.preload", "LD_PRELOAD"])
def test_a_library_that_shares_gpus_out_is_found_where_it_is_loaded(tmp_path, where):
    """In the file of the system or in the variable; the command in the finding ends the warning."""
    variables = {"LD_PRELOAD": "/k8s-vgpu/lib/libvgpu.so:/usr/lib/libjemalloc.so.2"} if where == "LD_PRELOAD" else {}
    (tmp_path / "etc").mkdir()
    if not variables:
        (tmp_path / "etc/ld.so.preload").write_text("# of HAMi\n/k8s-vgpu/lib/libvgpu.so\n")
    found = preloaded(f"{tmp_path}/etc/ld.so.preload")
    run = roce().broken("node2", "environment", preloaded=tuple(found)).with_variables("node2", **variables)
    name = "environment.nothing_stands_before_cuda"
    (told,) = [one for one in judge(name, run) if one.verdict is Verdict.WARN]
    of_vllm = run.broken("node2", "software", packages={"vllm": "0.9.1"})
    assert Verdict.FAIL in {one.verdict for one in judge(name, of_vllm)}
    assert Verdict.WARN in {one.verdict for one in judge(name, of_vllm.with_variables(CUDA_VISIBLE_DEVICES="0"))}
    assert "/k8s-vgpu/lib/libvgpu.so" in told.message
    assert "`export CUDA_DISABLE_CONTROL=true`" in told.fix
    assert {one.verdict for one in judge(name, run.with_variables(CUDA_DISABLE_CONTROL="true"))} == {Verdict.PASS}


def test_other_libraries_may_be_preloaded():
    """An allocator takes no call of CUDA."""
    run = roce().broken("node2", "environment", preloaded=("/usr/lib/libjemalloc.so.2",))
    assert {one.verdict for one in judge("environment.nothing_stands_before_cuda", run)} == {Verdict.PASS}


@pytest.mark.parametrize(
    ("variables", "verdict"),
    [
        ({"https_proxy": PROXY, "NO_PROXY": "node1,node2,node3"}, Verdict.WARN),
        ({"http_proxy": PROXY, "no_proxy": "*"}, Verdict.WARN),
        ({"grpc_proxy": PROXY}, Verdict.WARN),
        ({"https_proxy": PROXY, "no_proxy": "node1,node2,node3"}, Verdict.PASS),
        ({"https_proxy": PROXY, "no_grpc_proxy": "10.0.0.0/24", "no_proxy": "*"}, Verdict.PASS),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "node1,node2,node3"}, Verdict.PASS),  # which gRPC does not read
    ],
)
def test_grpc_reads_the_exceptions_by_its_own_rules(variables, verdict):
    """Ray's client goes through a proxy that curl leaves out; without such a library nobody does."""
    run = healthy().with_variables(**variables)
    for name in run.names:
        run = run.broken(name, "software", packages={"ray": "2.8.1"})
    assert {one.verdict for one in judge("environment.proxies_leave_the_peers_out", run)} == {verdict}


def test_a_proxy_that_leaves_a_peer_in_is_a_warning():
    """What talks HTTP between the nodes may be no part of the job."""
    run = healthy().with_variables("node2", http_proxy=PROXY, no_proxy="localhost,10.0.0.1,10.0.0.2")
    (told,) = [one for one in judge("environment.proxies_leave_the_peers_out", run) if one.verdict is Verdict.WARN]
    assert (told.nodes, bool(told.fix)) == (("node2",), True)
    assert "http_proxy set, and no_proxy leaves out neither name nor address of node3" in told.message


@pytest.mark.parametrize(
    ("ray", "variables", "verdict"),
    [
        ("2.8.1", {"NO_PROXY": "node1,node2,node3"}, Verdict.FAIL),
        ("2.8.1", {"no_proxy": "*"}, Verdict.FAIL),
        ("2.8.1", {"no_proxy": "node1,node2,node3"}, Verdict.PASS),
        (
            "2.8.1",
            {"no_proxy": "*", "RAY_ADDRESS": "10.0.0.1:6379"},
            Verdict.WARN,
        ),  # no client, but a part of the cluster
        ("2.9.0", {"no_proxy": "*"}, Verdict.PASS),
    ],
)
def test_an_old_client_of_ray_meets_the_proxy_in_the_place_of_the_head(ray, variables, verdict):
    """Since 2.9 it leaves proxies alone, as Ray's own processes always did."""
    run = healthy().with_variables(**{"https_proxy": PROXY, "RAY_ADDRESS": "ray://node1:10001", **variables})
    for name in run.names:
        run = run.broken(name, "software", packages={"ray": ray})
    found = judge("environment.proxies_leave_the_peers_out", run)
    assert {one.verdict for one in found} == {verdict}
    assert all(one.fix for one in found if one.verdict in {Verdict.FAIL, Verdict.WARN})
