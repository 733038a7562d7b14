"""Small training runs and checkpoints, and processes that are killed."""
