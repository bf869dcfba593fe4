"""What runs in the ranks of a rehearsal: the hook that makes a rank of the user's start the reference trainee."""
