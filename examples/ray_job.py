"""A Ray job behind a check of its cluster.

ray job submit --working-dir=. -- python ray_job.py
"""

import os
import subprocess
import sys

import ray

check = ["preflight", "run", "--hosts=ray", f"--profile={os.environ.get('PROFILE', 'standard')}"]
code = subprocess.run(check, check=False).returncode
if code:
    sys.exit(code)  # no-go: the reason stands above, and no actor was started

ray.init(address="auto", log_to_driver=False)


@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def train(rank: int) -> str:
    """Stands for the actors of the real job."""
    return f"rank {rank} trained on {ray.util.get_node_ip_address()}"


print(*ray.get([train.remote(rank) for rank in range(len(ray.nodes()))]), sep="\n")
