"""DeepSpeed: its command, its hostfile and its configuration."""
