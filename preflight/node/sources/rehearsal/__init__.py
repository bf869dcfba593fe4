"""What a rehearsal reads on a node while the script runs."""
