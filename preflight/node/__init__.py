"""What runs on every node: sent over the connection, loaded from memory, never installed."""
