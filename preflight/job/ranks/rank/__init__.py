"""What every rank does, whatever it computes: meet the others, report, end with a reason."""
