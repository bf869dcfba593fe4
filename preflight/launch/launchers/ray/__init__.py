"""Ray: its commands, whether its nodes meet, and how it starts a job."""
