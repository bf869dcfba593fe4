"""Which slips of whoever wrote a file keep it from starting what was meant?"""
