"""What is known of GPUs beside their driver's facts."""
