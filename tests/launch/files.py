"""Launch files in the folder of a test: accelerate's, one a machine."""

from __future__ import annotations

from pathlib import Path

YAML = """compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
num_machines: {machines}
machine_rank: {rank}
num_processes: {machines}
main_process_ip: {address}
main_process_port: 29500
"""


def written(folder: Path, *ranks: int) -> list[str]:
    """The names of the files, one a rank, in that folder."""
    for number, rank in enumerate(ranks):
        text = YAML.format(rank=rank, machines=len(ranks), address="192.0.2.10")
        (folder / f"node{number}.yaml").write_text(text)
    return [f"node{number}.yaml" for number in range(len(ranks))]
