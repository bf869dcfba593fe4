"""One check -> findings of every node."""
