"""Do the variables of the job exist, hold what they may, and agree between the nodes?"""

import pytest

from preflight.facts.value import or_none, present
from preflight.judge.tables import visible
from preflight.judge.tables.network import proxies
from preflight.knowledge.variables import judged as variables
from preflight.knowledge.variables import leftovers
from preflight.said import joined, said
from preflight.said.errors import Blame, BlameMany, NotApplicable

NONE_SET = "no variable of NCCL, torch or Gloo is set"
LOADING_NCCL = ("vllm", "sglang")  # by ctypes, beside the one that torch has loaded
NAMING_A_FILE = ("NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_CONF_FILE")


@pytest.mark.advisory
def test_variables_exist(node):
    """Every NCCL_, TORCH_NCCL_ and GLOO_ variable of the job is one that a library reads.

    A misspelled or removed name, or one that this version does not know yet, has no effect and gives no message: the
    job runs as if it had never been set.
    Fix: `unset` the variable, or write the name that is offered.
    """
    names = node.environment.variables
    if not any(map(variables.is_asked, names)):
        raise NotApplicable(NONE_SET)
    nccl, torch = (or_none(held, "version") for held in (node.software.nccl, node.software.torch))
    messages = [
        _with_source(node, name, words)
        for name in names
        if (words := variables.unknown(name) or variables.unread(name, nccl=nccl, torch=torch))
    ]
    assert not messages, joined(messages)


def test_values_are_possible(node):
    """Every variable of the job holds a value that the library can read.

    NCCL goes on with its default, as with NCCL_IB_DISABLE=true; torch stops. Neither is what was asked for. Where the
    job runs all the same (logs, threads, more retries than an adapter can count) it is a warning.
    Fix: write one of the values wanted, or `unset` the variable.
    """
    held = node.environment.variables
    if not any(map(variables.is_asked, held)):
        raise NotApplicable(NONE_SET)
    messages = {name: words for name, held_by in held.items() if (words := variables.refused(name, held_by.value))}
    if messages:
        text = joined(_with_source(node, name, words) for name, words in messages.items())
        raise Blame(text, nodes=[node.name], is_advisory=all(map(variables.is_harmless, messages)))


@pytest.mark.advisory
def test_nothing_is_left_from_debugging(node):
    """No debug variable is left over from troubleshooting.

    They switch fast paths off or log every call, from ~/.bashrc, an image or /etc/nccl.conf, long after the fault is
    gone; CUDA_LAUNCH_BLOCKING=1 hangs jobs of several nodes.
    Fix: `unset` the variable where it is set (the finding says where), or accept the warning if it is meant.
    """
    has_rdma = bool(node.rdma.active_ports())
    devices = [device.name for device in node.rdma.devices]
    held = node.environment.variables
    messages = [
        _with_source(node, name, words)
        for name, variable in held.items()
        if (words := leftovers.leftover(name, variable.value, has_rdma=has_rdma, devices=devices))
    ]
    assert not messages, joined(messages)


def test_variables_of_all_ranks_agree(cluster):
    """What all ranks must agree on is set to one value: protocols, algorithms, buffers, networks.

    NCCL does not compare them: ranks that chose differently wait for each other forever, or report a mismatch.
    Fix: set the variable to one value on every node, best in the launch file; /etc/nccl.conf and ~/.nccl.conf set some.
    """
    cluster.needs_peers()
    _same(cluster, variables.must_agree)


def test_what_sets_nodes_apart_is_each_nodes_own(cluster):
    """Variables that tell one node from another have a value of its own on each.

    From one ~/.bashrc or image on all nodes, NCCL_HOSTID makes NCCL look for a peer's GPUs in its own machine, and
    NODE_RANK starts the same ranks twice: the job hangs.
    Fix: `unset` the variable where it is set (the finding says where); the launch gives each node its own.
    """
    cluster.needs_peers()
    blames = []
    set_by = {name: cluster.group_by(lambda node, name=name: node.value(name)) for name in variables.APART}
    if not any(value for groups in set_by.values() for value in groups):
        raise NotApplicable(said("none of these is set: {APART}", ", ".join(variables.APART)))
    for name, groups in set_by.items():
        for value, nodes in groups.items():
            if value and len(nodes) > 1:
                source = cluster[nodes[0]].setting(name).source()
                blames.append(
                    Blame(said("{name}={value} on several nodes (set by {source})", name, value, source), nodes=nodes)
                )
    if blames:
        raise BlameMany(blames)


@pytest.mark.advisory
def test_other_variables_are_the_same_on_every_node(cluster):
    """Variables that have no reason to differ between nodes are the same on every node.

    A difference comes from one shell profile, image or /etc/nccl.conf that sets what the others do not.
    Fix: set the variable to one value on every node, or unset it on the nodes named.
    """
    cluster.needs_peers()
    _same(cluster, lambda name, values: not variables.must_agree(name, values) and not variables.may_differ(name))


@pytest.mark.advisory
def test_files_that_variables_name_exist(node):
    """The files that NCCL_TOPO_FILE, NCCL_GRAPH_FILE, LD_PRELOAD and the like name can be read on every node.

    NCCL goes on without the file and says so only in its log: on that node it takes other paths than on the others.
    Every program starts without a library of LD_PRELOAD that is not there, after "cannot be preloaded: ignored".
    Fix: copy the file to the nodes named (or into their image), or correct the path.
    """
    unread = present(node.environment.unread_files, "files that variables name")
    if not any(node.value(name) for name in NAMING_A_FILE) and "/" not in node.value("LD_PRELOAD"):
        raise NotApplicable("no variable names a file")
    words = [
        _with_source(node, name, said("{name}={value}: {reason}", name, node.value(name), reason))
        for name, reason in unread
    ]
    assert not words, joined(words)


