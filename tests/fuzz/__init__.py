"""Random programs, checked against what they mean: see __main__.py."""
