"""What does a rehearsal show: which node, which line of the script, and what to do?"""
