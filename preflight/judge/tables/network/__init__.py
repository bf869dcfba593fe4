"""What is known of links and interfaces: which are fragile, which NCCL takes, and which peers a proxy keeps apart."""
