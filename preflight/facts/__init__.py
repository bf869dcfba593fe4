"""What do we know about the nodes? Typed, frozen, and strict about what a node said.

``value``      the base of all structs, and the fact that could not be had
``subjects``   one file a subject: its structs, as they cross the wire
``versions``   facts that another version of preflight stored
``decode``     a node's documents -> NodeFacts, or BadReply
``selection``  which interface NCCL and Gloo choose, by their own rules
``node``       NodeFacts: one node, as a check sees it
``view``       the documents of all nodes -> Cluster, with interface and backend chosen
``cluster``    Cluster: all nodes, and who differs
"""
