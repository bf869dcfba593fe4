"""How are the nodes of a run named, reached and asked?"""
