"""What does a driver of Ray run for us: list the nodes, start a task on each, or hand on what one task says?

Texts, because they run in the Python that has the cluster's Ray. A task is a function that Ray pins to one node; it
starts a loader in the Python of the job's workers, and with the variables that they have.
"""

from __future__ import annotations

# A head that is not there costs a minute in ray.init: it is asked for its port first.
BEGIN = """
import json, os, socket, subprocess, sys, threading
def give_up(words):
    sys.stderr.write("ray: " + " ".join(str(words).split())[:2000] + chr(10))
    sys.exit(255)
try:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    give_up(error)
def silent(cluster, seconds):
    host, _, port = cluster.rpartition(":")
    try: socket.create_connection((host.strip("[]"), int(port)), seconds).close()
    except OSError as error: return "nothing answers at %s: %s" % (cluster, error)
    return ""
def join(cluster):
    nothing = silent(cluster, 5) if cluster != "auto" else ""
    if nothing: give_up(nothing)
    try: ray.init(address=cluster, log_to_driver=False, logging_level="error", configure_logging=False)
    except Exception as error: give_up(error)
    return {node["NodeManagerAddress"]: node for node in ray.nodes() if node["Alive"]}
"""

# What Ray has reserved, and which nodes it drains, is asked in ways that not every Ray has: then that is not known. A
# job is our own if it is that of the worker or driver that started us, or under the same `ray job submit`. A worker
# that Ray started before there was a job has none in its environment: the node is asked.
LIST = (
    BEGIN
    + """
import time
def asked(question):
    try: return question()
    except Exception as error:
        return {"missing": " ".join(("this Ray does not say: %r" % error).split())[:300], "kind": "absent"}
def own_jobs():
    from ray._private.internal_api import node_stats
    own, above, pid = {os.environ.get("RAY_JOB_ID")}, set(), os.getpid()
    while pid > 1:
        above.add(pid)
        try: pid = int(open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[1])
        except OSError: break
    (here,) = [node for node in nodes.values() if node["NodeID"] == ray.get_runtime_context().get_node_id()]
    said = node_stats(here["NodeManagerAddress"], here["NodeManagerPort"], False).core_workers_stats
    own.update(worker.job_id.hex() for worker in said if worker.pid in above)
    submitted = json.loads(os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR") or "{}").get("metadata", {})
    submitted = submitted.get("job_submission_id")
    if not submitted: return own
    ask = ray._raylet.GcsClient(address=gcs).get_all_job_info
    try: jobs = ask(skip_submission_job_info_field=True, skip_is_running_tasks_field=True)
    except TypeError: jobs = ask()
    own.update(job.job_id.hex() for job in jobs.values() if job.config.metadata.get("job_submission_id") == submitted)
    return own
def reserved():
    found, groups = {}, ray.util.placement_group_table().values()
    own = own_jobs() if groups else set()
    for group in groups:
        job = group["placement_group_id"][-8:]
        words = {"name": group["name"], "id": group["placement_group_id"], "job": job, "state": group["state"]}
        for number, node in group["bundles_to_node_id"].items():
            gpus = group["bundles"][number].get("GPU", 0)
            if not gpus or not node or group["state"] == "REMOVED": continue
            of_node = found.setdefault(node, {})
            of_node.setdefault(words["id"], {**words, "gpus": 0, "is_own": job in own})["gpus"] += gpus
    return {node: list(groups.values()) for node, groups in found.items()}
def of_node(answer, node, absent): return answer if "missing" in answer else answer.get(node, absent)
def engine(node):
    name, gpus = node["NodeID"], node["Resources"].get("GPU", 0)
    free = of_node(available, name, {"missing": "Ray does not say it of this node", "kind": "absent"})
    taken = free if "missing" in free else gpus - free.get("GPU", 0)
    return {"name": "Ray", "gpus": gpus, "groups": of_node(groups, name, []), "taken": taken}
def draining(node):
    ends = of_node(drained, node["NodeID"], None)
    if ends is None or isinstance(ends, dict): return None
    return max(0, ends / 1000 - time.time()) if ends else -1
nodes = join(sys.argv[1])
gcs = ray.get_runtime_context().gcs_address
groups = asked(reserved)
available = asked(lambda: ray._private.state.available_resources_per_node())
drained = asked(lambda: ray._private.state.state.get_draining_nodes())
listed = [
    {
        "address": address,
        "name": node["NodeManagerHostname"],
        "draining": draining(node),
        "engine": engine(node),
    }
    for address, node in nodes.items()
]
heads = {address for address, node in nodes.items() if "node:__internal_head__" in node["Resources"]}
listed.sort(key=lambda node: (node["address"] not in heads, node["name"]))
print(json.dumps({"cluster": gcs, "nodes": listed}))
"""
)

