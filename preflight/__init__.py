"""preflight: will my multi-node PyTorch job start on these nodes, will it be fast, and if not, which node?

How the data flows, each word a module or folder of this package (checks are the files of checks/)::

    hosts -> transport -> session -> collect -> facts ----+
                            launch: files -> plan --------+-> checks -> judge -> ledger -> report
           session -> jobs -> measure -> results ---------+

``cli`` and ``plugin`` start it, with the words of ``options`` and the thresholds of ``settings``; ``run`` is a live run
or a stored one. ``node`` is what runs on every node, ``workloads`` what runs in every rank: both are sent, never
imported. docs/architecture.md says what each one answers and who may import whom.
"""

__version__ = "0.1.0"
__all__ = ["__version__"]
