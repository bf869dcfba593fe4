"""What checks look up: known faults, variables, GPU models, packages. Data rows with their sources."""
