"""What a newcomer adds, as diffs that apply to this tree and work."""
