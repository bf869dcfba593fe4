"""Which single faults do people make in right launch files, and which changes of a file change nothing about its job?

A fault is a row: what a set of files must hold for it to be one, what it looks for in a file, and what it puts there.
Faults and harmless changes are made in every right set of tests/data/launch/*.txt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.launch import truth

MANY = r"(?:--nnodes[= ]\"?|#SBATCH (?:--nodes[= ]|-N ?)|num_machines: |--num_machines[= ])[2-9]"
ASKED = r"(?m)^#SBATCH (?:--nodes[= ]|-N ?)[2-9]\b"
STARTED = r"^(?:[^#\n]*\s)?(?:torchrun|accelerate launch|torch\.distributed\.run)\s"
TAKES_THE_PORT = (r"!^python -(?:m (?!torch)|c|V)", r"!--rdzv[-_]endpoint[= ]\S*:\d")
NOT_STATIC = r"(?:--rdzv[-_]backend[= ]\"?c10d)"


class Fault(NamedTuple):
    """One kind: `needs` are found in the set (or not, behind a !), `looks_for` in the file, once."""

    name: str
    needs: tuple[str, ...]
    looks_for: str
    puts: str | Callable[[re.Match[str]], str]


def plus(amount: int, group: str = "n") -> Callable[[re.Match[str]], str]:
    """The same text with a number in it made larger."""

    def made(found: re.Match[str]) -> str:
        start, end = found.start(group) - found.start(), found.end(group) - found.start()
        return found[0][:start] + str(int(found[group]) + amount) + found[0][end:]

    return made


def times(factor: int, group: str = "n") -> Callable[[re.Match[str]], str]:
    """The same text with a number in it multiplied."""
    return lambda found: plus(int(found[group]) * (factor - 1), group)(found)


NNODES = r"--nnodes[= ]\"?(?P<n>[2-9])\b(?![:\d])"
NPROC = r"--nproc[-_]per[-_]node[= ]\"?(?P<n>\d+)\b"
GPUS = r"(?:#SBATCH --(?:gres=gpu:(?:\w+:)?|gpus-per-node[= ])\d|nvidia\.com/gpu\"?: \"?\d)"
PORT = r"(?P<before>--(?:master|main)[-_](?:process[-_])?port[= ]|MASTER_PORT=)(?P<n>\d{4,5})\b"
FAULTS = (
    Fault("a node more is asked for", (NNODES, "!hetjob"), r"^#SBATCH (?:--nodes[= ]|-N ?)(?P<n>[2-9])\b", plus(1)),
    Fault("a node more is waited for", (ASKED,), NNODES, plus(1)),
    Fault("one node is waited for", (ASKED, NOT_STATIC), NNODES, lambda found: found[0][:-1] + "1"),
    Fault("more processes than GPUs", (GPUS,), NPROC, times(2)),
    Fault("fewer GPUs than processes", (NPROC,), r"^#SBATCH --gres=gpu:(?:\w+:)?(?P<n>[48])\b", lambda f: f[0][:-1] + "2"),
    Fault("a task a GPU for torchrun", (r"srun[^\n]*torchrun",), r"^#SBATCH --ntasks-per-node[= ]1\b", "#SBATCH --ntasks-per-node=4"),
    Fault("no node rank", (MANY, "!" + NOT_STATIC, "!PET_NODE_RANK"), r"--node[-_]rank[= ]\S+ ?", ""),
    Fault("node rank 0 on all", (ASKED, r"srun"), r"--node[-_]rank[= ](?:\\?\$\{?SLURM_\w+\}?)", "--node_rank=0"),
    Fault("rank of the batch shell", (ASKED, r"srun", "!c10d"), r"--(?P<o>node|machine)_rank[= ]\\\$", r"--\g<o>_rank=$"),
    Fault("no endpoint", (MANY, NOT_STATIC), r"--rdzv[-_]endpoint[= ]\S+ ?", ""),
    Fault("no backend", (MANY, "!--node[-_]rank", "!--machine_rank", "!PET_"), r"--rdzv[-_]backend[= ]c10d ?", ""),
    Fault("port over the range", TAKES_THE_PORT, PORT, r"\g<before>99999"),
    Fault("endpoint port over the range", (), r"(?P<b>--rdzv[-_]endpoint[= ][^\s:]*:)\d{4,5}\b", r"\g<b>99999"),
    Fault("port of ssh", (), PORT, r"\g<before>22"),
    Fault("address localhost", (MANY,), r"--master[-_]addr[= ]\"?[\w.${}\[\]]+\"?", "--master_addr=localhost"),
    Fault("address 127.0.0.1", (MANY, r"(?:srun|torchrun|python)"), r"^(?P<b>(?:export )?MASTER_ADDR=).*$", r"\g<b>127.0.0.1"),
    Fault("endpoint localhost", (MANY, NOT_STATIC), r"--rdzv[-_]endpoint[= ]\"?[^\s:\"]+(?=:)", "--rdzv_endpoint=localhost"),
    Fault("no backslash", (), r"(?P<b>" + STARTED + r"[^\n#]*\S) *\\\n(?= *--)", r"\g<b>\n"),
    Fault("a blank behind a backslash", (), r"(?P<b>" + STARTED + r"[^\n#]*) \\\n", r"\g<b> \\ \n"),
    Fault("an assignment behind the launcher", (), r"(?P<b>" + STARTED + ")(?P<a>-)", r"\g<b>OMP_NUM_THREADS=8 \g<a>"),
    Fault("not exported", (r"srun[^\n]*python", "!torchrun", "!accelerate", "!--master_addr=", "!srun[^\n]*MASTER_ADDR"), r"^export (?=MASTER_ADDR=|WORLD_SIZE=)", ""),
    Fault("an NCCL variable not exported", (r"(?m)^(?:srun )?torchrun",), r"^export (?=NCCL_\w+=)", ""),
    Fault("#SBATCh", (), r"^#SBATCH (?=--?n)", "#SBATCh "),
    Fault("a space before SBATCH", (MANY,), r"^#SBATCH (?=--nodes|-N)", "# SBATCH "),
    Fault("directive behind a command", (), r"^(?P<d>#SBATCH (?:--nodes|-N).*\n)(?P<r>(?:#.*\n|\n)*)(?P<c>[^#\n].*\n)", r"\g<r>\g<c>\g<d>"),
    Fault("tensor size does not divide", (), r"--tensor-model-parallel-size[= ]\d+", "--tensor-model-parallel-size 3"),
    Fault("too large a pipeline", (MANY,), r"--pipeline-model-parallel-size[= ](?P<n>\d+)", times(64)),
    Fault("vllm over twice the GPUs", (r"num-gpus|gpus-per-node|gres=gpu|nvidia.com/gpu",), r"--tensor-parallel-size[= ](?P<n>\d+)", times(4)),
    Fault("fewer slots than GPUs asked for", (r"--num_gpus[= ]8",), r"slots=8", "slots=4"),
    Fault("a host twice", (r"deepspeed",), r"^(?P<l>\S+ slots=\d+)\n", r"\g<l>\n\g<l>\n"),
    Fault("a slot without a number", (r"deepspeed",), r"slots=\d+", "slots="),
    Fault("more nodes than hosts", (r"slots=\d+",), r"--num_nodes[= ](?P<n>\d+)", plus(3)),
    Fault("a replica more", (NNODES, "kind: PyTorchJob"), r"(?P<b>Worker:\n\s+replicas: )(?P<n>\d+)", plus(1)),
    Fault("fewer GPUs in a pod", (NPROC,), r"nvidia\.com/gpu\"?: \"?(?P<n>[48])\b", lambda found: found[0][:-1] + "1"),
    Fault("one rank twice", (r"(?m)^machine_rank: 0",), r"^machine_rank: 1\b", "machine_rank: 0"),
    Fault("a rank out of range", (), r"^machine_rank: 1\b", "machine_rank: 7"),
    Fault("another count of machines", (r"(?m)^machine_rank: 0",), r"(?P<a>^machine_rank: 1\b[^~]*)num_machines: 2", r"\g<a>num_machines: 3"),
    Fault("a number in words", (), r"^num_processes: \d+", "num_processes: sixteen"),
    Fault("a key misspelt", (), r"^num_machines:", "num_machine:"),
    Fault("another key misspelt", (), r"^main_process_port:", "main_process_prot:"),
    Fault("no address of the main process", (r"(?m)^num_machines: [2-9]", "!--main_process_ip", "!hostfile", "!mpirun"), r"^main_process_ip: .*\n", ""),
    Fault("processes that do not divide", (r"(?m)^num_machines: 2",), r"^num_processes: (?P<n>\d*[02468])$", plus(1)),
    Fault("a precision of nobody", (), r"^mixed_precision: \w+", "mixed_precision: bf17"),
    Fault("a type of nobody", (), r"^distributed_type: \w+", "distributed_type: MULTI_GPUS"),
    Fault("an option misspelt", (), r"--nproc(?P<s>[-_])per[-_]node", r"--nproc\g<s>pre\g<s>node"),
    Fault("another option misspelt", (), r"--rdzv(?P<s>[-_])endpoint", r"--rdvz\g<s>endpoint"),
    Fault("a rank option misspelt", (r"accelerate launch",), r"--machine_rank", "--machine_rnak"),
    Fault("an open quote", (r"#!",), r"^(?P<b>[^\"'#\n]*=)(?P<v>[\w.]+)$", r'\g<b>"\g<v>'),
    Fault("an address to be filled in", (), r"--master[-_]addr[= ]\"?[\d.]+\"?", "--master_addr=<MASTER_IP>"),
    Fault("an account to be filled in", (), r"\A(?P<b>#!.*\n)(?=#SBATCH)", r"\g<b>#SBATCH --account=your_account\n"),
    Fault("a partition to be filled in", (), r"\A(?P<b>#!.*\n)(?=#SBATCH)", r"\g<b>#SBATCH --partition=<partition>\n"),
    Fault("a mail address to be filled in", (), r"\A(?P<b>#!.*\n)(?=#SBATCH)", r"\g<b>#SBATCH --mail-user=<your@email>\n"),
    Fault("an image to be filled in", (), r"^(?P<b>\s+(?:- )?image: ).*", r"\g<b><image>"),
    Fault("a variable of NCCL misspelt", (STARTED,), r"\A(?P<b>#!.*\n)(?!#SBATCH)", r"\g<b>export NCCL_SOCKET_IFNAM=eth0\n"),
    Fault("a value that NCCL cannot read", (STARTED,), r"\A(?P<b>#!.*\n)(?!#SBATCH)", r"\g<b>export NCCL_IB_DISABLE=yes\n"),
    Fault("the loopback interface", (STARTED, MANY), r"\A(?P<b>#!.*\n)(?!#SBATCH)", r"\g<b>export NCCL_SOCKET_IFNAME=lo\n"),
    Fault("two devices for eight", (r"--nproc[-_]per[-_]node[= ]8", "!CUDA_VISIBLE"), r"\A(?P<b>#!.*\n)(?!#SBATCH)", r"\g<b>export CUDA_VISIBLE_DEVICES=0,1\n"),
    Fault("a port of each node's own", (MANY, "!SBATCH", "!srun", "!ssh", "!mpirun"), r"--master[-_]port[= ]\S+", "--master_port=$RANDOM"),
    Fault("an address of each node's own", (MANY, "!SBATCH", "!srun", "!ssh", "!mpirun"), r"--master[-_]addr[= ]\S+", "--master_addr=$(hostname)"),
    Fault("an id of each node's own", (MANY, NOT_STATIC, "!SBATCH", "!srun", "!ssh", "!mpirun"), r"--rdzv[-_]id[= ]\S+", "--rdzv_id=$RANDOM"),
    Fault("a world of one less", (r"(?m)^#SBATCH --ntasks[= ]\d",), r"^export WORLD_SIZE=(?P<n>\d+)$", plus(-1)),
    Fault("rank of the world's size", (r"(?m)^export WORLD_SIZE=2$",), r"^export RANK=\d+$", "export RANK=2"),
    Fault("stage 5", (), r"\"stage\": \d", '"stage": 5'),
    Fault("batch sizes that do not multiply", (r"train_micro_batch_size_per_gpu\": \d",), r"\"train_batch_size\": (?P<n>\d+)", plus(1)),
    Fault("two precisions", (r"bf16",), r"\"(?:bf16|bfloat16)\": ?\{", '"fp16": {"enabled": true}, "bf16": {"enabled": true, "x": 1, "y": {}}, "z": {'),
    Fault("a comma too many", (), r"\}\n\}\s*\Z", "},\n}\n"),
    Fault("no network of the host", (MANY, "docker run"), r"--(?:network|net)[= ]host ?", ""),
    Fault("no GPUs in the container", ("docker run",), r"--gpus[= ]\S+ ?", ""),
    Fault("the nodes one after the other", (r"ssh|srun",), r" &(?= *$)(?!&)", ""),
    Fault("nobody waits", (r" &\s*$", "#SBATCH"), r"^wait *$", ""),
    Fault("no program", (), r"(?P<b>" + STARTED + r"(?:--[-\w]+(?:=\S+)? )*)[\w/]+\.py.*$", r"\g<b>"),
    Fault("no process at all", (), NPROC, "--nproc_per_node=0"),
    Fault("one node is started", (ASKED, MANY), r"^(?P<b> *)srun (?:-\S+ )*(?=(?:torchrun|python -m torch|accelerate))", r"\g<b>"),
    Fault("a variable misspelt where it is read", (r"(?m)^(?:export )?MASTER_ADDR=",), r"(?<==)\"?\$\{?MASTER_ADDR\}?", "$MASTER_ADRR"),
    Fault("blanks around =", (), r"^(?P<b>(?:export )?MASTER_(?:ADDR|PORT))=", r"\g<b> = "),
    Fault("a long dash", (), r" --(?=nnodes|num_processes|hostfile)", " —"),
    Fault("quotes of a word processor", (), r"^(?P<b>(?:export )?MASTER_ADDR=)(?P<v>[\d.]+)$", r"\g<b>“\g<v>”"),
    Fault("twice as many ranks as slots", (r"mpirun[^\n]*-H \S+:\d",), r"-np (?P<n>\d+)", times(2)),
    Fault("another port of Ray", (r"ray start --head[^\n]*--port[= ]\d+",), r"(?P<b>ray start --address[= ]\"?[^\s:]+:)\d+", r"\g<b>7777"),
    Fault("line ends of Windows", (), r"\A#!.*(?:\n.*)*", lambda found: found[0].replace("\n", "\r\n")),
)  # fmt: skip


def broken(case: truth.Case, fault: Fault) -> Iterator[tuple[str, dict[str, str]]]:
    """The set with the fault in each of its files that can have it."""
    whole = "\n".join(case.texts.values())
    for need in fault.needs:
        if (re.search(need.removeprefix("!"), whole, re.MULTILINE) is None) is not need.startswith("!"):
            return
    for name, text in case.texts.items():
        made = re.sub(fault.looks_for, fault.puts, text, count=1, flags=re.MULTILINE)
        if made != text:
            yield name, {**case.texts, name: made}


def comment(text: str) -> str:
    """A comment above the last command."""
    lines = text.rstrip("\n").split("\n")
    free = [place for place in range(1, len(lines)) if re.match(r"\w", lines[place])]
    at = next((place for place in reversed(free) if not lines[place - 1].rstrip().endswith("\\")), 0)
    return "\n".join([*lines[:at], "# torchrun --nnodes=7 as it was last year", *lines[at:], ""]) if at else text


def quoted(text: str) -> str:
    """The values of options in quotes."""
    return re.sub(r"(?m)(?<= )(--n(?:nodes|proc_per_node|ode_rank|um_processes)=)(\d+)(?=\s)", r'\1"\2"', text)


def broken_line(text: str) -> str:
    """A command over one line more."""
    return re.sub(r"(?m)^( *(?:srun )?(?:torchrun|accelerate launch)) (?=--)", "\\1 \\\\\n    ", text, count=1)


def variable(text: str) -> str:
    """A variable in the place of a literal."""
    found = re.search(
        r"(?m)^(?=[^#\n]*(?:torchrun|accelerate launch))(?P<b>[^#'\n]*--(?:nnodes|num_machines)=)(?P<n>\d+)(?=\s)", text
    )
    if found is None or text.count("\n", 0, found.start()) < 1 or text[: found.start()].rstrip(" \n").endswith("\\"):
        return text
    return f"{text[: found.start()]}HOW_MANY={found['n']}\n{found['b']}$HOW_MANY{text[found.end() :]}"


def function(text: str) -> str:
    """All commands in a function, which is called at the end."""
    head = re.match(r"(?:#.*\n|\s*\n)*", text)
    body = text[head.end() if head else 0 :]
    if "exit" in body or "<<" in body or "return" in body or re.search(r"(?m)^\w+\(\)|^function ", body):
        return text
    return f'{text[: head.end() if head else 0]}main() {{\n{body.rstrip()}\n}}\nmain "$@"\n'


HARMLESS = {
    "a comment": comment,
    "quotes": quoted,
    "a line break": broken_line,
    "a variable": variable,
    "a function": function,
}


def is_script(name: str, text: str) -> bool:
    """Whether it is one of bash."""
    return text.startswith("#!") and "bash" in text.split("\n", 1)[0] and not name.endswith((".yaml", ".yml"))
