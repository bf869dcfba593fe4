"""What is told of GPUs beside their driver's facts."""
