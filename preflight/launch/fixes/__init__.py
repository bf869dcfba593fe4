"""What puts launch files right: which words, in which lines, and does it hold?"""
