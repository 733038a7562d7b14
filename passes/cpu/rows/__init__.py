"""Kernels over rows and columns on processors: `rows.py` is the way in, `walks.py` and `sweep.py` walk over a row.

What a group of ops computes is read in `passes/kernels/rows`, as for GPUs.
"""
