"""A run, live or stored, and what is known of earlier ones."""
