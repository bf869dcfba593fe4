#!/bin/sh
torchrun --nnodes=2 --nproc_per_node=1 --master_addr=node1 --master_port=29500 --node_rank=0 train.py
