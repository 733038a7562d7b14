"""Math functions as arith operations, one file per family; the table of all is in `passes/expand_math.py`."""
