"""Matrix products on GPUs: `gemm.py` is the way in, `choice.py` chooses how a product is cut.

A kernel by Hopper's warpgroups is `wgmma.py` with `pingpong.py` and `ring.py`, by tensor cores `warps/mma.py`, in
plain f32 `simt.py`, of few rows `rows.py`. What all of them do with finished sums is `output.py`.
"""
