"""How are starts rehearsed that are no script on a node: a batch job, pods?"""
