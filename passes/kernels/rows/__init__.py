"""The analysis of groups of ops over rows and columns, the same for all targets.

`program.py` reads a group, `plan.py` says what runs in which walk over a row, `layout.py` how memory lies over loops.
"""
