"""One self-contained page of a run."""
