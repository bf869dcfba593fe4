"""Calls about RDMA that start programs of perftest."""
