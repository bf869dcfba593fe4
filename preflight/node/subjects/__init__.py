"""What a node says of itself, one module a subject, with the same name as in facts and checks."""
