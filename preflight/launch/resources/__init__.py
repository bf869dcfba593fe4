"""Who in a set of files gives nodes and GPUs, who takes them, and is there enough?"""
