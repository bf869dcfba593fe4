"""The variables of a job: what each may hold, what was left over, and what two nodes must hold alike."""
