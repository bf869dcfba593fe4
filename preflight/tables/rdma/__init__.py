"""What is known of the RDMA fabric beyond one port: which ports of the nodes belong together."""
