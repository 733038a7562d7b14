"""Decompositions of math functions into arith operations, one file per family; `passes/expand_math.py` has the table."""
