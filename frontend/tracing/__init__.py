"""Running a Python function on tensors without numbers, and keeping what it computes."""
