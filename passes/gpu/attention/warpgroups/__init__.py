"""Attention by Hopper's warpgroups: forward, and the two launches of its gradient."""
