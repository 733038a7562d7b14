"""Kernels over rows and columns on GPUs: `rows.py` is the way in, `choice.py` chooses how threads share the work.

`walks.py` is what one thread does, `teams.py` how threads of a row meet, `columns.py` and `sums.py` add up columns.
What a group of ops computes is read in `passes/kernels/rows`, as for processors.
"""
