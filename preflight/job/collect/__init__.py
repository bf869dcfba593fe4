"""Sessions -> facts: what each node is asked, in which order."""
