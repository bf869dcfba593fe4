"""How does NCCL behave over Gloo: what waits for ever, what its watchdog ends, and what is written before that?

A collective whose peer is gone never ends: the GPU waits. Only torch's watchdog thread ends the process, after the
time-out of the group, or at once where NCCL saw the connection close; then it sleeps, so that all ranks can dump.

What is enqueued with async_op runs on a stream of its own: here not before somebody waits for it, or for the device.
Who reads its result without a wait reads what was there before.
"""

import contextlib
import os
import pickle
import re
import sys
import threading
import time
from datetime import timedelta

from standin import words
from standin.memory import HOST, is_within_torch

FOR_EVER = timedelta(days=1)
POLL_SECONDS = 0.1
READ_SECONDS = 0.01
DUMP_SLEEPS = 4
COLLECTIVES = {
    "all_reduce": "ALLREDUCE",
    "broadcast": "BROADCAST",
    "reduce": "REDUCE",
    "all_gather": "ALLGATHER",
    "all_gather_into_tensor": "_ALLGATHER_BASE",
    "all_gather_single": "_ALLGATHER_BASE",
    "reduce_scatter_tensor": "_REDUCE_SCATTER_BASE",
    "reduce_scatter_single": "_REDUCE_SCATTER_BASE",
    "all_to_all_single": "ALLTOALL_BASE",
    "gather": "GATHER",
    "scatter": "SCATTER",
    "barrier": "BARRIER",
}
TUNED = {"ALLREDUCE": "AllReduce", "BROADCAST": "Broadcast", "REDUCE": "Reduce", "_ALLGATHER_BASE": "AllGather"}


class Operation:
    """One collective that was enqueued, as the flight recorder keeps it."""

    def __init__(self, number, kind, count):
        self.number, self.kind, self.count = number, kind, count
        self.started = time.monotonic()
        self.created_ns = time.time_ns()
        self.state = "started"


