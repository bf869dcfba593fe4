"""What is known of RDMA ports: what is wrong with one, which NCCL takes, and what should be equal on all nodes."""
