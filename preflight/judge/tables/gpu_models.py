"""Which CUDA has code for which GPU, and does torch bring it?

Code of a major compute capability runs on its later minor ones: only what begins or ends with a CUDA stands here.
PyTorch's own wheels leave out GPUs that their CUDA knows: what each of them leaves out stands below.
"""

from __future__ import annotations

import re

from preflight.facts.node import NodeFacts
from preflight.judge.tables.faults import Fault
from preflight.knowledge import gpu_models as rows
from preflight.knowledge.gpu_models import COMPATIBLE, HIGHER, LOWER, RELEASE_NOTES, WHEELS
from preflight.knowledge.versions import is_within
from preflight.said import joined, knowing, said
from preflight.said.errors import FactMissing

OF_PYTORCH = re.compile(r"\+cu\d+$")  # "2.9.1+cu128": builds of others have another list of GPUs
WITH_ALL = (
    "`pip install torch --index-url https://download.pytorch.org/whl/cu126` on the nodes named (it has code for "
    "Maxwell, Pascal and Volta), or leave them out"
)


def _strangers(node: NodeFacts, fix: str) -> str:
    """The GPUs that the CUDA of torch has no code for, of the rows with this way out."""
    cuda = _cuda(node)
    return joined(
        [
            knowing(
                said("torch is built for CUDA {cuda}; {name} needs CUDA {cuda2}", cuda, name, model.cuda),
                wanted=model.cuda,
            )
            for name, model in _known(node)
            if model.fix == fix and not is_within(cuda, model.cuda)
        ]
    )


def _relatives(node: NodeFacts) -> str:
    """The GPUs that run the code of their family only."""
    cuda = _cuda(node)
    return joined(
        [
            said(
                "torch is built for CUDA {cuda}, and {name} has code of its own from CUDA {named}: what was "
                "made for a sibling alone (sm_100a, sm_120a) does not run",
                cuda,
                name,
                model.named,
            )
            for name, model in _known(node)
            if model.named and is_within(cuda, model.cuda) and not is_within(cuda, model.named)
        ]
    )


def _left_out(node: NodeFacts) -> str:
    """The GPUs that this wheel of PyTorch's has no code for, though its CUDA knows them."""
    cuda, version = _cuda(node), node.software.torch_version
    wheel = rows.wheel(version, cuda)
    if wheel is None or not OF_PYTORCH.search(version):
        return ""
    return joined(
        [
            said(
                "torch {version} has code from compute capability {least} on; {name} has {compute_capability}",
                version,
                wheel.least,
                name,
                model.compute_capability,
            )
            for name, model in _known(node)
            if float(model.compute_capability) < float(wheel.least)
        ]
    )


def _cuda(node: NodeFacts) -> str:
    """The CUDA of torch; FactMissing where there is no GPU, or none for torch."""
    if not node.gpu.readable():
        raise FactMissing("code for the GPUs", "no GPU", "absent")
    cuda = node.software.library_of_torch("torch_cuda")
    if cuda == "none":
        raise FactMissing("code for the GPUs", "torch is not built for CUDA", "absent")
    return cuda


def _known(node: NodeFacts) -> list[tuple[str, rows.Model]]:
    """The models of a node that stand in the table, by their names."""
    names = sorted({gpu.name for gpu in node.gpu.readable()})
    return [(name, model) for name in names if (model := rows.model(name)) is not None]


CODE: tuple[Fault[NodeFacts], ...] = (
    Fault("oldest CUDA with code for the GPU", lambda node: _strangers(node, HIGHER), HIGHER, RELEASE_NOTES),
    Fault("newest CUDA with code for the GPU", lambda node: _strangers(node, LOWER), LOWER, RELEASE_NOTES),
    Fault("GPUs of PyTorch's wheel", _left_out, WITH_ALL, WHEELS),
    Fault("CUDA with code for this very GPU", _relatives, HIGHER, COMPATIBLE, is_advisory=True),
)
