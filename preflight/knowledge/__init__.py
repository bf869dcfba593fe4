"""What is known of the field, each thing once, as a row: its source, an example that shows it, one that does not."""
