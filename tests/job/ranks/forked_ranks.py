"""Plays scenarios of a rank program with one import of torch: each rank is a fork, spoilt as the scenario says.

python forked_ranks.py: every line of its standard input is a scenario with its program, every line of its standard
output what the ranks recorded. Nobody outlives it, and it ends with who started it.
"""

import ctypes
import functools
import gc
import importlib
import json
import operator
import os
import signal
import socket
import sys
import tempfile
import threading
import types
import uuid

# What some rank imports: once here instead of once in each.
PRELOADED = (
    "torch",
    "torch._dynamo",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.device_mesh",
    "torch.distributed.fsdp",
    "torch.utils.checkpoint",
    "torch.utils.data",
)
MOST_SECONDS = 300  # of one scenario, on a machine that runs other tests too
PR_SET_PDEATHSIG = 1


def end_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@functools.cache
def compiled(text):
    return compile(text, "program.py", "exec")


def rank_main(code, scenario, rank, port, out):
    end_with_parent()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(scenario["ranks"]),
        "LOCAL_WORLD_SIZE": str(scenario["ranks"]),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "PREFLIGHT_SETTINGS": json.dumps(scenario["settings"]),
        **scenario["variables"],
    }
    if "STAND_IN_CUDA" in os.environ:
        import torch

        sys.path.append(scenario["cuda"])
        importlib.import_module("standin").put_under(torch)
    exec(scenario["plants"].get(str(rank), ""), {})
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(code, main.__dict__)


def heard_by_a_node(listener, ranks):
    """What ranks tell the socket of their node, which lets them go; read while they run."""
    connections = [listener.accept()[0] for _ in range(ranks)]
    for connection in connections:
        connection.sendall(b"go\n")
    for connection in connections:
        with connection, connection.makefile() as lines:
            hello, *records = [json.loads(line) for line in lines]
        yield from ({**hello, **record} for record in records)


def play(code, scenario):
    port, outputs, children, heard = free_port(), [], [], []
    listener = socket.socket(socket.AF_UNIX)
    if scenario["has_node"]:
        listener.bind("\0preflight-test-" + uuid.uuid4().hex)
        listener.listen(scenario["ranks"])
        listener.settimeout(60)
        place = listener.getsockname()[1:].decode()
        scenario["variables"] = {**scenario["variables"], "PREFLIGHT_RECORDS": place}
    for rank in scenario["started"]:
        output = tempfile.TemporaryFile()  # noqa: SIM115 - read and closed once all ranks have ended
        child = os.fork()
        if child == 0:
            try:
                rank_main(code, scenario, rank, port, output.fileno())
            finally:
                os._exit(9)
        outputs.append(output)
        children.append(child)

    def end(*_):
        for child in children:
            os.kill(child, signal.SIGKILL)

    reader = threading.Thread(target=lambda: heard.extend(heard_by_a_node(listener, len(children))), daemon=True)
    if scenario["has_node"]:
        reader.start()

    signal.signal(signal.SIGALRM, end)
    signal.alarm(MOST_SECONDS)
    for child in children:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # none is reaped before all have ended: `end` knows them
    signal.alarm(0)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if scenario["has_node"]:
        reader.join(timeout=60)
    listener.close()
    records = sorted(heard, key=operator.itemgetter("rank"))
    for output in outputs:
        output.seek(0)
        records += [json.loads(line) for line in output if line.startswith(b"{")]
        output.close()
    return {"records": records, "codes": codes}


def serve(asked, told):
    for module in PRELOADED:
        importlib.import_module(module)
    gc.freeze()  # what all ranks share stays shared
    for line in asked:
        scenario = json.loads(line)
        told.write(json.dumps(play(compiled(scenario["program"]), scenario)) + "\n")
        told.flush()


if __name__ == "__main__":
    end_with_parent()
    serve(sys.stdin, os.fdopen(os.dup(1), "w"))
