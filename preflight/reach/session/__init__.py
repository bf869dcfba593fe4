"""One live connection a node."""
