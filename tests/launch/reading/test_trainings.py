"""Does LLaMA-Factory's own YAML count as the options of the command that names it?"""

from __future__ import annotations

import json

from tests.launch.samples import failed, judged, rules

RUN = "FORCE_TORCHRUN=1 NNODES=2 NODE_RANK={} MASTER_ADDR=10.0.0.1 MASTER_PORT=29500 llamafactory-cli train sft.yaml\n"
SFT = """model_name_or_path: /models/llama
stage: sft
finetuning_type: full
deepspeed: ds.json
per_device_train_batch_size: 1
"""


def files(micro):
    """Two nodes, their configuration, and DeepSpeed's with a micro batch."""
    batch = json.dumps({"train_micro_batch_size_per_gpu": micro})
    return {"n0.sh": RUN.format(0), "n1.sh": RUN.format(1), "sft.yaml": SFT, "ds.json": batch}


def test_its_figures_are_held_against_those_of_deepspeed():
    """The Trainer stops where both say a micro batch, and another."""
    assert failed(files(4)) == ["batch_sizes_multiply"]
    assert rules(files(1)) == []
    assert rules(files("auto")) == []


def test_alone_it_is_not_judged():
    """How many nodes there are stands with the command."""
    (found,) = judged({"sft.yaml": SFT})
    assert "LLaMA-Factory configuration" in found.message
