"""The kinds of manifests that run pods, one module a controller."""
