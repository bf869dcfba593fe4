"""What do `ray start` and `ray job submit` ask for?"""

from __future__ import annotations

import re
from dataclasses import replace

from preflight.launch.field import Field, Sourced, words
from preflight.launch.launcher import Launcher
from preflight.launch.launchers.ray.rules import (
    nodes_meet,
    one_head_is_started,
    others_are_started,
    start_is_accepted,
    submits_to_the_dashboard,
    workers_get_the_variables,
)
from preflight.launch.launchers.ray.start import GCS_PORT, start_all, write
from preflight.launch.launchers.torchrun import arguments
from preflight.launch.plan import Plan
from preflight.launch.text.marks import is_known
from preflight.launch.text.options import Reader, Spec, parse_options
from preflight.launch.text.shell import Word
from preflight.launch.traits import AgentOutput, FieldNames

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


RAY = Launcher(
    name="ray",
    description="`ray start` on every node, a rank for each task",
    field_names=FieldNames(address="--address", port="--port"),
    starts_all_nodes=True,
    programs=("ray start", "ray job submit"),
    read=read,
    rules=(start_is_accepted, one_head_is_started),
    files_rules=(nodes_meet, others_are_started, submits_to_the_dashboard, workers_get_the_variables),
    write=write,
    start=start_all,
    needs="ray",
    blames=AgentOutput(
        failed=re.compile(r"(?m)^rank (?P<rank>\d+) ended with (?P<exit>-?\d+)$"),
        line=re.compile(r"\[(?P<rank>\d+)\] "),
    ),
)
