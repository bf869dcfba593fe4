"""Texts of launch files: shell, YAML, options. Parsed, never run."""
