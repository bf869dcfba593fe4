"""Have the nodes what the launch takes for granted: logins, a compiler, memory, a name that finds rank 0?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from preflight.facts.cluster import Cluster
from preflight.facts.node import NodeFacts
from preflight.judge.ledger.findings import Finding, Where
from preflight.launch.address import is_loopback, wrong_with
from preflight.launch.field import Sourced, value_of
from preflight.launch.launchers import logs_in
from preflight.launch.launchers.accelerate.command import ACCELERATE
from preflight.launch.launchers.deepspeed.command import DEEPSPEED
from preflight.launch.plan import LaunchFiles, Plan, fail, warn
from preflight.launch.rules.versions import OTHER_PYTHON, packages_of
from preflight.launch.text.shell import is_container
from preflight.reach.hosts import fold
from preflight.said import joined, said
from preflight.said.errors import FactMissing

COMPILERS = {"cc", "gcc", "clang"}
# The size in a model's name: 7B, 0.5b, A14B; not gpt2.
MODEL_SIZE = re.compile(r"(?<![\w.])[A-Za-z]?(\d{1,4}(?:\.\d+)?)[bB](?![A-Za-z0-9])")
STATE_BYTES = 12  # of a parameter under Adam: the master copy and two moments, in fp32
GIB = 1 << 30


def packages_are_there(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """The launcher of the files, and what they tell it to use, is installed on every node."""
    found: dict[tuple[str, Where], list[str]] = {}
    for plan in files.plans:
        text = files.texts.get(plan.where.file, "")
        if is_container(plan.wrapper) or OTHER_PYTHON.search(text):
            continue
        for package, where in _needed(plan):
            for node in cluster:
                try:
                    is_there = package in node.software.packages or not node.software.packages
                except FactMissing:
                    continue
                if not is_there and node.name not in found.setdefault((package, where), []):
                    found[package, where].append(node.name)
    given: dict[tuple[str, tuple[str, ...]], list[Where]] = {}
    for (package, where), names in found.items():
        given.setdefault((package, tuple(names)), []).append(where)
    for (package, lacking), places in given.items():
        if not lacking:
            continue
        there = [node.software.packages[package] for node in cluster if package in packages_of(node)]
        python = cluster[lacking[0]].software.executable
        message = said(
            "{package} is not installed on {lacking} for {python}, and the launch files need it",
            package,
            fold(lacking),
            python,
        )
        interpreter, version = shlex.quote(python), shlex.quote(f"=={there[0]}") if there else ""
        fix = said(
            "{interpreter} -m pip install {package}{version} on {lacking}", interpreter, package, version, fold(lacking)
        )
        yield fail("packages_are_there", message, *places, fix=fix, nodes=lacking)


def _needed(plan: Plan) -> Iterable[tuple[str, Where]]:
    """The packages that a plan cannot do without, with the lines that say so."""
    kind = plan.settings.get("distributed_type")
    if plan.launcher.needs and plan.command:
        yield plan.launcher.needs, plan.where
    if plan.launcher is DEEPSPEED:
        yield "deepspeed", plan.where
    elif value_of(kind) == "DEEPSPEED" and kind is not None:
        yield "deepspeed", kind.where
    elif (flag := plan.settings.get("use_deepspeed")) is not None:
        yield "deepspeed", flag.where


def launcher_reaches_every_host(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """A command that starts the other nodes over ssh logs in to each of them without a question."""
    first = cluster.at(0)
    if first is None or len(cluster) < 2:
        return
    for plan in files.plans:
        if not logs_in(plan):
            continue
        try:
            failed = {login.peer: login.trouble for login in first.trust.logins if login.trouble}
        except FactMissing:
            continue
        if failed:
            listed = joined([said("{peer} ({trouble})", peer, trouble) for peer, trouble in list(failed.items())[:4]])
            message = said(
                "{name} starts the other nodes over ssh, and {name2} cannot log in to {listed}",
                plan.launcher.name,
                first.name,
                listed,
            )
            fix = said("ssh-copy-id <host> on {name}, and ssh-keyscan <host> >> ~/.ssh/known_hosts", first.name)
            yield fail("launcher_reaches_every_host", message, plan.where, fix=fix, nodes=(first.name,))


def first_address_is_the_one_to_reach(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """DeepSpeed's runner gives all nodes the first address of its own node, unless another one is named."""
    first = cluster.at(0)
    if first is None or len(cluster) < 2:
        return
    for plan in files.plans:
        is_named = plan.launcher is DEEPSPEED and plan.master_address is not None
        if not logs_in(plan) or is_named or plan.launcher not in (DEEPSPEED, ACCELERATE):
            continue
        try:
            listed, right = first.network.first_address(), first.address_for_peers()
        except FactMissing:
            continue
        printed = _printed_over_ssh(first)
        if printed or listed != right:
            message = said(
                "every node gets the address {listed}, which `hostname -I` prints first on {name}; the "
                "others reach it at {right}",
                listed,
                first.name,
                right,
            )
            if printed:
                message = said(
                    "every node gets {word} for the address of rank 0: the launcher takes the first word of "
                    "`ssh {name} hostname -I`, and a start file of the shell there prints {printed}",
                    printed.split()[0],
                    first.name,
                    repr(printed),
                )
            fix = f"--master_addr={right}"
            if plan.launcher is ACCELERATE:
                fix = "deepspeed_config:\n  deepspeed_multinode_launcher: standard"
            yield fail("deepspeed_tells_the_right_address", message, plan.where, fix=fix, nodes=(first.name,))


