"""The sums of a tile by tensor cores, one warp at a time.

`mma.py` is the loop, `fragments.py` what it reads, `repair.py` what becomes of sums of f32 that it cannot form.
"""
