"""What a pass is, which there are, and how pipelines of them are read."""