def _printed_over_ssh(node: NodeFacts) -> str:
    """What a command that the node runs on itself over ssh prints before its own output."""
    try:
        return next((login.printed for login in node.trust.logins if login.peer == node.name), "")
    except FactMissing:
        return ""


def endpoint_is_recognised(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """The node of a c10d endpoint recognizes it by its host name, as torchrun compares; else no node listens."""
    for plan in files.plans:
        address = plan.master_address
        if (
            value_of(plan.rendezvous) != "c10d"
            or not isinstance(address, Sourced)
            or wrong_with(address.value)
            or is_loopback(address.value)
            or "is_host" in str(plan.setting("rdzv_conf"))
        ):
            continue
        holders = [node for node in cluster if _has(node, address.value)]
        if len(cluster) > 1 and holders and not any(_recognises(node, address.value) for node in holders):
            holder = holders[0]
            own = ", ".join(holder.identity.hostname_addresses) or "unknown"
            message = said(
                "no node takes the endpoint {value} for its own: {name} has the address, and its host name "
                "{hostname} is {own}; every node connects and no node listens",
                address.value,
                holder.name,
                holder.identity.hostname,
                own,
            )
            name = holder.identity.hostname if holder.identity.has_plain_name else "<its hostname>"
            fix = said(
                "`{value} {name}` in /etc/hosts of {name2}, before its other lines", address.value, name, holder.name
            )
            yield fail("rendezvous_endpoint_is_recognised", message, address.where, fix=fix, nodes=(holder.name,))


def _has(node: NodeFacts, address: str) -> bool:
    try:
        return node.network.holds_any([address.strip("[]")], reachable=True)
    except (FactMissing, ValueError):
        return False


def _recognises(node: NodeFacts, address: str) -> bool:
    try:
        return address.strip("[]") in node.identity.hostname_addresses
    except FactMissing:
        return True


def compile_finds_a_compiler(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """torch.compile builds its kernels on every node, with the compiler that it finds there."""
    for plan in files.plans:
        where = _compiles(plan)
        if where is None:
            continue
        without = []
        for node in cluster:
            try:
                if not COMPILERS & set(node.machine.compilers):
                    without.append(node.name)
            except FactMissing:
                continue
        if without:
            message = said(
                "torch.compile (inductor) finds no compiler ({COMPILERS}) on {without}",
                ", ".join(sorted(COMPILERS)),
                fold(without),
            )
            fix = "apt-get install gcc g++ on the nodes named, or dynamo_backend: 'NO'"
            yield fail("compile_finds_a_compiler", message, where, fix=fix, nodes=tuple(without))


def cpu_ranks_know_it(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """On nodes without GPUs accelerate forms one world only where a variable asks for it."""
    if any(node.gpu_count() for node in cluster):
        return
    for plan in files.plans:
        kind = plan.settings.get("distributed_type")
        if plan.launcher is not ACCELERATE or value_of(kind) != "MULTI_GPU" or "ACCELERATE_USE_CPU" in plan.environment:
            continue
        unaware = tuple(node.name for node in cluster if not _is_set(node, "ACCELERATE_USE_CPU"))
        if unaware and kind is not None:
            message = "MULTI_GPU on nodes without GPUs: without ACCELERATE_USE_CPU every rank becomes a world of one"
            fix = "export ACCELERATE_USE_CPU=true (the reference job was given it)"
            yield warn("cpu_ranks_form_one_world", message, kind.where, fix=fix, nodes=unaware)


def _is_set(node: NodeFacts, name: str) -> bool:
    try:
        return bool(node.value(name))
    except FactMissing:
        return False


def _compiles(plan: Plan) -> Where | None:
    for name in ("dynamo_config.dynamo_backend", "dynamo_backend"):
        held = plan.settings.get(name)
        if isinstance(held, Sourced) and str(held.value).upper() == "INDUCTOR":
            return held.where
    words = [word for word in plan.arguments if isinstance(word, Sourced)]
    return next((word.where for word in words if word.value in ("--torch_compile", "--torch_compile=True")), None)


def offload_fits_memory(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """Optimizer states that are offloaded lie in the memory of the nodes, shared out among them."""
    for plan in files.plans:
        held = _offloads(plan, files)
        size = _billions(plan)
        if held is None or size is None:
            continue
        needed = size.value * STATE_BYTES * 1e9 / cluster.hosts / GIB
        small: dict[str, float] = {}
        for node in cluster:
            try:
                if node.identity.memory_bytes / GIB < needed:
                    small[node.name] = node.identity.memory_bytes / GIB
            except FactMissing:
                continue
        if small:
            message = said(
                "the optimizer of {value:g} billion parameters is offloaded: {needed:.0f} GiB on each of "
                "{hosts} nodes ({STATE_BYTES} bytes a parameter); {small} has {min:.0f}",
                size.value,
                needed,
                cluster.hosts,
                STATE_BYTES,
                fold(small),
                min(small.values()),
            )
            fix = "offload_optimizer_device: nvme or none, more nodes, or nodes with more memory"
            yield warn("offload_fits_memory", message, held, size.where, fix=fix, nodes=tuple(small))


def _offloads(plan: Plan, files: LaunchFiles) -> Where | None:
    for name in ("deepspeed_config.offload_optimizer_device", "offload_optimizer_device"):
        held = plan.settings.get(name)
        if isinstance(held, Sourced) and held.value == "cpu":
            return held.where
    for config in files.batches:
        held = config.values.get("zero_optimization.offload_optimizer")
        if isinstance(held, Sourced) and isinstance(held.value, dict) and held.value.get("device") == "cpu":
            return held.where
    return None


def _billions(plan: Plan) -> Sourced[float] | None:
    """The size of the model, as its name says it among the arguments; the largest where there are several."""
    found = [
        Sourced(float(size), word.file, word.line)
        for word in plan.arguments
        if isinstance(word, Sourced)
        for size in MODEL_SIZE.findall(word.value)
    ]
    return max(found, key=lambda size: size.value, default=None)


def servers_tell_the_right_address(files: LaunchFiles, cluster: Cluster) -> Iterable[Finding]:
    """vLLM and Ray find a node's own address by its default route, unless VLLM_HOST_IP or --node-ip-address says it."""
    for plan in files.plans:
        given = "VLLM_HOST_IP" in plan.environment or "node_ip_address" in plan.settings
        if plan.launcher.name not in ("vllm", "ray") or "submit" in plan.settings or given or len(cluster) < 2:
            continue
        elsewhere: dict[str, str] = {}
        without: list[str] = []
        for node in cluster:
            try:
                routes = {gateway.interface for gateway in node.network.gateways}
                training = node.network.training_interface.name
            except FactMissing:
                continue
            if not routes:
                without.append(node.name)
            elif training not in routes:
                elsewhere[node.name] = said("{routes} (training: {training})", ", ".join(sorted(routes)), training)
        if elsewhere:
            ways = next(iter(elsewhere.values()))
            message = said(
                "{name} tells the others the address of the default route: {ways} on {elsewhere}",
                plan.launcher.name,
                ways,
                fold(elsewhere),
            )
            fix = said(
                "export VLLM_HOST_IP={address_for_peers}, each node its own",
                cluster[next(iter(elsewhere))].address_for_peers(),
            )
            yield warn("servers_tell_the_right_address", message, plan.where, fix=fix, nodes=tuple(elsewhere))
        if without and plan.launcher.name == "vllm":
            message = said("vLLM finds a node's address by its default route, and {without} has none", fold(without))
            fix = "export VLLM_HOST_IP=<this node's address>"
            yield warn("servers_tell_the_right_address", message, plan.where, fix=fix, nodes=tuple(without))


RULES = (
    packages_are_there,
    servers_tell_the_right_address,
    launcher_reaches_every_host,
    first_address_is_the_one_to_reach,
    endpoint_is_recognised,
    cpu_ranks_know_it,
    compile_finds_a_compiler,
    offload_fits_memory,
)
