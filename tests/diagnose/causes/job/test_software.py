"""Do lines of installations lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("OSError: [Errno 116] Stale file handle: '/home/u/.triton/cache/ab/x.json'", "compile-cache"),
    ("/home/u/.triton/cache/ab/x.json: Stale file handle", "compile-cache"),
    ("rm: /home/u/.cache/flashinfer/.nfs01: Device or resource busy", "compile-cache"),
    ("OSError: [Errno 39] Directory not empty: '/home/u/.cache/torch_extensions/x'", "compile-cache"),
    (
        "[n2:42] mca: base: component_find: unable to open mca_mtl_psm: libpsm_infinipath.so.1: cannot open shared object file: No such file or directory (ignored)",
        "",
    ),
    ("WARNING 02-25 19:42:26 __init__.py:5] No module named 'vllm._version'", ""),
    ("No module named 'vllm._version'", ""),
    ("tensorflow 2.16.1 requires numpy<2.0.0,>=1.23.5, but you have numpy 2.1.1 which is incompatible.", ""),
    ("ModuleNotFoundError: No module named 'flash_attn'", "module-missing"),
    ("ModuleNotFoundError: No module named 'encodings'", "python-home"),
    ("Fatal Python error: init_fs_encoding: failed to get the Python codec of the filesystem encoding", "python-home"),
    ("ImportError: cannot import name 'LlamaFlashAttention2' from 'transformers.models.llama'", "import-failed"),
    ("ImportError: cannot import name 'Queue' from 'queue' (/home/user/job/queue.py)", "module-shadowed"),
    ("ImportError: cannot import name 'Meter' from 'src.utils.dist' (/home/u/job/src/utils/dist.py)", "program-error"),
    (
        "ImportError: cannot import name 'TypeIs' from 'typing_extensions' (/env/lib/python3.9/site-packages/te.py)",
        "import-failed",
    ),
    ("RuntimeError: operator torchvision::nms does not exist", "import-failed"),
    ("SyntaxError: invalid syntax", "syntax-error"),
    ("IndentationError: unindent does not match any outer indentation level", "syntax-error"),
    ("ImportError: cannot import name 'batched' from 'itertools' (unknown location)", "import-failed"),
    ("ImportError: cannot import name 'StrEnum' from 'enum' (/usr/lib/python3.10/enum.py)", "import-failed"),
    (
        "AttributeError: partially initialized module 'logging' from '/home/user/job/logging.py' has no attribute 'Logger'",
        "module-shadowed",
    ),
    (
        "AttributeError: module 'random' has no attribute 'Random' (consider renaming '/job/random.py' since it has the same name as the standard library module named 'random')",
        "module-shadowed",
    ),
    ("ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found", "library-missing"),
    ("ImportError: libcusparse.so.12: cannot open shared object file: No such file or directory", "library-missing"),
    ("RuntimeError: Error building extension 'fused_adam'", "compile-failed"),
    ("RuntimeError: Version mismatch: The cluster was started with:", "version-differs-between-nodes"),
    ("OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.", "omp-conflict"),
    (
        "OSError: [Errno 16] Device or resource busy: '/home/u/.triton/cache/Z/tmp/a.so' -> '/home/u/.triton/cache/Z/a.so'",
        "compile-cache",
    ),
    ("ImportError: cannot import name 'helpers' from 'megatron.data' (./megatron/data/__init__.py)", "compile-failed"),
    ("WARNING utils.py:1597 -- Version mismatch: The cluster was started with:", "version-differs-between-nodes"),
    (
        "ImportError: /home/u/.cache/torch_extensions/py310_cu116/cpu_adam/cpu_adam.so: cannot open shared object file: No such file or directory",
        "compile-failed",
    ),
    (
        "ImportError: DeepSpeed is not installed => run `pip install deepspeed` or build it from source.",
        "module-missing",
    ),
    (
        "You are attempting to use Flash Attention 2 with dropout. This might lead to unexpected behaviour as this is not supported on recent versions of Flash Attention.",
        "",
    ),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
