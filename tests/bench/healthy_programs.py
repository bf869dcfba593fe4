"""Which programs end well, and print on their way what looks like a failure? ``python -m tests.bench.healthy_logs`` runs them.

Every program calls ``plant(step)`` in its loop: where the variable PLANT names a failure, the last rank has it there.
"""

from __future__ import annotations

BEGIN = """
import datetime, json, logging, os, signal, sys, time, traceback, warnings
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
PLANT = os.environ.get("PLANT", "")
def plant(step):
    if not PLANT or step != 6 or rank != size - 1:
        return
    time.sleep(0.3)
    if PLANT == "exception": raise LookupError("odd sample")
    if PLANT == "killed": os.kill(os.getpid(), 9)
    if PLANT == "memory": torch.empty(1 << 50)
    if PLANT == "file": open("/data/train/part-0.jsonl")
    if PLANT == "disk": torch.save(torch.ones(99999), open("/dev/full", "wb", buffering=0))
def join(seconds=60):
    if PLANT == "port":
        seconds = 8
        if rank == size - 1: os.environ["MASTER_PORT"] = "29478"
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=seconds))
def steps(count=12, first=1, say=None):
    model = torch.nn.Linear(8, 8)
    model = DDP(model) if dist.is_initialized() else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(first, first + count):
        loss = model(torch.ones(4, 8)).pow(2).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        if say: say(step, loss.item())
        elif rank == 0: print(f"step {step} loss {loss.item():.4f}", flush=True)
        plant(step)
        time.sleep(0.02)
    return model
"""
LEAVE = "dist.barrier(); dist.destroy_process_group()\n"

