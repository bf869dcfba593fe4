"""What was asked for on a command line, typed once."""
