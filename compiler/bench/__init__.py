"""What `blu bench` does: workloads, what computes them, how that is timed, and the report."""
