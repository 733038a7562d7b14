"""What looks through windows: convolutions, pooling, other sizes."""
