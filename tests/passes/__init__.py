"""What passes do to IR."""
