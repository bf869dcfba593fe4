"""What happens on the nodes, in order, each stage a coroutine over the open sessions.

``facts``     what each node is
``files``     folders and files: room, what is shared, what is alike
``trust``     logins from node to node
``mesh``      connections on random ports between all of them
``links``     raw TCP streams in shift rounds
``bench``     an all-reduce over all ranks
``training``  the reference job
"""
