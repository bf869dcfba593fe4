"""What do `ray start` and `ray job submit` ask for, and how does a Ray cluster start the reference job?"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from dataclasses import replace

from preflight.launch.address import is_loopback
from preflight.launch.field import Field, Sourced, firm, value_of, words
from preflight.launch.job import ALL_RANKS, Job, Process, shared_variables
from preflight.launch.launcher import AgentOutput, FieldNames, Launcher
from preflight.launch.launchers.torchrun import arguments
from preflight.launch.layout import HEAD, Layout, exports, file_name, variables
from preflight.launch.plan import LaunchFiles, Plan, fail
from preflight.launch.text.marks import is_known
from preflight.launch.text.options import Reader, Spec, parse_options
from preflight.launch.text.shell import Word
from preflight.ledger.findings import Finding

START = Spec(
    valued=words(
        """
    node_ip_address address port node_name redis_password redis_username object_manager_port node_manager_port
    gcs_server_port min_worker_port max_worker_port worker_port_list ray_client_server_port object_store_memory num_cpus
    num_gpus resources labels labels_file plasma_directory autoscaling_config temp_dir storage metrics_export_port
    dashboard_host dashboard_port dashboard_agent_listen_port dashboard_agent_grpc_port dashboard_grpc_port
    runtime_env_agent_port tracing_startup_hook ray_debugger_external log_style log_color include_log_monitor
    include_dashboard redis_shard_ports memory system_config object_spilling_directory
    """
    ),
    flags=words(
        "head block disable_usage_stats no_redirect_output enable_object_reconstruction no_monitor verbose help v"
    ),
)
SUBMIT = Spec(
    valued=words(
        """
    address job_id submission_id runtime_env runtime_env_json working_dir metadata_json entrypoint_num_cpus
    entrypoint_num_gpus entrypoint_memory entrypoint_resources entrypoint_label_selector headers verify log_style
    log_color
    """
    ),
    flags=words("no_wait no_verify verbose v delete_cluster help"),
)
GCS_PORT, DASHBOARD_PORT = 6379, 8265
AWAY = frozenset(words("-d -dt -td -itd -dit --detach -f -fn -nf tmux screen"))  # started, and not waited for


def read_start(reader: Reader, given: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan:
    """The plan of the words after ``ray start``: the head of a cluster, or a node that joins one."""
    parsed = parse_options(given, START, reader.marks)
    is_head = "head" in parsed.options
    address, port = reader.address_and_port(parsed.options.get("address"), "the port of --address")
    if is_head:
        address = reader.text(parsed.options.get("node_ip_address"))
        port = reader.number_of(parsed.options.get("port"), "--port")
        if port is None:
            port = Sourced(GCS_PORT, reader.where.file, reader.where.line, "tool")
    settings = {name: reader.text(word) for name, word in parsed.options.items()}
    is_opaque = parsed.is_opaque or any(not is_known(word.plain) for word in parsed.rest)  # it takes no program
    return _plan(reader, wrapper, address=address, port=port, settings=settings, is_opaque=is_opaque)


def read_submit(reader: Reader, given: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan:
    """The plan of the words after ``ray job submit``: a program for a cluster that is there."""
    parsed = parse_options(given, SUBMIT, reader.marks)
    settings = {name: reader.text(word) for name, word in parsed.options.items()}
    settings["submit"] = Sourced("true", reader.where.file, reader.where.line, "tool")
    rest = parsed.rest
    program = next(
        (word for word in rest if re.search(r"\.py$|^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$", word.plain)),
        rest[0] if rest else None,
    )
    plan = _plan(reader, wrapper, address=None, port=None, settings=settings, is_opaque=parsed.is_opaque)
    tail = rest[rest.index(program) + 1 :] if program is not None else ()
    return replace(plan, program=reader.text(program), arguments=arguments(reader, tail))


def _plan(
    reader: Reader,
    wrapper: tuple[str, ...],
    *,
    address: Field[str],
    port: Field[int],
    settings: dict[str, Field[str]],
    is_opaque: bool,
) -> Plan:
    return Plan(
        launcher=RAY,
        where=reader.where,
        start="all nodes",
        master_address=address,
        master_port=port,
        environment=reader.environment(),
        unexported=reader.unexported(),
        settings=settings,
        wrapper=wrapper,
        slurm=reader.slurm,
        is_opaque=is_opaque,
        is_conditional=reader.command.is_conditional,
        command=reader.spelled(),
    )


def read(reader: Reader, given: tuple[Word, ...], wrapper: tuple[str, ...]) -> Plan:
    """The plan of the words after ``ray start`` or ``ray job submit``."""
    before = reader.command.words[: len(reader.command.words) - len(given)]
    return (read_submit if before[-1].plain == "submit" else read_start)(reader, given, wrapper)


def start_is_accepted(plan: Plan) -> Iterable[Finding]:
    """`ray start` is either of a head or of a node that joins it by HOST:PORT."""
    if "submit" in plan.settings or plan.is_opaque:
        return
    is_head, address = "head" in plan.settings, plan.settings.get("address")
    if is_head and address is not None:
        message = "--head starts a cluster, and --address joins one: ray start refuses both together"
        yield fail("ray_start_is_accepted", message, address.where, fix="Leave --address out on the head.")
    elif not is_head and address is None and "RAY_ADDRESS" not in plan.environment:
        message = "neither --head nor --address: ray start does not know whether to start a cluster or to join one"
        yield fail("ray_start_is_accepted", message, plan.where, fix="ray start --address=<head's address>:6379")
    elif isinstance(address, Sourced) and address.value != "auto" and plan.master_port is None:
        message = f"--address {address.value} has no port: ray start wants HOST:PORT"
        yield fail("ray_start_is_accepted", message, address.where, fix=f"--address={address.value}:{GCS_PORT}")


def others_are_started(files: LaunchFiles) -> Iterable[Finding]:
    """With --block the command ends with its node: what stands behind it in the script is never reached."""
    for script in files.scripts:
        plans = [plan for plan in script.plans if plan.launcher is RAY and "block" in plan.settings]
        for plan in plans:
            following = [later for later in script.plans if later.where.line > plan.where.line]
            if plan.in_background or plan.is_conditional or AWAY.intersection(plan.wrapper) or plan.is_of_a_manifest:
                continue
            behind = next((later for later in following if not later.is_conditional), None)
            if behind is not None:
                message = "--block keeps the script here as long as Ray runs, and no & is behind it"
                where = (plan.where, behind.where)
                yield fail("every_node_is_started", message, *where, fix="& behind the command, or without --block")


def nodes_meet(files: LaunchFiles) -> Iterable[Finding]:
    """Every node that joins names the head's address and port."""
    plans = [plan for plan in files.plans if plan.launcher is RAY and "submit" not in plan.settings]
    heads = [plan for plan in plans if "head" in plan.settings]
    joining = [plan for plan in plans if "head" not in plan.settings and "address" in plan.settings]
    for plan in joining:
        address, port = plan.master_address, plan.master_port
        apart = {"srun", "ssh"} & plan.wraps  # a step of its own, which Slurm or ssh starts on another node
        with_head = any(head.where.file == plan.where.file for head in heads) and not apart
        home = isinstance(address, Sourced) and is_loopback(address.value) and address.origin == "written"
        if isinstance(address, Sourced) and home and not with_head:
            message = f"--address {address.value}: the node looks for the head on itself"
            yield fail("ray_nodes_meet", message, address.where, fix="--address=<head's address>:6379")
        if len(heads) != 1 or not isinstance(port, Sourced) or port.origin == "environment":
            continue
        listens = heads[0].master_port
        if isinstance(listens, Sourced) and listens.origin != "environment" and listens.value != port.value:
            message = f"a node joins at port {port.value}, and the head listens on {listens.value}"
            fix = f"--address={value_of(address) or '<head>'}:{listens.value}"
            yield fail("ray_nodes_meet", message, port.where, listens.where, fix=fix)
    for head in heads:
        own = head.master_address
        elsewhere = [
            plan for plan in joining if (held := firm(plan.master_address)) is not None and not is_loopback(held)
        ]
        if isinstance(own, Sourced) and is_loopback(own.value) and own.origin == "written" and elsewhere:
            message = (
                f"--node-ip-address {own.value}: the head is reached from its own machine only, and others join it"
            )
            places = [plan.where for plan in elsewhere]
            yield fail("ray_nodes_meet", message, own.where, *places, fix="--node-ip-address=<the head's address>")


