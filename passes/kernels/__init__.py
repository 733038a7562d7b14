"""What emitters for all targets share: how a kernel is read, and how bodies of linalg ops are written again."""
