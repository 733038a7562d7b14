"""Tests of Blu: what holds for the whole repository here, the others in the folder of their subject.

What results are compared with, NumPy's and PyTorch's, is computed by one thread: of several, those that are done wait
for the others in a loop, and where two processes of tests share two processors that takes longer than the work does.
"""

import os

# Read where the libraries are loaded; processes that tests start have them too.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
