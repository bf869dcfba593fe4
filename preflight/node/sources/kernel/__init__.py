"""What the makers' programs beside the driver's own say of GPUs: how AMD's are, IMEX, and their tests."""