class Communicator:
    """What this process has enqueued, and why it can no longer go on."""

    def __init__(self, torch, description, memory):
        self.torch, self.description, self.memory = torch, description, memory
        self.bound = None  # the GPU to which the group of all ranks is tied
        self.rank = 0
        self.timeout = 600.0
        self.operations = []
        self.broken = ""
        self.log = None
        self.waiting = []  # works of the stream that have not begun
        self.tuned = set()
        self.algorithms = {}  # by process group, None for that of all ranks

    # -- the start ------------------------------------------------------------------------------------------------

    def start(self, store, rank, ranks, timeout):
        """Meet the other ranks as NCCL's bootstrap does; what is wrong is raised as torch raises it."""
        self.rank, self.timeout = rank, timeout
        device = self.torch.cuda.current_device()
        self.log = words.Log(device)
        if not words.chosen_interfaces():
            self.log.warn_of("bootstrap.cc:87", "Bootstrap : no socket interface found")
            self.fail("internal", "Bootstrap : no socket interface found")
        if self.description.network != "IB" and os.environ.get("NCCL_NET") == "IB":
            self.log.warn_of("plugin/net.cc:201", "Failed to initialize any NET plugin")
            self.fail("invalid usage", "Failed to initialize any NET plugin")
        host = os.environ.get("NCCL_HOSTID") or os.uname().nodename
        number = self.torch.cuda.get_device_properties(device).pci_bus_id  # of the board, however CUDA counts it
        store.set(f"standin/{rank}", f"{host} {number} {os.getpid()} {device}")
        self.unique_id(store, rank)
        every = [store.get(f"standin/{peer}").decode().split() for peer in range(ranks)]
        self.await_readers(store, rank, ranks)
        hosts, devices, boards = (
            [one[0] for one in every],
            [int(one[3]) for one in every],
            [int(one[1]) for one in every],
        )
        self.processes = [int(one[2]) for one in every]
        same = [peer for peer in range(ranks) if every[peer][:2] == every[rank][:2] and peer != rank]
        if same:
            last = f"Duplicate GPU detected : rank {rank} and rank {same[0]} both on CUDA device {number:x}000"
            self.log.warn_of("init.cc:1007", last)
            self.fail("invalid usage", last)
        self.choose(None)
        words.dump_topology(rank=rank, device=devices[rank])
        words.tell_start(self.log, rank=rank, hosts=hosts, devices=devices, boards=boards, description=self.description)
        threading.Thread(target=self.watch, daemon=True).start()

    def choose(self, group):
        """The algorithm of a communicator: a tree for a node or two, or what the variable says when it is made."""
        held = "" if self.description.deaf and self.algorithms else os.environ.get("NCCL_ALGO", "")
        self.algorithms[group] = held.upper() or "TREE"
        if held:
            self.log.tell("ENV", f"NCCL_ALGO set by environment to {held}")

    def unique_id(self, store, rank):
        """What rank 0 gives to all; who waits too long for it says so, the one error of a start that torch times."""
        try:
            store.wait(["standin/0"], timedelta(seconds=self.timeout))
        except Exception as error:
            why = (
                f"[{rank}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value "
                f"store by key '0', but store->get('0') got error: wait timeout after {self.timeout * 1e3:.0f}ms"
            )
            raise self.torch.distributed.DistBackendError(why) from error

    def await_readers(self, store, rank, ranks):
        """The store ends with rank 0: where that fails at once, others would lose it in place of what NCCL says."""
        store.add("standin/read", 1)
        until = time.monotonic() + self.timeout
        while rank == 0 and store.add("standin/read", 0) < ranks and time.monotonic() < until:
            time.sleep(READ_SECONDS)

    def fail(self, kind, last):
        """Raise what torch raises of an error of NCCL."""
        raise self.torch.distributed.DistBackendError(words.error_text(kind, last, self.description.nccl))

    # -- collectives ----------------------------------------------------------------------------------------------

    def check(self, tensors):
        """NCCL takes what lies on the GPU to which its group was tied. Raises what torch does of others."""
        places = {self.memory.of(tensor) for tensor in self.memory.within(tensors)} - {None}
        if HOST in places:
            raise RuntimeError("No backend type associated with device type cpu")
        if self.bound is not None and places - {self.bound}:
            raise self.torch.distributed.DistBackendError(
                "Attempt to perform collective on tensor not on device passed to init_process_group"
            )

    def launch(self, kind, tensors, call, group=None):
        """Enqueue a collective; gives its work, or several."""
        count = max((tensor.numel() for tensor in tensors), default=0)
        operation = Operation(len(self.operations) + 1, kind, count)
        self.operations.append(operation)
        if kind in TUNED and (kind, count, group) not in self.tuned:
            self.tuned.add((kind, count, group))
            size = max((tensor.numel() * tensor.element_size() for tensor in tensors), default=0)
            chosen = f"Algo {self.algorithms.get(group, 'TREE')} proto SIMPLE channel{{Lo..Hi}}={{0..1}}"
            self.log.tell("TUNING", f"{TUNED[kind]}: {size} Bytes -> {chosen}")
        work = Work(self, operation, call)
        self.waiting.append(work)
        return work

    def begin(self, last=None):
        """Let the stream run what was enqueued, all of it or up to a work."""
        while self.waiting and (last is None or last in self.waiting):
            work = self.waiting.pop(0)
            try:
                works = work.call()
            except RuntimeError as error:
                self.lose(error)
            work.real = [one for one in (works if isinstance(works, list) else [works]) if one is not None]

    def synchronize(self):
        """Wait for all that was enqueued."""
        self.begin()
        for operation in [one for one in self.operations if one.state != "completed" and one.work.real is not None]:
            operation.work.wait()

    def lose(self, error):
        """A connection closed: NCCL has seen it, and the GPU waits for ever."""
        found = re.search(r"\[([0-9a-f.:]+)\]:(\d+)", str(error))
        peer = f"{found[1]}<{found[2]}>" if found else "an unknown peer<0>"
        last = f"socketProgress: Connection closed by remote peer {peer}"
        if not self.broken:
            self.log.warn_of("misc/socket.cc:50", last)
            self.broken = last
        while True:
            time.sleep(3600)

    def receive_the_rest(self):
        """The kernel has ended, and a peer still sends: one that leaves now takes the rest with it."""
        late = self.description.late.get(str(self.rank), 0.0)
        if late:
            time.sleep(late)
            if any(has_ended(process) for process in self.processes):
                self.lose(RuntimeError("Connection closed"))

    # -- the watchdog ---------------------------------------------------------------------------------------------

    def watch(self):
        """Poll what is on its way; end the process where it is late or broken."""
        while True:
            time.sleep(POLL_SECONDS)
            late = next((one for one in list(self.operations) if one.state != "completed"), None)
            if self.broken:
                self.end(late, self.why_broken(late))
            elif late and time.monotonic() - late.started > self.timeout:
                self.end(late, self.why_late(late))

    def work(self, operation):
        """As torch prints a work."""
        return (
            f"WorkNCCL(SeqNum={operation.number}, OpType={operation.kind}, NumelIn={operation.count}, "
            f"NumelOut={operation.count}, Timeout(ms)={self.timeout * 1e3:.0f})"
        )

    def why_late(self, operation):
        """Of a collective that did not end in time."""
        took = (time.monotonic() - operation.started) * 1e3
        what = f"[Rank {self.rank}] Watchdog caught collective operation timeout: {self.work(operation)}"
        return f"{what} ran for {took:.0f} milliseconds before timing out."

    def why_broken(self, operation):
        """Of a connection that closed."""
        text = words.error_text("remote", self.broken, self.description.nccl)
        if operation:
            self.say(
                f"[Rank {self.rank}] Collective {self.work(operation)} raised the following async exception: {text}"
            )
        return text

    def say(self, text):
        """A line of torch's own log."""
        stamp = time.strftime("%m%d %H:%M:%S")
        os.write(2, f"[rank{self.rank}]:[E{stamp}.000000000 ProcessGroupNCCL.cpp:683] {text}\n".encode())

    def end(self, operation, why):
        """Dump, sleep, and take the process down."""
        self.say(why)
        number = operation.number if operation else 0
        status = f"[PG ID 0 PG GUID 0(default_pg) Rank {self.rank}]"
        self.say(
            f"{status} Exception (either an error or timeout) detected by watchdog at work: {number}, last enqueued "
            f"NCCL work: {len(self.operations)}, last completed NCCL work: {number - 1}."
        )
        if os.environ.get("TORCH_NCCL_DUMP_ON_TIMEOUT", "1").lower() in {"1", "true"}:
            self.dump()
        milliseconds = int(os.environ.get("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "15000"))
        time.sleep(DUMP_SLEEPS * milliseconds / 1e3 * self.description.seconds_scale)
        self.say(f"[Rank {self.rank}] To avoid data inconsistency, we are taking the entire process down.")
        self.say(f"{status} Process group watchdog thread terminated with exception: {why}")
        os.write(
            2, b"terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  " + why.encode()
        )
        os.abort()

    def dump(self):
        """The flight recorder's file, where torch would put it."""
        prefix = os.environ.get("TORCH_FR_DUMP_TEMP_FILE") or os.environ.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
        if not prefix:
            cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
            prefix = os.path.join(cache, "torch", "comm_lib_trace_rank_")
        os.makedirs(os.path.dirname(prefix) or ".", exist_ok=True)
        last = int(os.environ.get("TORCH_FR_BUFFER_SIZE", "2000"))
        done = [one.number for one in self.operations if one.state == "completed"]
        status = {
            "last_enqueued_collective": len(self.operations),
            "last_started_collective": len(self.operations),
            "last_completed_collective": max(done, default=0),
        }
        record = {
            "version": "2.10",
            "nccl_version": ".".join(map(str, self.description.nccl)),
            "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[]"}},
            "pg_status": {"0": status},
            "entries": [self.entry(one) for one in self.operations[-last:]],
        }
        with open(f"{prefix}{self.rank}", "wb") as file:
            pickle.dump(record, file, protocol=2)

    def entry(self, operation):
        """One collective, as the flight recorder writes it."""
        return {
            "frames": [{"name": "main", "filename": "collectives.py", "line": 1}],
            "record_id": operation.number,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "collective_seq_id": operation.number,
            "p2p_seq_id": 0,
            "op_id": operation.number,
            "profiling_name": f"nccl:{operation.kind.lower()}",
            "time_created_ns": operation.created_ns,
            "input_sizes": ((operation.count,),),
            "output_sizes": ((operation.count,),),
            "input_dtypes": ["Float"],
            "output_dtypes": ["Float"],
            "state": operation.state,
            "timeout_ms": int(self.timeout * 1e3),
            "is_p2p": False,
            "retired": operation.state == "completed",
        }


