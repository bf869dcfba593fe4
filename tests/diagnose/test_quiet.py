"""Are lines that tell of no failure told from those that do?"""

from __future__ import annotations

import pytest

from preflight.diagnose import diagnose
from preflight.diagnose.quiet import is_printed, is_quoted

CONFIG = (
    "Initializing an engine with config: "
    + ", ".join(f"option_{n}=None" for n in range(14))
    + ", trust_remote_code=True, x"
)


@pytest.mark.parametrize(
    "line",
    [
        "even_batches=True,",
        "'even_batches': True,",
        "  ignore_data_skip: false",
        "- Infeasible placement groups count: 0",
        "[state-dump] Number of spilled unschedulable tasks: 0",
        "[state-dump]  - process_failed_runtime_env_setup_failed: 0",
        "    from huggingface_hub.utils import RepositoryNotFoundError",
        "        raise FileNotFoundError(",
        CONFIG,
    ],
)
def test_printed_settings_counts_of_none_and_statements_are_no_failure(line):
    """A healthy job prints them too."""
    assert is_printed(line)
    assert not diagnose([line]).has_failed


@pytest.mark.parametrize(
    "line",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: '/d'",
        "NCCL failed on rank: 0",
        "ValueError: cannot use load_best_model_at_end with eval_strategy=None",
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=6) ran for 600027 milliseconds",
        "    return self.parallel_devices[self.local_rank]",
        "number of failures: 3",
    ],
)
def test_failures_that_name_a_setting_or_a_number_stay_failures(line):
    """Only a whole line of settings is none."""
    assert not is_printed(line)


@pytest.mark.parametrize(
    "line",
    [
        "[response] RuntimeError: CUDA out of memory",
        "Assistant: CUDA out of memory means that the batch is too large",
        '{"completion": "CUDA out of memory", "reward": 0.3}',
        "tests/test_oom.py::test_cuda_out_of_memory PASSED",
        "-        raise RuntimeError('CUDA out of memory')",
    ],
)
def test_what_others_said_is_no_failure(line):
    """The same words of the job itself are."""
    assert is_quoted(line)
    assert not diagnose([line]).has_failed
    assert diagnose(["[rank0]: RuntimeError: CUDA out of memory"]).has_failed
    assert not is_quoted("[rank0]: RuntimeError: CUDA out of memory")


def test_an_error_that_a_program_says_it_ignores_is_none():
    """It stands before the error; after it, the words may tell of another thing."""
    missing = "No module named 'torchaudio'"
    assert not diagnose([f"[2030-01-02 02:23:53 TP1] Ignore import error when loading sglang.x: {missing}"]).has_failed
    assert diagnose([f"ModuleNotFoundError: {missing}"]).has_failed
    assert diagnose([f"ModuleNotFoundError: {missing}, ignoring the cache"]).has_failed
