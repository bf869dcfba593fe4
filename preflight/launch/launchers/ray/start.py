"""How does a Ray cluster start a job: files for people, and a task for each rank?"""

from __future__ import annotations

import json
import shlex

from preflight.launch.job import ALL_RANKS, Job, Process, shared_variables
from preflight.launch.layout import Layout, exports, file_name, variables

GCS_PORT, DASHBOARD_PORT = 6379, 8265


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
        files[f"{file_name(layout, index)}.sh"] = layout.head + exports(variables(node)) + body
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
