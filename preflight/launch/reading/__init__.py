"""Which files belong together, what is in each, and what a script starts."""
