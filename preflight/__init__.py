"""preflight: will my multi-node PyTorch job start on these nodes, will it be fast, and if not, which node?"""

__version__ = "0.1.0"
__all__ = ["__version__"]
