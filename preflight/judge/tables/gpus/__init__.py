"""What is known of GPUs: which are broken or held back, what should be equal, and what joins them to others."""
