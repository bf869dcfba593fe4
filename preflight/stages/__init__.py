"""What happens on the nodes, in order, each stage a coroutine over the open sessions.

``facts``     what each node is
``mesh``      connections on random ports between all of them
``links``     raw TCP streams in shift rounds
``bench``     an all-reduce over all ranks
``training``  the reference job
"""
