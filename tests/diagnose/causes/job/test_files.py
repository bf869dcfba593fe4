"""Do lines of files lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("OSError: [Errno 28] No space left on device: '/ckpt/step_100.pt'", "disk-full"),
    ("[Errno 28] write failed", "disk-full"),
    ("OSError: [Errno 122] Disk quota exceeded: '/home/u/x'", "disk-full"),
    ("[Errno 122] while writing shard 3", "disk-full"),
    ("npm ERR! nospc ENOSPC: no space left on device, write", "disk-full"),
    ("ENOSPC while saving the checkpoint", "disk-full"),
    (
        "RuntimeError: Not enough free disk space to download the file. The expected file size is: 9976.58 MB.",
        "disk-full",
    ),
    ("run.sh: line 3: 811 File size limit exceeded(core dumped) python train.py", "disk-full"),
    ("RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 1088 vs 982", "disk-full"),
    ("RuntimeError: PytorchStreamWriter failed writing file data/12: file write failed", "disk-full"),
    ("PermissionError: [Errno 13] Permission denied: '/ckpt/latest'", "permission-denied"),
    ("[Errno 13] /ckpt/latest", "permission-denied"),
    ("bash: /opt/run.sh: Permission denied", "permission-denied"),
    ("OSError: [Errno 30] Read-only file system: '/data'", "permission-denied"),
    ("mkdir: cannot create directory '/data/x': Permission denied", "permission-denied"),
    ("PermissionError: [Errno 1] Operation not permitted: '/data/x'", "permission-denied"),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/tmp-7' -> '/ckpt/last'", "rename-race"),
    ("OSError: [Errno 28] No space left on device: '/ckpt/step9'", "disk-full"),
    ("OSError: [Errno 122] Disk quota exceeded", "disk-full"),
    (
        "(raylet) file_system_monitor.cc:111: /tmp/ray/session_1 is over 95% full, available space: 153011818496; capacity: 3721784041472. Object creation will fail if spilling is required.",
        "",
    ),
    ("PermissionError: [Errno 13] Permission denied: '/data/x'", "permission-denied"),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/data/train.jsonl'", "file-missing"),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/d/index-cache/ab_doc_idx.npy'", "shared-index-race"),
    (
        "FileNotFoundError: [Errno 2] No such file or directory: '/d/text_4000ns_1234s_sample_idx.npy'",
        "shared-index-race",
    ),
    (" > loading doc-idx mapping from /d/index-cache/ab_doc_idx.npy", ""),
    (" > loading shuffle-idx mapping from /d/text_train_indexmap_4000ns_1024sl_1234s_shuffle_idx.npy", ""),
    (
        "size mismatch for lm_head.weight: copying a param with shape torch.Size([5, 4]) from checkpoint, the shape in current model is torch.Size([6, 4]).",
        "checkpoint-shapes",
    ),
    (
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
        "checkpoint-corrupt",
    ),
    ("safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge", "checkpoint-corrupt"),
    ("OSError: Can't load tokenizer for 'my/model'.", "tokenizer"),
    ("huggingface_hub.errors.GatedRepoError: 401 Client Error.", "model-not-found"),
    (
        "[INFO|2024-12-14 13:49:23] llamafactory.valuehead:157 >> Provided path (/sft) does not contain value head weights: /sft does not appear to have a file named value_head.bin.",
        "",
    ),
    ("datasets.exceptions.DatasetGenerationError: An error occurred while generating the dataset", "dataset-broken"),
    ("RuntimeError: Missing key in checkpoint state_dict: optimizer.param_groups.0.betas.", "checkpoint-shapes"),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/step-10/.metadata'", "checkpoint-world-size"),
    ("WARNING: Overwriting old incomplete / corrupted checkpoint...", ""),
    ("No sharded checkpoint found. Skipping loading modelopt_state.", ""),
    ("[ERROR] Not enough space left in /tmp", "disk-full"),
    ("ray.exceptions.OutOfDiskError: Local disk is full", "disk-full"),
    (
        "RuntimeError: [enforce fail at inline_container.cc:222] . file not found: archive/data/94881266361728",
        "checkpoint-corrupt",
    ),
    (
        "RuntimeError: unable to open file </cache/model.safetensors> in read-only mode: No such file or directory (2)",
        "file-missing",
    ),
    (
        "A metadata file exists but unable to load iteration from checkpoint /ckpt/iter_0000100/mp_rank_00/model_optim_rng.pt, exiting",
        "checkpoint-version",
    ),
    ("slurmstepd-n1: error: Unable to create TMPDIR [/tmp/user/30335]: Permission denied", ""),
    ("bleurt 0.0.2 requires sentencepiece, which is not installed.", ""),
    (
        "botocore.exceptions.ClientError: An error occurred (SlowDown) when calling the PutObject operation (reached max retries: 4): Please reduce your request rate.",
        "object-storage",
    ),
    (
        "botocore.exceptions.ClientError: An error occurred (ExpiredToken) when calling the GetObject operation: The provided token has expired.",
        "object-storage",
    ),
    ("botocore.exceptions.NoCredentialsError: Unable to locate credentials", "object-storage"),
    (
        "OSError: [Errno 5] An error occurred (InvalidRegion) when calling the CreateBucket operation: Region does not match.",
        "object-storage",
    ),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
