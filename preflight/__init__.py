"""preflight: will my multi-node PyTorch job start on these nodes, will it be fast, and if not, which node?

How the data flows, each word a folder of this package (checks are the files of checks/)::

    reach -> job: collect -> facts ------------+
             launch: files -> plan ------------+-> checks -> judge -> report
    reach -> job: start, measure -> facts -----+

``cli`` starts it, as does pytest with the plugin in ``run``, which is a live run or a stored one. ``node`` is what runs
on every node, ``job/ranks`` what runs in every rank: both are sent, never imported.
docs/architecture.md says what each one answers and who may import whom.
"""

__version__ = "0.2.0"
__all__ = ["__version__"]
