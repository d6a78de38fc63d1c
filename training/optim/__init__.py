"""The optimizers and the learning-rate schedule."""
