"""Math functions as arith operations, one file per family; the table of all is in `expand_math.py`."""
