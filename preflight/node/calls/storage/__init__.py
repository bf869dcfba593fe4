"""What the call `files` asks of file systems and of what they hold."""
