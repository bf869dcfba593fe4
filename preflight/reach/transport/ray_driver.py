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
def join(cluster):
    if cluster != "auto":
        host, _, port = cluster.rpartition(":")
        try: socket.create_connection((host.strip("[]"), int(port)), 5).close()
        except OSError as error: give_up("nothing answers at %s: %s" % (cluster, error))
    try: ray.init(address=cluster, log_to_driver=False, logging_level="error", configure_logging=False)
    except Exception as error: give_up(error)
    return {node["NodeManagerAddress"]: node for node in ray.nodes() if node["Alive"]}
"""

LIST = (
    BEGIN
    + """
nodes = join(sys.argv[1])
listed = [{"address": address, "name": node["NodeManagerHostname"]} for address, node in nodes.items()]
heads = {address for address, node in nodes.items() if "node:__internal_head__" in node["Resources"]}
listed.sort(key=lambda node: (node["address"] not in heads, node["name"]))
print(json.dumps({"cluster": ray.get_runtime_context().gcs_address, "nodes": listed}))
"""
)

# What is started ends with Ray's worker (PR_SET_PDEATHSIG), or a node that Ray has lost would be called good.
# Ray hides the devices from a task that asks for none: it gets what `ray start` was given, or nothing is hidden.
ON_NODES = (
    BEGIN
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
    with_us = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"
    words = [sys.executable, "-I", "-S", "-c", with_us, *words]
    done = subprocess.Popen(words, env=environment, stdin=out, stdout=out, stderr=subprocess.PIPE)
    if wire is not None: wire.close()
    said = done.communicate()[1]
    return done.returncode, said[-20000:].decode("utf-8", "replace")
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
        except Exception as error: said = "ray: " + " ".join(str(error).split())[:2000]
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
    except Exception as error: give_up(error)
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
