"""What can be wrong with a launch plan, one module a subject."""
