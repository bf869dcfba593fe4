"""Runs scenarios of a rank program with one import of torch: each rank is a fork, spoilt as the scenario says.

python forked_ranks.py PROGRAM < scenarios.json > records.json
"""

import gc
import importlib
import json
import os
import socket
import sys
import tempfile
import types

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


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def rank_main(code, scenario, rank, port, out):
    os.dup2(out, 1)
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(scenario["ranks"]),
        "LOCAL_WORLD_SIZE": str(scenario["ranks"]),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "PREFLIGHT_SETTINGS": json.dumps(scenario["settings"]),
    }
    exec(scenario["plants"].get(str(rank), ""), {})
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    exec(code, main.__dict__)


def play(code, scenario):
    port, outputs, children = free_port(), [], []
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
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    records = []
    for output in outputs:
        output.seek(0)
        records += [json.loads(line) for line in output if line.startswith(b"{")]
        output.close()
    return {"records": records, "codes": codes}


if __name__ == "__main__":
    for module in PRELOADED:
        importlib.import_module(module)
    with open(sys.argv[1], encoding="utf-8") as file:
        compiled = compile(file.read(), sys.argv[1], "exec")
    gc.freeze()  # what all ranks share stays shared
    json.dump({name: play(compiled, scenario) for name, scenario in json.load(sys.stdin).items()}, sys.stdout)
