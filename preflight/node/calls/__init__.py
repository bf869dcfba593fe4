"""What a node can be asked for, one module a call."""
