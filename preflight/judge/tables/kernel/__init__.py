"""What is known of a node's kernel, memory and CPUs: what is fragile, what should be equal, and what its log says."""
