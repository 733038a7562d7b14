"""Mathematical functions, in units of the last place."""