def submits_to_the_dashboard(files: LaunchFiles) -> Iterable[Finding]:
    """`ray job submit` talks to the dashboard (8265), not to the port that nodes join at."""
    heads = [plan for plan in files.plans if plan.launcher is RAY and "head" in plan.settings]
    for plan in files.plans:
        address = plan.settings.get("address")
        if plan.launcher is not RAY or "submit" not in plan.settings or not isinstance(address, Sourced):
            continue
        match = re.fullmatch(r"https?://.*:(\d{1,5})/?", str(address.value))
        joined = {value_of(head.master_port) for head in heads} or {GCS_PORT}
        if match and int(match[1]) in joined:
            message = f"--address {address.value}: nodes join at port {match[1]}, jobs are submitted to the dashboard's"
            fix = str(address.value).replace(f":{match[1]}", f":{DASHBOARD_PORT}")
            yield fail("ray_jobs_reach_the_dashboard", message, address.where, fix=f"--address={fix}")


def write(layout: Layout) -> dict[str, str]:
    """A script for every node: the head on the first, which submits the program once all have joined."""
    files = {}
    bare = f"[{layout.address}]" if ":" in layout.address else layout.address
    for index, node in enumerate(layout.nodes):
        more = [f"--num-gpus={layout.processes[index]}"] if layout.has_gpus else []
        if index == 0:
            command = ["ray", "start", "--head", f"--node-ip-address={layout.address}", f"--port={layout.port}", *more]
            program = shlex.join(["python", *layout.program])
            joined = '"$(ray list nodes --format json | grep -c ALIVE)"'
            waits = f"until [ {joined} -ge {len(layout.nodes)} ]; do sleep 1; done\n"
            submit = f"ray job submit --address=http://127.0.0.1:{DASHBOARD_PORT} -- {program}\n"
            body = f"{shlex.join(command)}\n{waits}{submit}"
        else:
            body = f"exec {shlex.join(['ray', 'start', f'--address={bare}:{layout.port}', *more, '--block'])}\n"
        files[f"{file_name(layout, index)}.sh"] = HEAD + exports(variables(node)) + body
    return files


