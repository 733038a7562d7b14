"""The functions on tensors, named as in NumPy: what `blu.exp`, `blu.sum` and so on are.

In a traced function they emit ops. Outside of one, on arrays, each compiles itself and runs.
"""

# fmt: off
from blu.dialects.arithmetic import (
    absolute, add, arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh, astype, bitwise_and, bitwise_or,
    bitwise_xor, cbrt, ceil, clip, copysign, cos, cosh, divide, equal, erf, erfc, exp, exp2, expm1, floor,
    floor_divide, greater, greater_equal, invert, isfinite, isinf, isnan, left_shift, less, less_equal, log,
    log10, log1p, log2, logaddexp, logical_and, logical_not, logical_or, logical_xor, matmul, maximum, minimum,
    multiply, negative, not_equal, power, reciprocal, relu, remainder, right_shift, round, rsqrt, sigmoid, sign,
    sin, sinh, sqrt, square, subtract, tan, tanh, trunc, where,
)
from blu.dialects.arrangement import (
    broadcast_arrays, broadcast_to, concatenate, expand_dims, flatten, flip, moveaxis, pad, repeat, reshape, roll,
    split, squeeze, stack, swapaxes, tile, transpose,
)
from blu.dialects.folding import (
    all, any, argmax, argmin, cumsum, logsumexp, max, mean, min, prod, std, sum, var,
)
from blu.frontend.functional_creation import (
    arange, asarray, diagonal, eye, full, full_like, iota, linspace, ones, ones_like, tri, tril, triu, zeros,
    zeros_like,
)
from blu.frontend.functional_einsum import einsum
from blu.frontend.functional_indexing import (
    argsort, dynamic_slice, dynamic_update_slice, one_hot, scatter_add, sort, take, take_along_axis, top_k,
)
from blu.frontend.functional_linear import dot, outer, tensordot, trace
from blu.frontend.functional_neural import (
    attention, cross_entropy, gelu, layer_norm, log_softmax, rms_norm, silu, softmax,
)

__all__ = [
    "absolute", "add", "all", "any", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "argmax", "argmin", "argsort", "asarray", "astype", "attention", "bitwise_and", "bitwise_or",
    "bitwise_xor", "broadcast_arrays", "broadcast_to", "cbrt", "ceil", "clip", "concatenate", "copysign", "cos",
    "cosh", "cross_entropy", "cumsum", "diagonal", "divide", "dot", "dynamic_slice", "dynamic_update_slice",
    "einsum", "equal", "erf", "erfc", "exp", "exp2", "expand_dims", "expm1", "eye", "flatten", "flip", "floor",
    "floor_divide", "full", "full_like", "gelu", "greater", "greater_equal", "invert", "iota", "isfinite",
    "isinf", "isnan", "layer_norm", "left_shift", "less", "less_equal", "linspace", "log", "log10", "log1p",
    "log2", "log_softmax", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "logsumexp",
    "matmul", "max", "maximum", "mean", "min", "minimum", "moveaxis", "multiply", "negative", "not_equal",
    "one_hot", "ones", "ones_like", "outer", "pad", "power", "prod", "reciprocal", "relu", "remainder", "repeat",
    "reshape", "right_shift", "rms_norm", "roll", "round", "rsqrt", "scatter_add", "sigmoid", "sign", "silu",
    "sin", "sinh", "softmax", "sort", "split", "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum",
    "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "top_k", "trace", "transpose",
    "tri", "tril", "triu", "trunc", "var", "where", "zeros", "zeros_like",
]
# fmt: on
