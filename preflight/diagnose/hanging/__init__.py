"""What do the ranks of a job do that hangs now, and who holds the others up?"""
