"""What we know about the nodes: typed, frozen, and strict about what a node said.

``values``     one struct a subject, as it crosses the wire; those of a kind stand in files of their own
``missing``    the base of all structs, and the fact that could not be had
``decode``     a node's documents -> NodeFacts, or BadReply
``selection``  which interface NCCL and Gloo choose, by their own rules
``node``       NodeFacts: one node, as a check sees it
``cluster``    Cluster: all nodes, and who differs
"""
