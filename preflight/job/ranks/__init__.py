"""What runs on every rank: the only place that imports torch."""