# Runs where the head runs: finds the nodes, starts each rank on its own, says how each of them ended.
DRIVER = """
import json, os, socket, subprocess, sys, time
import ray

plan = json.loads(os.environ["PREFLIGHT_RANKS"])
head = os.environ["PREFLIGHT_HEAD"]
end = time.monotonic() + 40
while True:
    try:
        socket.create_connection((plan["address"], int(head.rpartition(":")[2])), 2).close()
        break
    except OSError as error:
        if time.monotonic() > end:
            sys.exit(f"the head of the Ray cluster does not listen at {head}: {error}")
        time.sleep(0.2)
ray.init(address=head, log_to_driver=False)
end, missing = time.monotonic() + 60, set(plan["nodes"])
while missing and time.monotonic() < end:
    missing = {node for node in plan["nodes"] if "preflight-" + node not in ray.cluster_resources()}
    time.sleep(0.2)
if missing:
    sys.exit("nodes that did not join the Ray cluster: " + ", ".join(sorted(missing)))
with socket.socket() as free:
    free.bind(("", 0))
    port = free.getsockname()[1]

@ray.remote(num_cpus=0, max_retries=0)
def rank(variables):
    done = subprocess.run(["sh", plan["file"]], env={**os.environ, **variables}, stdout=-1, stderr=-2)
    return int(variables["RANK"]), done.returncode, done.stdout[-30000:].decode("utf-8", "replace")

waiting = [
    rank.options(resources={"preflight-" + node: 0.001}).remote({**variables, "MASTER_PORT": str(port)})
    for node, variables in plan["ranks"]
]
failed = False
while waiting and not failed:
    ready, waiting = ray.wait(waiting)
    for number, code, said in ray.get(ready):
        print("".join(f"[{number}] {line}\\n" for line in said.splitlines()), end="")
        if code:
            print(f"rank {number} ended with {code}")
        failed = failed or code != 0
sys.exit(failed)
"""


