"""Replaces the operations of the math dialect by arith operations that LLVM vectorises as they stand.

LLVM turns `llvm.exp` of a vector into one call of `expf` per element, and MLIR's own expansions lose digits (tanh 2016
ULP, log1p 1.7e7 ULP near 0), so f32 functions are Blu's own. f64 functions call the C library, and are Blu's own too
for targets without one.

Before (in a kernel):                      After:
    %1 = math.rsqrt %0 : vector<16xf32>        %cst = arith.constant dense<1.0> : vector<16xf32>
                                               %1 = math.sqrt %0 : vector<16xf32>
                                               %2 = arith.divf %cst, %1 : vector<16xf32>

Operations in INTRINSICS stay: the backends have instructions for them. The expansions may hold `scf.if`,
`vector.reduction` and `func.call`, so the pass comes before those dialects are lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import operations_in
from blu.dialects.targets.cpu import ATTRIBUTE, CpuTarget
from blu.passes.kernels.math import (
    error_function,
    exponential,
    inverse_trigonometry,
    libm,
    logarithm,
    power,
    rounding,
    trigonometry,
)
from blu.passes.kernels.math.double import error_function as double_error_function
from blu.passes.kernels.math.double import exponential as double_exponential
from blu.passes.kernels.math.double import inverse_trigonometry as double_inverse_trigonometry
from blu.passes.kernels.math.double import logarithm as double_logarithm
from blu.passes.kernels.math.double import power as double_power
from blu.passes.kernels.math.double import trigonometry as double_trigonometry
from blu.passes.kernels.math.elements import Elements, element_type
from blu.passes.kernels.math.share_functions import share_functions

Expansion = Callable[..., Elements | tuple[Elements, ...]]


@dataclass(frozen=True)
class Function:
    """How an operation is expanded.

    `expand` takes and returns Elements (a tuple of them for several results); with `libm`, the names of the C functions
    for the results, f64 operands go there and `expand` sees only f32. `max_ulp` is the largest error measured in f32
    (tests/kernels/math/test_expand_math.py), with fused multiply-add and without; None for results that are exact by
    construction.
    """

    expand: Expansion
    libm: tuple[str, ...] = ()
    max_ulp: tuple[float, float] | None = None


@dataclass(frozen=True)
class DoubleFunction:
    """How an operation on f64 is expanded where there is no C library, and the largest error measured in ULP."""

    expand: Expansion
    max_ulp: float


FUNCTIONS: dict[str, Function] = {
    "math.exp": Function(exponential.exp, ("exp",), (0.89, 1.17)),
    "math.exp2": Function(exponential.exp2, ("exp2",), (0.89, 1.08)),
    "math.expm1": Function(exponential.expm1, ("expm1",), (1.42, 1.46)),
    "math.tanh": Function(exponential.tanh, ("tanh",), (1.38, 1.35)),
    "math.sinh": Function(exponential.sinh, ("sinh",), (1.63, 1.67)),
    "math.cosh": Function(exponential.cosh, ("cosh",), (1.35, 1.6)),
    "math.log": Function(logarithm.log, ("log",), (0.89, 0.89)),
    "math.log2": Function(logarithm.log2, ("log2",), (1.07, 1.96)),
    "math.log10": Function(logarithm.log10, ("log10",), (0.94, 1.96)),
    "math.log1p": Function(logarithm.log1p, ("log1p",), (1.46, 1.46)),
    "math.asinh": Function(logarithm.asinh, ("asinh",), (0.51, 0.51)),
    "math.acosh": Function(logarithm.acosh, ("acosh",), (0.51, 0.51)),
    "math.atanh": Function(logarithm.atanh, ("atanh",), (0.51, 0.51)),
    "math.erf": Function(error_function.erf, ("erf",), (1.03, 1.18)),
    "math.erfc": Function(error_function.erfc, ("erfc",), (0.51, 0.51)),
    "math.sin": Function(trigonometry.sin, ("sin",), (1.57, 1.57)),
    "math.cos": Function(trigonometry.cos, ("cos",), (1.59, 1.59)),
    "math.sincos": Function(trigonometry.sincos, ("sin", "cos"), (1.59, 1.59)),
    "math.tan": Function(trigonometry.tan, ("tan",), (0.51, 0.51)),
    "math.asin": Function(inverse_trigonometry.asin, ("asin",), (1.31, 1.31)),
    "math.acos": Function(inverse_trigonometry.acos, ("acos",), (1.14, 1.14)),
    "math.atan": Function(inverse_trigonometry.atan, ("atan",), (1.37, 1.53)),
    "math.atan2": Function(inverse_trigonometry.atan2, ("atan2",), (1.56, 1.62)),
    "math.powf": Function(power.powf, ("pow",), (0.51, 0.51)),
    "math.fpowi": Function(power.fpowi, (), (0.51, 0.51)),
    "math.cbrt": Function(power.cbrt, ("cbrt",), (0.51, 0.51)),
    "math.rsqrt": Function(power.rsqrt, (), (1.5, 1.5)),
    "math.ipowi": Function(power.ipowi),
    "math.round": Function(rounding.round_half_away),
    "math.fma": Function(rounding.fused_multiply_add),
    "math.clampf": Function(rounding.clampf),
    "math.isnan": Function(rounding.isnan),
    "math.isinf": Function(rounding.isinf),
    "math.isfinite": Function(rounding.isfinite),
    "math.isnormal": Function(rounding.isnormal),
}

DOUBLE_FUNCTIONS: dict[str, DoubleFunction] = {
    "math.exp": DoubleFunction(double_exponential.exp, 0.58),
    "math.exp2": DoubleFunction(double_exponential.exp2, 0.7),
    "math.expm1": DoubleFunction(double_exponential.expm1, 0.84),
    "math.tanh": DoubleFunction(double_exponential.tanh, 0.74),
    "math.sinh": DoubleFunction(double_exponential.sinh, 1.65),
    "math.cosh": DoubleFunction(double_exponential.cosh, 1.05),
    "math.log": DoubleFunction(double_logarithm.log, 0.51),
    "math.log2": DoubleFunction(double_logarithm.log2, 0.51),
    "math.log10": DoubleFunction(double_logarithm.log10, 0.51),
    "math.log1p": DoubleFunction(double_logarithm.log1p, 0.51),
    "math.asinh": DoubleFunction(double_logarithm.asinh, 1.0),
    "math.acosh": DoubleFunction(double_logarithm.acosh, 1.35),
    "math.atanh": DoubleFunction(double_logarithm.atanh, 0.51),
    "math.erf": DoubleFunction(double_error_function.erf, 1.05),
    "math.erfc": DoubleFunction(double_error_function.erfc, 3.3),
    "math.sin": DoubleFunction(double_trigonometry.sin, 0.76),
    "math.cos": DoubleFunction(double_trigonometry.cos, 0.76),
    "math.sincos": DoubleFunction(double_trigonometry.sincos, 0.76),
    "math.tan": DoubleFunction(double_trigonometry.tan, 0.9),
    "math.asin": DoubleFunction(double_inverse_trigonometry.asin, 0.62),
    "math.acos": DoubleFunction(double_inverse_trigonometry.acos, 0.58),
    "math.atan": DoubleFunction(double_inverse_trigonometry.atan, 1.18),
    "math.atan2": DoubleFunction(double_inverse_trigonometry.atan2, 1.5),
    "math.powf": DoubleFunction(double_power.powf, 0.61),
    "math.fpowi": DoubleFunction(double_power.fpowi, 0.61),
    "math.cbrt": DoubleFunction(double_power.cbrt, 0.6),
    "math.rsqrt": DoubleFunction(power.rsqrt, 1.5),
}

INTRINSICS = frozenset(
    f"math.{name}"
    for name in ("absf", "absi", "ceil", "copysign", "ctlz", "ctpop", "cttz", "floor", "roundeven", "sqrt", "trunc")
)


def expand_math(
    module: ir.Module,
    fma: bool | None = None,
    libm: bool = True,
    share: bool = False,
    operations: Sequence[ir.Operation] | None = None,
) -> None:
    """Expand every operation of the math dialect in `module`, in place, on scalars and vectors of f32 and f64.

    `fma` says whether the target has a fused multiply-add; None asks the module's `blu.target`, else assumes so.
    Without it math.fma is rounded twice, and f32 errors grow as `max_ulp` says. `libm` says whether f64 functions may
    call the C library; without one they are expanded as DOUBLE_FUNCTIONS says, which needs `fma`. `share` says whether
    what is long and often in a kernel becomes a function (see share_functions.py), as pays on processors. `operations`
    are all that the module has, in order, where they are known.
    """
    fused = _target_fuses(module) if fma is None else fma
    assert fused or libm, "f64 functions are expanded for targets with a fused multiply-add only"
    with module.context:
        wanted = _math_operations(operations_in(module.operation) if operations is None else operations)
        if share:
            long = [item for item in wanted if _is_long(item)]
            wanted = [item for item in wanted if not _is_long(item)] + share_functions(long)
        for operation in wanted:
            _expand(operation, fused, libm)


def expand_functions(operations: Mapping[str, Sequence[ir.Operation]], fused: bool, use_libm: bool) -> None:
    """As `expand_math`, for those of the math dialect among operations by their names."""
    for name in _to_expand(operations):
        for operation in operations[name]:
            _expand(operation, fused, use_libm)


def _is_long(operation: ir.Operation) -> bool:
    """Whether its expansion is many operations of arith: those that a C library has, on f32."""
    return bool(FUNCTIONS[operation.name].libm) and isinstance(element_type(operation.operands[0].type), ir.F32Type)


def _target_fuses(module: ir.Module) -> bool:
    attributes = module.operation.attributes
    if ATTRIBUTE not in attributes:
        return True
    target = CpuTarget.from_attribute(attributes[ATTRIBUTE])
    return target.cpu not in ("x86-64", "x86-64-v2") or "+fma" in target.features


def _math_operations(operations: Iterable[ir.Operation]) -> list[ir.Operation]:
    """Those to expand; collected first, since expanding moves what a walk stands on."""
    found = [(item, name) for item in operations if (name := item.name).startswith("math.")]
    wanted = set(_to_expand({name for _, name in found}))
    return [item for item, name in found if name in wanted]


def _to_expand(names: Collection[str]) -> list[str]:
    """The names of operations of the math dialect that are expanded."""
    found = [name for name in names if name.startswith("math.") and name not in INTRINSICS]
    missing = set(found) - set(FUNCTIONS)
    assert not missing, f"no expansion of {missing}"
    return found


def _expand(operation: ir.Operation, fused: bool, use_libm: bool) -> None:
    """Put the expansion in place of `operation`, at its location."""
    function: Function | DoubleFunction = FUNCTIONS[operation.name]
    operands = list(operation.operands)
    element = element_type(operands[0].type)
    supported = isinstance(element, ir.F32Type | ir.F64Type | ir.IntegerType)
    assert supported, f"{operation.name} of {operands[0].type}: bodies compute in f32 or f64"
    if isinstance(element, ir.F64Type) and not use_libm:
        function = DOUBLE_FUNCTIONS.get(operation.name, function)
    with ir.InsertionPoint(operation), operation.location:
        if isinstance(function, Function) and function.libm and isinstance(element, ir.F64Type):
            results = [libm.call(name, operands) for name in function.libm]
        else:
            expanded = function.expand(*(Elements(operand, fused) for operand in operands))
            results = [value.value for value in (expanded if isinstance(expanded, tuple) else (expanded,))]
    for old, new in zip(operation.results, results, strict=True):
        old.replace_all_uses_with(new)
    operation.erase()
