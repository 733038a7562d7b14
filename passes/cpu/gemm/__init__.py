"""Matrix products on processors: `gemm.py` by tiles in registers, `gemv.py` of one row. `schedule.py` has the sizes."""
