"""What runs programs: plans, files, arrays, threads."""
