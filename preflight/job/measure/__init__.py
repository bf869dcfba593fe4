"""Mesh, bench and training on the nodes -> results."""