# What is started ends with Ray's worker (PR_SET_PDEATHSIG), or a node that Ray has lost would be called good. A worker
# that ends kills its children at once: one stands between, so that ours is asked to end, and leaves nothing.
# Where the head is gone, Ray says of a node that it is dead: the head is asked for its port first then too.
# Ray hides the devices from a task that asks for none: it gets what `ray start` was given, or nothing is hidden.
BETWEEN = """
import ctypes, os, sys
ask = ctypes.CDLL(None).prctl
ask(1, 15)
above = os.getpid()
below = os.fork()
if not below:
    ask(1, 15)
    if os.getppid() == above: os.execvp(sys.argv[1], sys.argv[1:])
    os._exit(1)
os.close(0)
os.close(1)
code = os.waitstatus_to_exitcode(os.waitpid(below, 0)[1])
os._exit(code if code >= 0 else 128 - code)
"""
ON_NODES = (
    BEGIN
    + f"\nBETWEEN = {BETWEEN!r}"
    + """
plan = json.loads(sys.argv[1])
nodes = join(plan["cluster"])
own = ray.util.get_node_ip_address()
def loader(words, variables, wire):
    import os, subprocess, sys
    environment = {**os.environ, **variables}
    try: started = open("/proc/%d/environ" % os.getppid()).read().split(chr(0))
    except OSError: started = []
    given = dict(one.split("=", 1) for one in started if "=" in one)
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "OMP_NUM_THREADS"):
        if name in environment: del environment[name]
        if name in given: environment[name] = given[name]
    words = [sys.executable if word == "{python}" else word for word in words]
    out = wire if wire is not None else subprocess.DEVNULL
    words = [sys.executable, "-I", "-S", "-c", BETWEEN, *words]
    done = subprocess.Popen(words, env=environment, stdin=out, stdout=out, stderr=subprocess.PIPE)
    if wire is not None: wire.close()
    said = done.communicate()[1]
    return done.returncode, said[-20000:].decode("utf-8", "replace")
def why(error):
    return " ".join((silent(plan["cluster"], 1) or str(error)).split())[:2000]
def pinned(function, node):
    strategy = NodeAffinitySchedulingStrategy(nodes[node]["NodeID"], soft=False)
    return ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=strategy)(function)
"""
)

TASKS = (
    ON_NODES
    + """
shared = {"PREFLIGHT_TASK": os.environ["PREFLIGHT_TASK"], "PREFLIGHT_CONTROLLER": own}
def run(words, variables): return loader(words, variables, None)
waiting = {}
for number, (node, address) in enumerate(plan["nodes"].items()):
    if node not in nodes:
        print("%d: ray: lost the node" % number, file=sys.stderr, flush=True)
        continue
    variables = {**shared, "PREFLIGHT_ADDRESS": address, "PREFLIGHT_NUMBER": str(number)}
    waiting[pinned(run, node).remote(plan["words"], variables)] = number
while waiting:
    for done in ray.wait(list(waiting))[0]:
        number = waiting.pop(done)
        try: said = ray.get(done)[1]
        except Exception as error: said = "ray: " + why(error)
        for line in said.splitlines():
            print("%d: %s" % (number, line), file=sys.stderr, flush=True)
"""
)

RELAY = (
    ON_NODES
    + """
if plan["node"] not in nodes: give_up("lost the node")
key = os.urandom(16)
door = socket.create_server((own, 0), family=socket.AF_INET6 if ":" in own else socket.AF_INET)
def run(words, where, key):
    import socket
    wire = socket.create_connection(where, 20)
    wire.settimeout(None)
    wire.sendall(key)
    return loader(words, {}, wire)
task = pinned(run, plan["node"]).remote(plan["words"], door.getsockname()[:2], key)
def ended():
    try: code, said = ray.get(task)
    except Exception as error: give_up(why(error))
    sys.stderr.write(said)
    sys.stderr.flush()
    os._exit(code if code >= 0 else 128 - code)
wire = None
while wire is None:
    door.settimeout(1)
    try:
        wire = door.accept()[0]
        wire.settimeout(5)
        if wire.recv(len(key), socket.MSG_WAITALL) != key: wire = None
    except OSError:
        wire = None
        if ray.wait([task], timeout=0)[0]: ended()
wire.settimeout(None)
def send():
    while data := os.read(0, 1 << 16): wire.sendall(data)
    wire.shutdown(socket.SHUT_WR)
threading.Thread(target=send, daemon=True).start()
while data := wire.recv(1 << 16):
    view = memoryview(data)
    while view: view = view[os.write(1, view):]
ended()
"""
)
