"""Functions made of functions: gradients, directions, batches."""