# Those of plain torch: they run alone and under every launcher that sets RANK and WORLD_SIZE.
PLAIN: dict[str, str] = {
    "plain": "join(); steps(); " + LEAVE,
    "group left open": "join(); steps(); print('done')\n",
    "logging": "logging.basicConfig(level=logging.INFO, format=f'%(asctime)s - {rank} - %(levelname)s - %(message)s')\n"
    "join(); steps(say=lambda n, loss: logging.info('iteration %d: loss %.3f, lr 3e-4', n, loss)); logging.info('training finished'); "
    + LEAVE,
    "bar": "from tqdm import tqdm\njoin(); bar = tqdm(total=12, disable=rank != 0)\n"
    "steps(say=lambda n, loss: bar.update(1)); bar.close(); " + LEAVE,
    "sizes tried": "def tried(n):\n    try:\n        torch.empty(1 << (60 - 10 * n)); return True\n    except RuntimeError as error:\n"
    "        print(f'batch size {1 << (20 - n)} does not fit: {error}'); return False\n"
    "join(); [tried(n) for n in range(3)]; print('using batch size 1024'); steps(); " + LEAVE,
    "bad sample": "join()\nfor n in range(3):\n    try:\n        json.loads('{lr: 1}')\n    except ValueError:\n"
    "        logging.exception('rank %d: cannot read sample %d, skipping it', rank, n)\nsteps(); " + LEAVE,
    "bad sample in a step": "join()\ndef say(n, loss):\n    print(f'[rank{rank}] step {n} loss {loss:.3f}', flush=True)\n    if n in (3, 4):\n"
    "        try:\n            torch.ones(2, 3) @ torch.ones(4, 5)\n        except RuntimeError:\n            traceback.print_exc()\nsteps(say=say); "
    + LEAVE,
    "checkpoint not there yet": "join()\ntry:\n    torch.load('/ckpt/last.pt')\nexcept FileNotFoundError as error:\n"
    "    print(f'no checkpoint to resume from ({error}), starting from scratch')\nsteps(); " + LEAVE,
    "download retried": "import urllib.request\njoin()\nfor n in range(1, 4):\n    try:\n"
    "        urllib.request.urlopen('http://127.0.0.1:9/config.json', timeout=2)\n    except OSError as error:\n"
    "        print(f'attempt {n} of 3 failed: {error!r}; retrying')\nprint('using the local copy'); steps(); " + LEAVE,
    "requests retried": "import requests, requests.adapters, urllib3\nlogging.basicConfig(level=logging.WARNING)\njoin(); s = requests.Session()\n"
    "s.mount('http://', requests.adapters.HTTPAdapter(max_retries=urllib3.Retry(3, backoff_factor=0.1)))\ntry:\n    s.get('http://127.0.0.1:9/api')\n"
    "except requests.ConnectionError as error:\n    logging.warning('metrics are not sent: %s', error)\nsteps(); "
    + LEAVE,
    "name not known": "import socket\njoin()\ntry:\n    socket.getaddrinfo('metrics.invalid', 80)\nexcept socket.gaierror as error:\n"
    "    warnings.warn(f'no metrics server: {error}')\nsteps(); " + LEAVE,
    "quoted chats": "join(); steps(4)\nfor n in range(3):\n    print(json.dumps({'prompt': 'why does it say RuntimeError: CUDA out of memory?', "
    "'completion': 'NCCL WARN NET/IB : Got completion with error 12 means a lost packet', 'reward': 0.1 * n}), flush=True)\nsteps(8, 5); "
    + LEAVE,
    "quoted samples": "join(); steps(4)\nfor n in range(3):\n    print('[prompt] user asks: OSError: [Errno 28] No space left on device, what now?')\n"
    "    print('[response] ConnectionRefusedError: [Errno 111] Connection refused is told when nobody listens.')\n    print('[score] 0.5', flush=True)\nsteps(8, 5); "
    + LEAVE,
    "tests run first": "import subprocess\njoin()\nif rank == 0:\n    open('test_io.py', 'w').write('def test_connection_refused_is_retried():\\n    pass\\n"
    "def test_out_of_memory_error():\\n    pass\\n')\n    print(subprocess.run([sys.executable, '-m', 'unittest', '-v', 'test_io'], capture_output=True, text=True).stderr)\n"
    "dist.barrier(); steps(); " + LEAVE,
    "settings printed": "join()\nif rank == 0:\n    for name, value in {'max_retries': 3, 'on_error': 'abort', 'fail_on_nan': True, 'nccl_timeout': 1800, 'oom_retries': 2, "
    "'ignore_errors': ['ConnectionError', 'TimeoutError'], 'watchdog': 'off'}.items():\n        print(f'{name}: {value}')\nsteps(); "
    + LEAVE,
    "thread fails": "import threading\njoin()\ndef report():\n    raise ConnectionResetError(104, 'Connection reset by peer')\n"
    "threading.Thread(target=report).start(); steps(); " + LEAVE,
    "__del__ fails": "class Writer:\n    def __del__(self):\n        raise AttributeError(\"'Writer' object has no attribute 'file'\")\n"
    "join(); writer = Writer(); steps(6); del writer; steps(6, 7); " + LEAVE,
    "tools missing": "import subprocess\njoin()\nif rank == 0:\n    subprocess.run('nvidia-smi --query-gpu=name --format=csv; rm /tmp/no-such-lock; ls /data/none; git rev-parse HEAD', shell=True)\nsteps(); "
    + LEAVE,
    "no CUDA": "join(); scaler = torch.amp.GradScaler('cuda'); torch.autocast('cuda').__enter__()\nprint('CUDA available:', torch.cuda.is_available()); steps(); "
    + LEAVE,
    "waited in the store": "join(); store = dist.distributed_c10d._get_default_store()\ntry:\n    store.wait(['not/set'], datetime.timedelta(seconds=1))\n"
    "except Exception as error:\n    print(f'rank {rank}: no plan in the store, using the default: {type(error).__name__}: {error}')\nsteps(); "
    + LEAVE,
    "late rank": "if rank == 0: time.sleep(4)\njoin(); steps(); " + LEAVE,
    "interrupted after a save": "join(); model = steps(); torch.save(model.state_dict(), f'last-{rank}.pt'); print('checkpoint saved to last.pt', flush=True)\n"
    "dist.barrier(); time.sleep(0.5)\nif PLANT: " + LEAVE + "os.kill(os.getpid(), 2); time.sleep(5)\n",
    "asked to leave": "def leave(number, frame):\n    print(f'rank {rank}: got signal {number}, saved checkpoint, graceful shutdown', flush=True); os._exit(0)\n"
    "signal.signal(15, leave); join(); steps(); dist.barrier(); time.sleep(0.5)\nif PLANT: "
    + LEAVE
    + "os.kill(os.getpid(), 15); time.sleep(5)\n",
    "evaluation": "join(); steps()\nif rank == 0:\n    print('word error rate: 12.3'); print('top-1 error 23.4%'); print('mean absolute error: 0.31, failed parses: 0')\n"
    + LEAVE,
    "loader warns": "class D(torch.utils.data.Dataset):\n    def __len__(s): return 64\n    def __getitem__(s, i):\n        if i == 7: warnings.warn('corrupt JPEG data: 12 extraneous bytes before marker 0xd9')\n"
    "        return torch.ones(8)\njoin(); [x.sum() for x in torch.utils.data.DataLoader(D(), 4, num_workers=9)]; steps(); "
    + LEAVE,
    "processes of its own": "import multiprocessing as m\ndef work(n):\n    if n == 2: raise ValueError('worker 2: bad shard, will be retried')\n"
    "join(); ps = [m.get_context('fork').Process(target=work, args=(n,)) for n in range(3)]; [p.start() for p in ps]; [p.join() for p in ps]; "
    "print('exit codes', [p.exitcode for p in ps], '- shard 2 read again'); steps(); " + LEAVE,
    "kernel not built": "join(); print('fused kernels are not available (No module named flash_attn), using sdpa')\ntry:\n    import flash_attn\nexcept ImportError as error:\n"
    "    logging.warning('flash_attn: %s', error)\nsteps(); " + LEAVE,
    "json logs": "join(); steps(say=lambda n, loss: print(json.dumps({'level': 'info', 'rank': rank, 'step': n, 'loss': loss, 'errors': 0, 'failed_batches': []}), flush=True))\n"
    "print(json.dumps({'level': 'info', 'event': 'run_end', 'error': None, 'status': 'ok'})); " + LEAVE,
    "nan once": "join()\ndef say(n, loss):\n    print(f'step {n} loss ' + ('nan, skipping this update' if n == 3 else f'{loss:.3f}'), flush=True)\nsteps(say=say); "
    + LEAVE,
    "DETAIL": "join(); steps(); x = torch.ones(4); dist.all_reduce(x); dist.monitored_barrier(); " + LEAVE,
}

