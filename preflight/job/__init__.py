"""What does a run ask of its nodes and ranks: the options, the start, the measurements?"""
