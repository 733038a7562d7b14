"""`blu tune`: schedules of kernels that are faster than those that are chosen, found by measuring them."""
