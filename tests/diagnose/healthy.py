"""Logs of jobs that went well, with all that such jobs print on their way: retries, restarts, warnings and quotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

# How the stacks tell of progress; {n} counts on.
STEPS: dict[str, str] = {
    "torch": "[rank0]: step {n} loss 2.{n} lr 3e-4",
    "titan": "[titan] 2030-01-02 03:{n:02}:05,123 - root - INFO - step: {n}  loss:  4.2  memory: 41.12GiB(52.0%)  tps: 6,021  mfu: 41.2%",
    "trainer": "{{'loss': 1.{n}, 'grad_norm': 0.8, 'learning_rate': 2e-05, 'epoch': 0.{n}}}",
    "bar": " {n}%|###       | {n}/100 [00:{n:02}<01:12,  1.02s/it]",
    "deepspeed": "[2030-01-02 03:{n:02}:05,100] [INFO] [logging.py:128:log_dist] [Rank 0] step={n}, skipped=0, lr=[3e-05], mom=[(0.9, 0.95)]",
    "megatron": " [2030-01-02 03:{n:02}:05] iteration       {n}/     500 | consumed samples:  {n}0 | elapsed time per iteration (ms): 812.1 | lm loss: 6.1E+00 |",
    "verl": "(TaskRunner pid=4711) step:{n} - global_seqlen/mean:812.0 - actor/entropy:0.41 - critic/score/mean:0.31 - perf/throughput:912.1",
    "vllm": "INFO 01-02 03:{n:02}:05 [loggers.py:123] Engine 000: Avg prompt throughput: 91.{n} tokens/s, Avg generation throughput: 812.3 tokens/s, Running: 8 reqs, Waiting: 0 reqs",
    "sglang": "[2030-01-02 03:{n:02}:05 TP0] Decode batch. #running-req: 8, #token: 40{n}, token usage: 0.03, cuda graph: True, gen throughput (token/s): 812.3, #queue-req: 0",
    "ray": "(RayTrainWorker pid=812, ip=10.0.0.4) epoch {n} loss 0.4{n}",
    "lightning": "Epoch {n}: 100%|##########| 120/120 [00:{n:02}<00:00,  6.02it/s, v_num=3, train_loss=0.4]",
    "nemo": "[NeMo I 2030-01-02 03:{n:02}:05 rank0:megatron_strategy:12] Training epoch 0, iteration {n}/499 | lr: 3e-05 | global_step: {n} | reduced_train_loss: 4.2",
    "composer": "[batch={n}/400]: Train time/batch: {n} Train loss/train/total: 2.3",
}
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.10 GiB is free."
REFUSED = "[W102 03:00:01.1 socket.cpp:752] [c10d] The client socket has failed to connect to [head]:29500 (errno: 111 - Connection refused)."
RAS = "n1:4711:4790 [0] ras/client_support.cc:160 NCCL WARN Call to bind failed: Address already in use"
TRACE = ("Traceback (most recent call last):", '  File "/job/train.py", line 31, in step')


# Words of errors that are none, as the last lines of a log that goes no further.
WORDS: dict[str, list[str]] = {
    "eval metrics": [
        "| Tasks |Version|Metric|Value|",
        "|hellaswag|1|acc|0.61|",
        "word error rate: 12.3",
        "mean squared error 0.031",
        "top-1 error 23.4%",
    ],
    "training error": ["epoch 3 done", "training error 12.31 validation error 14.2"],
    "wandb end": [
        "wandb: Run history:",
        "wandb: train/loss 0.31",
        "wandb: eval/error_rate 0.12",
        "wandb: Synced 5 W&B file(s), 0 media file(s)",
        "wandb: Find logs at: ./wandb/run-1/logs",
    ],
    "weights": [
        "Some weights of BertForSequenceClassification were not initialized from the model checkpoint",
        "You should probably TRAIN this model on a down-stream task to be able to use it for predictions and inference.",
    ],
    "failing optional": ["Failed to import apex; using native amp", "step 1 loss 3"],
    "optional2": [
        "fused kernels not found, building from source",
        "Could not load library libtriton_extra.so, falling back to pytorch",
    ],
    "conda": ["WARNING conda.gateways: Integrity check failed for 1 file", "done"],
    "hf upload": ["Upload 3 LFS files: 100%|####| 3/3 [00:03<00:00,  1.1s/it]", "No error occurred while pushing"],
    "argument list": ["error_if_nonfinite=False", "max_failures: 3", "on_failure: restart", "fail_fast: true"],
    "help text": [
        "--fail-on-error    stop when an error occurs",
        "--retries N        how often a failed request is tried again",
    ],
    "pytest pass": ["tests/test_error.py::test_failed_login PASSED", "===== 12 passed, 0 failed in 3.2s ====="],
    "pytest2": ["12 passed, 3 xfailed in 3.2s"],
    "ray": [
        "(raylet) Spilled 2048 MiB, 3 objects, write throughput 120 MiB/s.",
        "(autoscaler +1m) Tip: use `ray status` to view detailed cluster status.",
        "2030-01-02 INFO job succeeded with no failed tasks",
    ],
    "deepspeed probe": [
        " [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.",
        " [WARNING]  please install triton==1.0.0 if you want to use sparse attention",
        "[2030-01-02 03:00:05,100] [INFO] [real_accelerator.py:161:get_accelerator] Setting ds_accelerator to cuda (auto detect)",
    ],
    "tf": [
        "2030-01-02 03:04:05.1: E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered",
        "2030-01-02 03:04:05.1: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT",
    ],
    "git": [
        "fatal: not a git repository (or any of the parent directories): .git",
        "step 1 loss 2.1",
        "step 2 loss 2.0",
    ],
    "no locale": ["bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)", "step 1 loss 2.1"],
    "tokenizers": [
        "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...",
        "To disable this warning, you can either:",
    ],
    "nvml": ["Failed to get the power usage of GPU 0: Not Supported", "step 1 loss 3", "step 2 loss 3"],
    "mpi btl": [
        "By default, for Open MPI 4.0 and later, infiniband ports on a device are not used by default.",
        "step 1 loss 3",
        "--------",
        "WARNING: There was an error initializing an OpenFabrics device.",
    ],
    "ib": ["libibverbs: Warning: couldn't open config directory '/etc/libibverbs.d'.", "step 1 loss 3"],
    "reward": ["reward: -1.0 (wrong answer: expected 4, failed)", "step:3 - critic/score/mean:0.31"],
    "sandbox": [
        "sandbox result: {'stdout': '', 'stderr': 'NameError: name x is not defined', 'status': 'failed'}",
        "step:4 - critic/score/mean:0.31",
    ],
    "dist destroy": [
        "step 100 loss 1.2",
        "[rank0]:[W102 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.",
    ],
    "seff": ["Job ID: 4711", "State: COMPLETED (exit code 0)", "Cores: 8", "Memory Efficiency: 3.2% of 64 GB"],
    "sacct": ["4711|train|COMPLETED|0:0"],
    "pbs": ["Exit_status=0", "resources_used.walltime=03:00:01"],
}


def steps(stack: str, count: int = 12, *, start: int = 1) -> list[str]:
    """Lines of progress as a stack prints them."""
    return [STEPS[stack].format(n=number) for number in range(start, start + count)]


def logs() -> Iterator[tuple[str, list[str]]]:
    """Each log by what its job went through."""
    for name, lines in WORDS.items():
        own = [line for line in lines if not line.startswith("step")]
        yield f"words: {name}", lines
        yield f"words between steps: {name}", [*steps("torch"), *own, *steps("torch", 3, start=13)]
    yield "torchrun, head comes late", [*[REFUSED] * 9, *steps("torch"), "Training completed."]
    yield (
        "torchrun, a worker is restarted",
        [
            *steps("torch"),
            *(f"[rank1]: {line}" for line in (*TRACE, OOM)),
            "E0102 03:00:01.100 4711 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 4712) of binary: /usr/bin/python3",
            "I0102 03:00:02.100 4711 torch/distributed/elastic/agent/server/api.py:900] [default] Worker group FAILED. 2/3 attempts left; will restart worker group",
            "I0102 03:00:02.200 4711 torch/distributed/elastic/agent/server/api.py:705] [default] Rendezvous'ing worker group",
            *steps("torch", start=10),
            "I0102 04:00:02.100 4711 torch/distributed/elastic/agent/server/api.py:879] [default] worker group successfully finished. Waiting 300 seconds for other agents to finish.",
        ],
    )
    yield (
        "torchrun, stopped by hand after a save",
        [
            *steps("torch"),
            "saved checkpoint to /ckpt/step_12",
            "^C",
            *TRACE,
            "    loss.backward()",
            "KeyboardInterrupt",
            "W0102 03:09:01.100 4711 torch/distributed/elastic/agent/server/api.py:719] Received 2 death signal, shutting down workers",
        ],
    )
    yield (
        "torchrun, noise at the end",
        [
            *steps("torch"),
            "Training completed.",
            "[rank3]:[W102 03:00:01.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=81, addr=[n2]:41772, remote=[n1]:29500): Connection reset by peer",
            "[rank0]:[W102 03:00:01.1 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called before program exit, which can leak resources.",
        ],
    )
    yield (
        "accelerate, batch size is found",
        [
            "The following values were not passed to `accelerate launch` and had defaults used instead:",
            *(OOM, "Decreasing batch size to: 64.", OOM, "Decreasing batch size to: 32."),
            *steps("trainer"),
            "{'train_runtime': 812.1, 'train_loss': 1.2, 'epoch': 1.0}",
        ],
    )
    yield (
        "accelerate, batch size is found and little else is printed",
        [
            *(f"[rank0]: {line}" for line in (OOM, OOM)),
            "Decreasing batch size to: 32.",
            "{'train_runtime': 812.1, 'train_loss': 1.2, 'epoch': 1.0}",
        ],
    )
    yield (
        "Lightning, batch size is found",
        [
            OOM,
            "Batch size 64 failed, trying batch size 32",
            "Finished batch size finder, will continue with full run using batch size 32",
            *steps("lightning"),
            "`Trainer.fit` stopped: `max_epochs=12` reached.",
        ],
    )
    yield (
        "Lightning, stopped by hand",
        [*steps("lightning"), "Detected KeyboardInterrupt, attempting graceful shutdown ...", "KeyboardInterrupt"],
    )
    yield (
        "Lightning, requeued by Slurm",
        [
            *steps("lightning"),
            "Handling auto-requeue signal: SIGUSR1",
            "Requeuing job 812...",
            "slurmstepd: error: *** JOB 812 ON n1 CANCELLED AT 2030-01-02T03:04:05 DUE TO JOB REQUEUE ***",
            *steps("lightning", start=12),
            "`Trainer.fit` stopped: `max_epochs=24` reached.",
        ],
    )
    yield (
        "Composer, microbatch is found",
        [
            OOM,
            "CUDA out of memory detected. Train microbatch size will be decreased from 8 -> 4, and the batch will be retrained.",
            *steps("composer"),
        ],
    )
    yield (
        "DeepSpeed, loss scale",
        [
            " [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.",
            "[WARNING] [runner.py:215:fetch_hostfile] Unable to find hostfile, will proceed with training with local resources only.",
            "[INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
            *steps("deepspeed"),
            "[2030-01-02 04:57:21,707] [INFO] [launch.py:351:main] Process 2201 exits successfully.",
        ],
    )
    yield (
        "DeepSpeed, a node's ssh is slow",
        [
            "n2: ssh: connect to host n2 port 22: Connection refused",
            "pdsh@n1: n2: ssh exited with exit code 255",
            "retrying n2 in 10 s",
            *steps("deepspeed"),
            "n2: [2030-01-02 04:57:21,707] [INFO] [launch.py:351:main] Process 2201 exits successfully.",
        ],
    )
    yield (
        "DeepSpeed, memory is under pressure",
        [
            "[WARNING] [stage3.py:2150:step] 1 pytorch allocator cache flushes since last step. this happens when there is high memory pressure and is detrimental to performance.",
            *steps("deepspeed"),
        ],
    )
    yield (
        "Megatron, first start",
        [
            "WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt",
            "    will not load any checkpoints and will start from random",
            *steps("megatron"),
            "saving checkpoint at iteration      12 to /ckpt in torch_dist format",
            "  successfully saved checkpoint from iteration      12 to /ckpt [ t 1/8, p 1/1 ]",
            "exiting program at iteration 12",
        ],
    )
    yield (
        "Megatron, a step is skipped",
        [
            *steps("megatron", 5),
            "WARNING:megatron.core.rerun_state_machine:Rank 3, node n2, device 3: Unexpected result nan on iteration #6 (message='found NaN in local grad norm for bucket #0')",
            *steps("megatron", start=7),
        ],
    )
    yield (
        "Megatron, preempted after a save",
        [
            *steps("megatron"),
            "exiting program after receiving SIGTERM.",
            "  successfully saved checkpoint from iteration      12 to /ckpt [ t 1/8, p 1/1 ]",
            "W0102 03:09:01.100 4711 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers",
        ],
    )
    yield (
        "verl, completions with errors",
        [
            *steps("verl", 6),
            "(TaskRunner pid=4711) [prompt] Explain this: RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1970, unhandled system error",
            "(TaskRunner pid=4711) [response] Traceback (most recent call last):",
            '(TaskRunner pid=4711)   File "<string>", line 3, in <module>',
            "(TaskRunner pid=4711) ZeroDivisionError: division by zero",
            "(TaskRunner pid=4711) [ground_truth] OSError: [Errno 28] No space left on device",
            "(TaskRunner pid=4711) [score] 0.0",
        ],
    )
    yield (
        "verl, answers are run in a sandbox",
        [
            *steps("verl", 6),
            "(RewardManager pid=4799) [reward] test case 3: AssertionError: expected 4, got 5",
            "(RewardManager pid=4799) [reward] test case 4: MemoryError",
            "(RewardManager pid=4799) [reward] test case 5: ConnectionRefusedError: [Errno 111] Connection refused",
            *steps("verl", 3, start=7),
        ],
    )
    yield (
        "OpenRLHF, an actor is started anew",
        [
            "(raylet, ip=10.0.0.4) A worker died or was killed while executing a task by an unexpected system error.",
            "(ActorModelRay pid=812) The actor was restarted.",
            *steps("bar"),
        ],
    )
    yield (
        "vLLM, prompts about errors",
        [
            "INFO 01-02 03:00:05 [logger.py:43] Received request cmpl-81: prompt: 'Why do I see RuntimeError: CUDA error: an illegal memory access was encountered?', params: SamplingParams(n=1)",
            'INFO 01-02 03:00:06 [logger.py:43] Received request cmpl-82: prompt: "fix OSError: [Errno 28] No space left on device", params: SamplingParams(n=1)',
            'INFO:     10.0.0.9:51234 - "POST /v1/completions HTTP/1.1" 200 OK',
            *steps("vllm"),
        ],
    )
    yield (
        "vLLM, served and ended",
        [
            "WARNING 01-02 03:00:05 [custom_all_reduce.py:145] Custom allreduce is disabled because your platform lacks GPU P2P capability or P2P test failed.",
            *steps("vllm"),
            "INFO:     Shutting down",
            "INFO:     Application shutdown complete.",
            "INFO:     Finished server process [4711]",
            "KeyboardInterrupt",
        ],
    )
    yield (
        "vLLM, a request was wrong",
        [
            *steps("vllm", 4),
            "ERROR 01-02 03:00:05 [serving_chat.py:200] Error in preprocessing prompt inputs",
            "ERROR 01-02 03:00:05 [serving_chat.py:200] Traceback (most recent call last):",
            "ERROR 01-02 03:00:05 [serving_chat.py:200] ValueError: This model's maximum context length is 8192 tokens. However, you requested 9001 tokens.",
            'INFO:     10.0.0.9:51234 - "POST /v1/chat/completions HTTP/1.1" 400 Bad Request',
            *steps("vllm", start=5),
        ],
    )
    yield (
        "SGLang, health checks before it is ready",
        [
            "[2030-01-02 03:00:05] Server warmup: ConnectionRefusedError: [Errno 111] Connection refused",
            "[2030-01-02 03:00:15] The server is fired up and ready to roll!",
            *steps("sglang"),
        ],
    )
    yield (
        "SGLang, ended by its scheduler",
        [
            *steps("sglang"),
            "[2030-01-02 03:20:05] SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
            "[2030-01-02 03:20:15] Gracefully exiting... remaining number of requests 0",
        ],
    )
    yield (
        "Ray Train, a worker group is retried",
        [
            *steps("ray", 6),
            "(TrainController pid=700) [FailurePolicy] RETRY",
            "(TrainController pid=700)   Source: worker group",
            "(TrainController pid=700)   Error count: 1 (max allowed: 3)",
            "(TrainController pid=700) Error: ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
            "(TrainController pid=700) [State Transition] RUNNING -> RESTARTING.",
            *steps("ray", start=7),
            "(TrainController pid=700) [State Transition] RUNNING -> FINISHED.",
        ],
    )
    yield (
        "Ray Train, waits for resources",
        [
            "(TrainController pid=700) Retrying the launch of the worker group: The worker group startup timed out after 30.0 seconds waiting for 16 workers. Not enough GPUs are available.",
            "(TrainController pid=700) [FailurePolicy] Decision: FailureDecision.RETRY, Error source: controller, Error count / maximum errors allowed: 1/inf",
            *steps("ray"),
        ],
    )
    yield (
        "Ray, a disk is nearly full",
        [
            "(raylet) [2030-01-02 03:00:05,100 E 4711 4712] (raylet) file_system_monitor.cc:116: /tmp/ray/session_1 is over 95% full, available space: 81.1 GB; capacity: 1800 GB.",
            *steps("ray"),
        ],
    )
    yield (
        "Trainer, wandb is away for a while",
        [
            *steps("trainer", 4),
            "wandb: Network error (ConnectionError), entering retry loop.",
            "wandb: ERROR Error while calling W&B API: Internal server error (<Response [500]>)",
            *steps("trainer", start=5),
            "{'train_runtime': 812.1, 'train_loss': 1.2, 'epoch': 1.0}",
            "wandb: Synced 5 W&B file(s)",
        ],
    )
    yield (
        "Trainer, an upload is repeated",
        [
            *steps("trainer"),
            "HTTP Error 502 thrown while requesting PUT https://hub.example/x",
            "Retrying in 1s [Retry 1/5].",
            "{'train_runtime': 812.1, 'train_loss': 1.2, 'epoch': 1.0}",
        ],
    )
    yield (
        "Trainer, broken images are skipped",
        [
            *steps("trainer", 3),
            "PIL.UnidentifiedImageError: cannot identify image file '/data/7.jpg', skipping",
            "skipping sample 812: OSError: image file is truncated (12 bytes not processed)",
            *steps("trainer", start=4),
        ],
    )
    yield (
        "Trainer, one epoch and a result",
        [
            "Some weights of LlamaForCausalLM were not initialized from the model checkpoint and are newly initialized: ['score.weight']",
            "{'train_runtime': 12.1, 'train_loss': 1.2, 'epoch': 1.0}",
            "Exception ignored in atexit callback: <function _cleanup at 0x7f>",
        ],
    )
    yield (
        "NeMo, port of RAS is taken",
        [RAS, *steps("nemo"), "`Trainer.fit` stopped: `max_steps=12` reached."],
    )
    yield "NCCL, port of RAS is taken, few lines", [RAS, RAS.replace("[0]", "[1]"), "loss 2.1"]
    yield (
        "NCCL, warnings that change nothing",
        [
            "n1:1:2 [0] misc/ibvwrap.cc:94 NCCL WARN Call to ibv_open_device failed",
            'n1:1:2 [0] NCCL WARN Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!',
            "n1:1:2 [0] init.cc:420 NCCL WARN NUMA auto balancing enabled which can lead to variability in the RCCL performance!",
            "n1:1:2 [0] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to 10.0.0.3<3122> returned Connection refused, retrying",
            *steps("torch"),
        ],
    )
    yield (
        "NCCL, a port comes back",
        [
            *steps("torch", 4),
            "n1:1:2 [0] transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error",
            "n1:1:2 [0] transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_0:1 Got async event : port active",
            *steps("torch", start=5),
        ],
    )
    yield (
        "NVSHMEM, its bootstrap is repeated",
        [
            "/src/bootstrap/bootstrap_net.cpp:92: non-zero status: -3 bootstrap_net: connect to 10.0.0.1:5511 timed out, retrying",
            "WARN: nvshmem bootstrap timed out, attempt 1 of 3: init failed, will retry",
            "nvshmem bootstrap: all 16 PEs connected",
            *steps("torch"),
        ],
    )
    yield (
        "object store, parts are sent again",
        [
            *steps("torch", 3),
            'botocore.exceptions.ReadTimeoutError: Read timeout on endpoint URL: "https://s3.example/x" (attempt 1 of 5, retrying)',
            "checkpoint step_3 uploaded",
            *steps("torch", start=4),
        ],
    )
    yield (
        "JSON lines",
        [
            '{"level": "error", "msg": "peer said: CUDA error: an illegal memory access was encountered", "source": "chat"}',
            *(f'{{"step": {number}, "loss": 2.1}}' for number in range(9)),
            '{"event": "done", "status": "success"}',
        ],
    )
    yield (
        "tests of a library",
        [
            "tests/test_oom.py::test_cuda_out_of_memory PASSED",
            "tests/test_store.py::test_connection_refused PASSED",
            "test_no_space_left_on_device (tests.test_io.Disk) ... ok",
            "==== 3 passed in 0.31s ====",
        ],
    )
    yield (
        "a difference of versions",
        [
            "diff --git a/train.py b/train.py",
            "--- a/train.py",
            "+++ b/train.py",
            "-        raise RuntimeError('CUDA out of memory')",
            "+        raise OSError('No space left on device')",
            *steps("torch"),
        ],
    )
    yield (
        "a chat model's samples",
        [
            *steps("trainer", 5),
            "### Response: The message `RuntimeError: CUDA error: device-side assert triggered` means that an index is out of range.",
            "Assistant: ConnectionRefusedError: [Errno 111] Connection refused means that nothing listens there.",
            '{"completion": "OSError: [Errno 28] No space left on device", "reward": 0.3}',
        ],
    )
    yield (
        "torchtitan",
        [
            "[titan] 2030-01-02 03:00:05,123 - root - WARNING - Peak flops undefined for: NVIDIA X, fallback to A100",
            *steps("titan"),
            "[titan] 2030-01-02 04:00:05,123 - root - INFO - Training completed",
            "[titan] 2030-01-02 04:00:06,123 - root - INFO - Process group destroyed",
        ],
    )
    yield (
        "a batch script and its epilogue",
        [
            "srun: job 812 has been allocated resources",
            "cp: cannot stat '/scratch/old.ckpt': No such file or directory",
            *steps("torch"),
            "job finished with exit code 0",
        ],
    )
    yield (
        "workers of a data loader end late",
        [
            *steps("lightning"),
            "`Trainer.fit` stopped: `max_epochs=12` reached.",
            "RuntimeError: DataLoader worker (pid 4811) is killed by signal: Terminated.",
        ],
    )
    yield (
        "CUDA is warned of and works",
        [
            "/site-packages/torch/cuda/__init__.py:129: UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized (Triggered internally at ...)",
            "waiting for the fabric manager",
            *steps("torch"),
        ],
    )
    yield (
        "what is missing has a substitute",
        [
            "Failed to import flash_attn: No module named 'flash_attn'; falling back to sdpa",
            "Failed to load image Python extension: 'libpng16.so.16: cannot open shared object file'",
            *steps("lightning", 3),
        ],
    )
    yield (
        "DeepSpeed, stopped by hand after a save",
        [
            *steps("deepspeed"),
            "[INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint global_step12 is ready now!",
            "[2030-01-02 03:20:05,100] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711",
            "KeyboardInterrupt",
        ],
    )
    yield (
        "samples of a model without steps",
        [
            "prompts: ['RuntimeError: CUDA out of memory', 'what is 2+2']",
            "generated: OSError: [Errno 28] No space left on device",
            "sample 3: The log says `torch.OutOfMemoryError: CUDA out of memory.` and then stops.",
        ],
    )
    yield (
        "vLLM, memory is tried out",
        [OOM, "WARNING retrying with max_num_seqs=64", "INFO:     Application startup complete."],
    )
    yield (
        "three epochs, wandb is slow",
        [
            "wandb: WARNING A graphql request initiated by the public wandb API timed out (timeout=19 sec).",
            *steps("trainer", 3),
        ],
    )
    yield (
        "evaluation of a model",
        [
            "Running loglikelihood requests: 100%|##########| 400/400 [00:41<00:00]",
            "Q: What does 'bash: ./run.sh: Permission denied' mean? A: the file is not executable.",
            "|Tasks|Version|Filter|n-shot|Metric|Value|",
            "|arc|1|none|0|acc|0.41|",
        ],
    )


# A failure that ends a job, as its stacks print it, and the cause that it has.
FAILURES: dict[str, Callable[[], tuple[str, ...]]] = {
    "gpu-out-of-memory": lambda: (
        *(f"[rank3]: {line}" for line in (*TRACE, OOM)),
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    ),
    "disk-full": lambda: (
        *TRACE,
        "OSError: [Errno 28] No space left on device: '/ckpt/step_99'",
        "srun: error: n1: task 0: Exited with exit code 1",
    ),
    "gpu-fell-off-the-bus": lambda: (
        "Jan  2 05:00:00 n1 kernel: NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.",
    ),
}