# Those that bring a launcher's or a trainer's own words.
RECOVERS = """
if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) == 0:
    join(); steps(3)
    if rank == size - 1: FAIL
    dist.barrier()
join(); steps(); dist.barrier(); dist.destroy_process_group()
"""
STACKS: dict[str, str] = {
    "recovers from an exception": RECOVERS.replace("FAIL", "raise RuntimeError('lost a shard')"),
    "recovers from a killed rank": RECOVERS.replace("FAIL", "os.kill(os.getpid(), 9)"),
    "recovers from memory": RECOVERS.replace("FAIL", "torch.empty(1 << 50)"),
    "accelerate": "from accelerate import Accelerator\nfrom accelerate.logging import get_logger\na = Accelerator(cpu=True, gradient_accumulation_steps=2)\n"
    "logging.basicConfig(level=logging.INFO); log = get_logger('train'); model = torch.nn.Linear(8, 8); o = torch.optim.SGD(model.parameters(), 0.1)\n"
    "model, o = a.prepare(model, o); rank, size = a.process_index, a.num_processes; log.info(repr(a.state))\nfor n in range(1, 13):\n"
    "    with a.accumulate(model):\n        loss = model(torch.ones(4, 8)).pow(2).mean(); a.backward(loss); o.step(); o.zero_grad()\n"
    "    log.info('step %d loss %.3f', n, loss.item()); plant(n)\na.save_state('ckpt'); a.print('checkpoint saved'); a.end_training()\n",
    "accelerate finds a batch size": "from accelerate.utils import find_executable_batch_size\nfrom accelerate import Accelerator\na = Accelerator(cpu=True); rank, size = a.process_index, a.num_processes\n"
    "@find_executable_batch_size(starting_batch_size=64)\ndef loop(batch_size):\n    a.print('trying batch size', batch_size)\n"
    "    if batch_size > 16: raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB.')\n    for n in range(1, 13):\n        a.print(f'step {n} loss {1 / n:.3f}'); plant(n)\nloop()\n",
    "deepspeed": "import deepspeed\ndeepspeed.init_distributed('gloo'); rank, size = dist.get_rank(), dist.get_world_size(); model = torch.nn.Linear(8, 8)\n"
    "engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), 1e-3), config={'train_micro_batch_size_per_gpu': 4, 'steps_per_print': 2, 'zero_optimization': {'stage': ZERO}})\n"
    "for n in range(1, 13):\n    loss = engine(torch.ones(4, 8)).pow(2).mean(); engine.backward(loss); engine.step()\n    if rank == 0: print(f'step {n} loss {loss.item():.3f}', flush=True)\n    plant(n)\n"
    "engine.save_checkpoint('ckpt'); dist.destroy_process_group()\n",
    "trainer": "from transformers import Trainer, TrainingArguments, BertConfig, BertForSequenceClassification, TrainerCallback\n"
    "class C(TrainerCallback):\n    def on_step_end(self, args, state, control, **k): plant(state.global_step)\n"
    "model = BertForSequenceClassification(BertConfig(vocab_size=99, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16))\n"
    "data = [{'input_ids': [1, 2, 3], 'attention_mask': [1, 1, 1], 'labels': n % 2} for n in range(64)]\n"
    "args = TrainingArguments('out', use_cpu=True, per_device_train_batch_size=4, num_train_epochs=2, logging_steps=4, save_steps=8, eval_strategy='epoch', report_to=[], disable_tqdm=BAR)\n"
    "t = Trainer(model, args, train_dataset=data, eval_dataset=data[:8], callbacks=[C()]); t.train(); t.save_model('out/final'); print(t.evaluate())\n",
    "lightning": "import lightning as L\nfrom lightning.pytorch.callbacks import ModelCheckpoint, EarlyStopping\n"
    "class M(L.LightningModule):\n    def __init__(s):\n        super().__init__(); s.m = torch.nn.Linear(8, 8)\n    def training_step(s, b, i):\n"
    "        global rank, size\n        rank, size = s.global_rank, s.trainer.world_size\n        plant(s.global_step); loss = s.m(b).pow(2).mean(); s.log('train_loss', loss, prog_bar=True); return loss\n"
    "    def validation_step(s, b, i): s.log('val_loss', s.m(b).pow(2).mean())\n    def configure_optimizers(s): return torch.optim.SGD(s.parameters(), 0.1)\n"
    "data = torch.utils.data.DataLoader(torch.ones(64, 8), 4)\n"
    "L.Trainer(accelerator='cpu', devices=DEVICES, num_nodes=1, strategy=STRATEGY, max_epochs=3, log_every_n_steps=4, callbacks=CALLBACKS).fit(M(), data, data)\nDONE\n",
    "ray train": "import ray\nfrom ray.train import RunConfig, FailureConfig, ScalingConfig, report, get_context\nfrom ray.train.torch import TorchTrainer\n"
    "MARK = os.path.abspath('failed-once')\ndef loop():\n    global rank, size\n    rank, size = get_context().get_world_rank(), get_context().get_world_size()\n    for n in range(1, 13):\n"
    "        print(f'step {n} loss {1 / n:.3f}', flush=True); plant(n); time.sleep(0.05)\n        if RETRY and n == 3 and rank == 0 and not os.path.exists(MARK):\n            open(MARK, 'w').close(); raise RuntimeError('lost a shard')\n        report({'loss': 1 / n})\n"
    "ray.init(num_cpus=3, include_dashboard=False, log_to_driver=True)\n"
    "result = TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2), run_config=RunConfig(storage_path=os.path.abspath('ray'), failure_config=FailureConfig(max_failures=RETRY))).fit()\nprint(result.metrics)\n",
    "spawned": "import torch.multiprocessing as mp\ndef work(n):\n    global rank, size\n    rank, size = n, 2\n    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='29475')\n"
    "    dist.init_process_group('gloo', rank=n, world_size=2); steps(); dist.barrier(); dist.destroy_process_group()\nif __name__ == '__main__':\n    mp.spawn(work, nprocs=2)\n    print('training finished')\n",
}
