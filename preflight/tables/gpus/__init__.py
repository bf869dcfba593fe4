"""What is known of GPUs beyond one of them: the fabrics that join nodes, and the makers' own tests."""