def test_nothing_stands_before_cuda(node):
    """No library that shares GPUs out is loaded into every program, unless it is told to leave whole GPUs alone.

    HAMi's libvgpu.so takes the calls of CUDA that ask for memory. With several GPUs, and NCCL loaded as vLLM loads it,
    they wait for each other for ever: a failure where vLLM or SGLang is installed and several GPUs are shown, else a
    warning.
    Fix: `export CUDA_DISABLE_CONTROL=true` for a job of whole GPUs (in a pod: its `env`).
    """
    if not node.gpu.readable():
        raise NotApplicable("no GPU")
    named = [*node.environment.preloaded, *node.value("LD_PRELOAD").replace(":", " ").split()]
    found = dict.fromkeys(path for path in named if path.rpartition("/")[2].startswith("libvgpu.so"))
    is_off = node.value("CUDA_DISABLE_CONTROL").lower() in ("1", "true")
    if found and not is_off:
        words = said("{paths} is loaded into every program", ", ".join(found))
        is_sure = len(visible.gpus(node)) > 1 and any(name in node.software.packages for name in LOADING_NCCL)
        raise Blame(words, nodes=[node.name], is_advisory=not is_sure)


def test_proxies_leave_the_peers_out(node, cluster):
    """Where a proxy is set for web traffic, the peers are exempt from it.

    Ray, etcd, Kubernetes and metrics talk HTTP or gRPC between nodes: the proxy answers for the peer, with an error.
    gRPC reads no_proxy by rules of its own: neither NO_PROXY in capitals nor entries with * count. Where the client of
    Ray before 2.9 (RAY_ADDRESS=ray://...) meets the proxy in the place of the head, it is a failure, else a warning.
    Fix: `export no_proxy=$no_proxy,<addresses and names of all nodes>` on the nodes named.
    """
    cluster.needs_peers()
    found = [name for name in dict.fromkeys((*proxies.NAMES, *proxies.OF_GRPC)) if node.value(name)]
    if not found:
        raise NotApplicable("no proxy is set")
    head = proxies.of_ray_client(node)
    assert not head, said(
        "Ray's client {version} goes through the proxy to {head}: gRPC reads no_proxy in small letters, without *",
        node.software.packages["ray"],
        head,
    )
    excepted = node.value("no_proxy") or node.value("NO_PROXY")
    whom = proxies.caught(excepted, node, cluster)
    message = said("{found} set, and no_proxy leaves out neither name nor address of {whom}", ", ".join(found), whom)
    if not whom:
        whom = proxies.caught_by_grpc(node, cluster)
        message = said("gRPC goes through the proxy to {whom}: it reads no_proxy in small letters, without *", whom)
    if whom:
        raise Blame(message, nodes=[node.name], is_advisory=True)


@pytest.mark.advisory
def test_a_persons_shell_has_the_variables_of_the_job(node):
    """Variables that steer NCCL, Gloo and the rendezvous are the same in interactive shells and launcher logins.

    What ~/.profile, module files and ~/.bashrc behind "not interactive: return" set is seen by jobs started from a
    prompt, and not by those that pdsh, deepspeed, mpirun or this run start over ssh: the one works and the other does
    not.
    Fix: set the variable in the launch file, or `export` it above the `return` in ~/.bashrc, on the nodes named.
    """
    environment = node.environment
    if not environment.shells:
        reasons = sorted(set(environment.shells_unread.values())) or ["none was asked"]
        raise NotApplicable(said("no interactive shell reported its variables: {reasons}", joined(reasons)))
    names = {name for shell in environment.shells.values() for name in shell if variables.is_steering(name)}
    set_apart = {name: found for name in sorted(names) if (found := environment.only_typed(name))}
    assert not set_apart, joined(_typed(node, name, found) for name, found in set_apart.items())


def _typed(node, name, found):
    """Where a variable has another value than the job's environment."""
    values = {value: [kind for kind in found if found[kind] == value] for value in found.values()}
    where = joined(
        [said("{value!r} in {kinds}", value, " and in ".join(kinds)) for value, kinds in values.items()], ", "
    )
    return said("{name}: {where}, {shown} in the job's environment", name, where, _shown(node, name))


def _with_source(node, name, words):
    """The words with what set the variable that they are about."""
    return (
        said("{words} (set by {source})", words, node.setting(name).source())
        if name in node.environment.variables
        else words
    )


def _same(cluster, is_judged):
    """A Blame for each variable that is judged and differs."""
    variables_of = cluster.gather(lambda node: node.environment.variables)
    values_of = {}
    for held in variables_of.values():
        for name, variable in held.items():
            values_of.setdefault(name, set()).add(variable.value)
    names = sorted(name for name, values in values_of.items() if is_judged(name, values))
    if not names:
        raise NotApplicable("no such variable is set on any node")
    blames = []
    for name in names:
        groups = cluster.group_by(lambda node, name=name: _shown(node, name))
        blames += cluster.differing(groups, name)
    if blames:
        raise BlameMany(blames)


def _shown(node, name):
    """A variable as a message says it."""
    return (
        said("{value!r} (from {source})", node.value(name), node.setting(name).source())
        if node.has_variable(name)
        else "not set"
    )
