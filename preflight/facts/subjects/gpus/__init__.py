"""The parts of what is known of GPUs: their state, their topology, and what vendors' tests found."""
