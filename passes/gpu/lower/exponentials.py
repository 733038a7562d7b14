"""exp, exp2 and tanh in f32 by the GPU's own exponential, as exact as the expansions for processors nearly are.

    %1 = math.exp %0 : f32     ->     t = x log2(e), rounded; what is left of x is r = x - t ln 2
                                      p = ex2.approx(t); the result is p + p r

ex2.approx is within 2 units in the last place, r mends the rounding of t: 4 units altogether at the ends of the range,
in 6 instructions instead of 17. Results below 2^-126 are 0. Kernels that write halves have erfc in f32, which is of f64
elsewhere: 32 such numbers take as long as a product's tile. Other functions are expanded by expand_math.py in
passes/kernels/math.

Source: PTX ISA, "ex2.approx", "rcp.approx".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from blu.dialects.core.mlir import func, ir
from blu.passes.gpu.isa import approx
from blu.passes.gpu.lower.fast_math import ATTRIBUTE, FUSES, scaled
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.math.elements import Elements, clamp, element_type, fma, polynomial, select
from blu.passes.kernels.math.error_function import LOG_ERFC
from blu.passes.kernels.math.exponential import LOG2_E, TANH

LN2 = 0.693147182464599609375
"""As an f32: it is 1.9e-9 too large, at most 2.4e-7 of the result."""
LARGEST = 126.0
"""Powers of two up to which p r is a number."""


def expand_exponentials(function: func.FuncOp, operations: Mapping[str, Sequence[ir.Operation]]) -> bool:
    """Replace those of f32 among a kernel's operations, scalars and vectors. Kernels that write halves do without r.

    Whether there was one.
    """
    rough = _folded_exp if FUSES in function.attributes else _rough_exp
    rules = {**_RULES, "math.exp": rough, "math.erfc": _rough_erfc} if ATTRIBUTE in function.attributes else _RULES
    found = [item for name in rules for item in operations.get(name, ())]
    found = [item for item in found if isinstance(element_type(item.operands[0].type), ir.F32Type)]
    for operation in found:
        with ir.InsertionPoint(operation), operation.location:
            result = rules[operation.name](Elements(operation.operands[0], True))
        operation.results[0].replace_all_uses_with(result.value)
        operation.erase()
    return bool(found)


def _exp(x: Elements) -> Elements:
    power = x * LOG2_E
    rest = fma(power, -LN2, x)
    result = _each(x, power, approx.ex2)
    return select(abs(power) < LARGEST, fma(result, rest, result), result)


def _rough_exp(x: Elements) -> Elements:
    return _exp2(x * LOG2_E)


def _folded_exp(x: Elements) -> Elements:
    less = _without_splat(x)
    return _exp2(Elements(scaled(x.value, LOG2_E), x.fused) if less is None else fma(less[0], LOG2_E, less[1]))


def _without_splat(x: Elements) -> tuple[Elements, Elements] | None:
    """a and -s log2(e) for a - s, where s is one number for all elements: that is multiplied then, not the result.

    What the product rounds off is no more than what a sum of that size, from which it is subtracted, lacks already.
    """
    owner = None if isinstance(x.value.owner, ir.Block) else x.value.owner
    if owner is None or owner.name != "arith.subf" or isinstance(owner.operands[1].owner, ir.Block):
        return None
    splat = owner.operands[1].owner
    if splat.name != "vector.broadcast" or isinstance(splat.operands[0].type, ir.VectorType):
        return None
    with ir.InsertionPoint(splat), splat.location:
        scaled_splat = Elements(splat.operands[0], x.fused) * -LOG2_E
        less = vectors.splat(scaled_splat.value, x.value.type.shape[0])
    return Elements(owner.operands[0], x.fused), Elements(less, x.fused)


def _exp2(x: Elements) -> Elements:
    return _each(x, x, approx.ex2)


def _tanh(x: Elements) -> Elements:
    """An odd polynomial below 0.625, else 1 - 2 / (exp(2 |x|) + 1)."""
    a = abs(x)
    z = x * x
    near = fma(x * z, polynomial(z, TANH), x)
    power = _each(x, clamp(a, high=20.0) * (2.0 * LOG2_E), approx.ex2)
    far = fma(_each(x, power + 1.0, approx.rcp), -2.0, 1.0)
    return select(a < 0.625, near, far).copysign(x)


def _rough_erfc(x: Elements) -> Elements:
    """2^(a P(a)) for a = |x|, 2 minus that for negative x: within 1e-5 up to 5, and 4e-5 further on.

    A product's epilogue writes it out for each number that a thread has: what counts is how few instructions it is.
    """
    a = clamp(abs(x), high=10.2)
    result = _exp2(a * polynomial(a, LOG_ERFC))
    return select(x < 0.0, 2.0 - result, result)


def _each(like: Elements, operand: Elements, instruction: Callable[[ir.Value], ir.Value]) -> Elements:
    """An instruction of one f32 on each element."""
    return Elements(approx.of_each(operand.value, instruction), like.fused)


_RULES: dict[str, Callable[[Elements], Elements]] = {"math.exp": _exp, "math.exp2": _exp2, "math.tanh": _tanh}
