"""How far did a job come, and what can become of it?"""
