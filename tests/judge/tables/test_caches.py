"""Tests of preflight.judge.tables.caches; its findings are tested in tests/checks/test_caches.py."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from preflight.facts.subjects.files import Cache
from preflight.judge.tables import caches
from preflight.testing import healthy


@pytest.mark.parametrize(
    ("path", "python", "is_of"),
    [
        ("/c/py311_cu128/utils/lock", "3.11", True),
        ("/c/py310_cu128/utils/lock", "3.11", False),
        ("/c/py3_cpu/utils/lock", "3.11", False),
        ("/c/utils/lock", "3.11", True),
        ("/c/python_parser/lock", "3.11", True),
    ],
)
def test_a_folder_of_another_python_is_known(path, python, is_of):
    """torch names the folder by Python and CUDA; under TORCH_EXTENSIONS_DIR there is none."""
    assert caches.is_of(path, "/c", python) is is_of


@pytest.mark.parametrize(("seconds", "words"), [(1800, "30 minutes"), (7200, "2 hours"), (200000, "2 days")])
def test_an_age_is_told_in_a_unit_that_fits(seconds, words):
    """Minutes to two hours, hours to two days."""
    assert caches.age_text(seconds) == words


CACHE = Cache(what="Triton", path="/c", variable="TRITON_CACHE_DIR", below="/c", owner=1000, free_bytes=5 << 20)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"trouble": "it is a file"}, "it is a file"),
        ({"is_writable": False}, "/c cannot be written to"),
        ({"is_writable": False, "owner": 7}, "/c belongs to user 7, and user 1000 may not write there"),
        ({"may_run": False}, "no program may be run from /c (noexec)"),
        ({"may_run": False, "what": "Hugging Face"}, ""),
        ({"free_bytes": (5 << 20) - 1}, "4 MiB free in /c; wanted at least 5"),
    ],
)
def test_a_cache_that_takes_nothing_new_is_told_with_the_reason(changed, words):
    """Rights, programs and room, in this order; what was downloaded is not run."""
    held = caches.held_back(replace(CACHE, **changed), user_id=1000, min_bytes=5 << 20, is_known=False)
    assert str(held) == words


def test_a_full_cache_is_told_once():
    """Another check speaks of the file system."""
    assert caches.held_back(replace(CACHE, free_bytes=0), user_id=1000, min_bytes=1, is_known=True) == ""


@pytest.mark.parametrize(
    ("changed", "is_shared"),
    [
        ({"is_of_network": True, "kind": "nfs4"}, True),
        ({"kind": "ext4"}, False),
        ({"is_of_network": True, "kind": "9p"}, False),
        ({"is_of_network": True, "kind": "virtiofs"}, False),
        ({"is_of_network": True, "kind": "nfs4", "what": "Hugging Face"}, False),
    ],
)
def test_machine_code_on_a_file_server_is_shared(changed, is_shared):
    """A hypervisor's folder is the machine's own, and models may be shared."""
    assert caches.is_shared(replace(CACHE, **changed)) is is_shared


@pytest.mark.parametrize(
    ("what", "package"),
    [
        *(("Triton", "triton"), ("Triton", "pytorch-triton-rocm"), ("torch.compile", "torch")),
        *(("torch extensions", "deepspeed"), ("torch extensions", "ninja"), ("FlashInfer", "flashinfer-python")),
        *(("DeepGEMM", "deep-gemm"), ("vLLM", "vllm"), ("Hugging Face", "transformers")),
        *(("Hugging Face", "huggingface-hub"), ("Hugging Face", "datasets")),
    ],
)
def test_a_cache_is_used_where_its_package_is_installed(what, package):
    """By the beginning of a name, up to its dash: torchvision is not torch."""
    run = healthy().broken("node1", "files", caches=(replace(CACHE, what=what),))
    for names, wanted in (({package: "1"}, 1), ({f"x{package}": "1", "torchvision": "1"}, 0), ({}, 0)):
        node = run.broken("node1", "software", packages=names).cluster["node1"]
        assert len(caches.used(node)) == wanted


def test_locks_of_builds_that_are_over_are_told():
    """Nothing was written beside them for half an hour."""
    cache = replace(CACHE, locks=(("/c/a/lock", 1799), ("/c/b/lock", 1800), ("/c/py310_cu128/lock", 7200)))
    assert caches.locks(cache, "3.11") == [("/c/b/lock", "30 minutes", True), ("/c/py310_cu128/lock", "2 hours", False)]


def test_caches_move_to_a_folder_of_the_user_on_the_nodes_disk():
    """Each by its variable, once."""
    other = replace(CACHE, variable="TORCH_EXTENSIONS_DIR")
    words = "`export TRITON_CACHE_DIR=/tmp/triton-$(id -u) TORCH_EXTENSIONS_DIR=/tmp/torch-$(id -u)` in the line"
    assert str(caches.local([CACHE, other, CACHE])).startswith(words)
