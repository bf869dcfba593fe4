"""What the training program trains, and each claim that is checked on it."""