def start_all(job: Job, master_port: int) -> dict[str, list[Process]]:
    """`ray start` on every node, the head on the first, and a driver there that starts each rank on its node."""
    first, address = job.nodes[0], job.address_for(job.nodes[0])
    bare = f"[{address}]" if ":" in address else address
    started: dict[str, list[Process]] = {}
    for node in job.nodes:
        own = {**shared_variables(job, node), **ALL_DEVICES}
        where = ["--head", f"--node-ip-address={address}", f"--port={master_port}", "--temp-dir={scratch}"]
        argv = [
            *("{python}", "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"),
            *([*where, "--include-dashboard=false"] if node == first else [f"--address={bare}:{master_port}"]),
            f"--num-cpus={len(job.placements_on(node))}",
            "--object-store-memory=100000000",
            "--resources=" + json.dumps({f"preflight-{node}": 1}),
        ]
        serves: Process = {"name": f"{node}: ray", "argv": argv, "environment": own, "serves": True}
        started[node] = [serves | {"shared": {"rank.sh": "#!/bin/sh\n{exports}exec {python} {script}\n"}}]
    ranks = [
        (
            place.node,
            {
                "RANK": str(place.rank),
                "LOCAL_RANK": str(place.local_rank),
                "LOCAL_WORLD_SIZE": str(place.local_world_size),
                "WORLD_SIZE": str(job.world_size),
                "MASTER_ADDR": address,
            },
        )
        for place in job.placements
    ]
    plan = json.dumps({"nodes": job.nodes, "address": address, "ranks": ranks, "file": "{scratch}/rank.sh"})
    driver: Process = {
        "name": ALL_RANKS,
        "argv": ["{python}", "{file:driver.py}"],
        "files": {"driver.py": DRIVER},
        "environment": {
            **shared_variables(job, first),
            "PREFLIGHT_RANKS": plan,
            "PREFLIGHT_HEAD": f"{bare}:{master_port}",
        },
    }
    started[first].append(driver)
    return started


# A task that asks for no GPU would see none; the ranks choose theirs by LOCAL_RANK.
ALL_DEVICES = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1",
    "RAY_EXPERIMENTAL_NOSET_HIP_VISIBLE_DEVICES": "1",
}
RAY = Launcher(
    name="ray",
    description="`ray start` on every node, a rank for each task",
    field_names=FieldNames(address="--address", port="--port"),
    starts_all_nodes=True,
    programs=("ray start", "ray job submit"),
    read=read,
    rules=(start_is_accepted,),
    files_rules=(nodes_meet, others_are_started, submits_to_the_dashboard),
    write=write,
    start=start_all,
    needs="ray",
    blames=AgentOutput(
        failed=re.compile(r"(?m)^rank (?P<rank>\d+) ended with (?P<exit>-?\d+)$"),
        line=re.compile(r"\[(?P<rank>\d+)\] "),
    ),
)
