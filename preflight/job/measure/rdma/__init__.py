"""What do the RDMA ports carry without NCCL and without GPUs?"""
