"""Calls about GPUs that take minutes."""
