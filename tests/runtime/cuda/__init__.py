"""What runs programs on GPUs, on a fake one."""
