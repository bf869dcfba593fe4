"""What the user asked for on a command line, parsed and typed once."""
