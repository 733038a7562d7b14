"""Attention of a few queries: bound by reading keys and values, and by what has to come one after the other."""