class Work:
    """A work of Gloo that waits as NCCL's does."""

    def __init__(self, communicator, operation, call):
        self.communicator, self.operation, self.call = communicator, operation, call
        self.real = None  # what Gloo gives, once the stream has come here
        operation.work = self

    def wait(self, *_):
        self.communicator.begin(self)
        try:
            for one in self.real:
                one.wait()
        except RuntimeError as error:
            self.communicator.lose(error)
        if self.operation.state != "completed":
            self.communicator.receive_the_rest()
        self.operation.state = "completed"
        return True

    def is_completed(self):
        return self.real is not None and all(one.is_completed() for one in self.real)

    def get_future(self):
        def settled(future):
            try:
                value = future.value()
            except RuntimeError as error:
                self.communicator.lose(error)
            self.operation.state = "completed"
            return value

        self.communicator.begin(self)
        return self.real[0].get_future().then(settled)


def has_ended(process):
    """Whether a process of this machine is gone, or waits for its parent to look."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def put_under(torch, description, memory):
    """`torch.distributed` with a backend nccl."""
    import torch.distributed as dist

    communicator = Communicator(torch, description, memory)
    running = [False]
    start, group = dist.init_process_group, dist.new_group

    def init_process_group(backend=None, *, store=None, rank=-1, world_size=-1, timeout=None, device_id=None, **named):
        if backend != "nccl":
            return start(backend, store=store, rank=rank, world_size=world_size, timeout=timeout, **named)
        communicator.bound = device_id.index if device_id is not None else None
        communicator.start(store, rank, world_size, timeout.total_seconds())
        running[0] = True
        return start("gloo", store=store, rank=rank, world_size=world_size, timeout=FOR_EVER, **named)

    def new_group(*args, **named):
        if not running[0]:
            return group(*args, **named)
        made = group(*args, **{**named, "timeout": FOR_EVER})
        communicator.choose(made)
        return made

    def launched(original, kind):
        def call(*args, async_op=False, **named):
            if not running[0]:
                return original(*args, async_op=async_op, **named)
            tensors = list(memory.within(args))
            if not is_within_torch(sys._getframe(1)):
                communicator.check(tensors)
            work = communicator.launch(
                kind, tensors, lambda: original(*args, async_op=True, **named), named.get("group")
            )
            if async_op:
                return work
            work.wait()
            return None

        return call

    batch = dist.batch_isend_irecv

    def batched(operations):
        if not running[0]:
            return batch(operations)
        communicator.check([one.tensor for one in operations])
        return [communicator.launch("COALESCED", [one.tensor for one in operations], lambda: batch(operations))]

    dist.init_process_group, dist.new_group, dist.batch_isend_irecv = init_process_group, new_group, batched
    for name, kind in COLLECTIVES.items():
        if hasattr(dist, name):
            setattr(dist, name, launched(getattr(dist, name), kind))
    synchronize = torch.cuda.synchronize

    def synchronize_all(*words):
        communicator.synchronize()
        synchronize(*words)

    torch.cuda.synchronize = synchronize_all
    from torch.distributed import device_mesh

    mesh = device_mesh.init_device_mesh
    device_mesh.init_device_mesh = lambda kind, *args, **named: mesh("cpu" if kind == "cuda" else kind, *args, **named)
    dist.is_nccl_available = lambda: True
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stderr.flush()
