"""What ops mean, whatever they are compiled for: their samples, gradients and special values."""
