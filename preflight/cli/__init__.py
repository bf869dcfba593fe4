"""The words on a command line, and the verb they mean."""
