"""How is the user's own start run for real on the nodes, and what is heard of it?"""
