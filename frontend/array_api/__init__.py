"""`blu.array_api`: the namespace of the Python array-API standard, for arrays and, in compiled functions, tensors.

Outside of compiled functions, each function compiles itself and runs, as `blu`'s functions do. What kernels do not do
is computed on the host by NumPy: complex numbers, decompositions of matrices, Fourier transforms, and functions whose
result has as many elements as something is found. docs/array-api.md lists it.
"""

from blu import errors as _errors
from blu.frontend.array_api import fft as fft
from blu.frontend.array_api import linalg as linalg
from blu.frontend.array_api.creation import *
from blu.frontend.array_api.dtypes import *
from blu.frontend.array_api.elementwise import *
from blu.frontend.array_api.folding import *
from blu.frontend.array_api.inspection import *
from blu.frontend.array_api.linalg import matmul as matmul
from blu.frontend.array_api.linalg import matrix_transpose as matrix_transpose
from blu.frontend.array_api.linalg import tensordot as tensordot
from blu.frontend.array_api.linalg import vecdot as vecdot
from blu.frontend.array_api.manipulation import *
from blu.frontend.array_api.searching import *

__array_api_version__ = "2025.12"
__getattr__ = _errors.guessing(globals())
