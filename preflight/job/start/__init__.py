"""Ranks of a job: placed on nodes, started, listened to, explained."""
