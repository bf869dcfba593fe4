"""The smallest distributed job: every rank adds its number, and all must see the same sum."""

import torch
import torch.distributed as dist

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
if torch.cuda.is_available():
    torch.cuda.set_device(rank % torch.cuda.device_count())
total = torch.tensor([rank], device="cuda" if torch.cuda.is_available() else "cpu")
dist.all_reduce(total)
print(f"rank {rank} of {world_size}: {total.item()}", flush=True)
dist.destroy_process_group()
