"""Elementwise ops: one scalar body each, wrapped in a broadcasting linalg.generic."""

from __future__ import annotations

from collections.abc import Callable

from blu.dialects.core.dtypes import bool_, f64
from blu.dialects.core.mlir import arith, ir, math
from blu.passes.loops.lower_to_linalg.checks import check_divisor
from blu.passes.loops.lower_to_linalg.generic import pointwise
from blu.passes.loops.lower_to_linalg.rules import Lowering, element_type, lowers
from blu.passes.loops.lower_to_linalg.scalar import Scalar, load, store

Body = Callable[..., Scalar]


def _math(name: str) -> Body:
    return lambda *operands: operands[0].math(name, *operands[1:])


def _compare(relation: str) -> Body:
    return lambda x, y: x.compare(relation, y)


def _absolute(x: Scalar) -> Scalar:
    if x.dtype.is_float:
        return x.math("absf")
    return x if x.dtype.kind == "unsigned" else x.compare("lt", 0).where(-x, x)


def _sign(x: Scalar) -> Scalar:
    positive, negative = x.compare("gt", 0), x.compare("lt", 0)
    zero_or_nan = x if x.dtype.is_float else x.like(0)
    if x.dtype.kind == "unsigned":
        return positive.where(x.like(1), x.like(0))
    signed_zero = x.compare("eq", 0).where(x.like(0), zero_or_nan)
    return positive.where(x.like(1), negative.where(x.like(-1), signed_zero))


def _sigmoid(x: Scalar) -> Scalar:
    """1 / (1 + exp(-x)), or exp(x) / (1 + exp(x)) below 0: an exponential that overflowed would make subnormals 0."""
    power = (-x.math("absf")).math("exp")
    return x.compare("lt", 0).where(power, x.like(1)) / (power + 1)


def _short_sigmoid(x: Scalar) -> Scalar:
    """Without a select; 0 where the exponential overflows, which is where the result is subnormal."""
    return _sigmoid(x) if x.dtype == f64 else x.like(1) / ((-x).math("exp") + 1)


def _rsqrt(x: Scalar) -> Scalar:
    return x.like(1) / x.math("sqrt")


def _floor_divide(x: Scalar, y: Scalar) -> Scalar:
    if x.dtype.is_float:
        return _float_floor_divide(x, y)
    divisor, by_zero = _safe_divisor(x, y)
    if x.dtype.kind == "unsigned":
        return by_zero.where(x.like(0), x / divisor)
    quotient, rest = x / divisor, x % divisor
    inexact = rest.compare("ne", 0) & (rest ^ divisor).compare("lt", 0)
    return by_zero.where(x.like(0), _negated_if_minus_one(x, y, inexact.where(quotient - 1, quotient)))


def _negated_if_minus_one(x: Scalar, y: Scalar, quotient: Scalar) -> Scalar:
    """x // -1 is -x with wrap-around, which the machine's division traps on for the smallest integer."""
    return y.compare("eq", -1).where(-x, quotient)


def _safe_divisor(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """A divisor that the machine never traps on, and whether the real one is zero."""
    by_zero = y.compare("eq", 0)
    unsafe = by_zero | y.compare("eq", -1) if x.dtype.kind == "signed" else by_zero
    return unsafe.where(y.like(1), y), by_zero


def _float_remainder(x: Scalar, y: Scalar) -> Scalar:
    """fmod with the sign of the divisor; a zero result takes the divisor's sign as well."""
    rest = x % y
    is_zero = rest.compare("eq", 0)
    opposite = rest.compare("lt", 0) ^ y.compare("lt", 0)
    moved = opposite.where(rest + y, rest)
    return is_zero.where(rest.like(0).math("copysign", y), moved)


def _float_floor_divide(x: Scalar, y: Scalar) -> Scalar:
    """NumPy's: the quotient of what fmod leaves divides evenly, then round to the nearest whole number."""
    rest = x % y
    opposite = rest.compare("ne", 0) & (rest.compare("lt", 0) ^ y.compare("lt", 0))
    quotient = (x - rest) / y
    quotient = opposite.where(quotient - 1, quotient)
    floored = quotient.math("floor")
    rounded = (quotient - floored).compare("gt", 0.5).where(floored + 1, floored)
    signed_zero = rounded.like(0).math("copysign", x / y)
    result = quotient.compare("ne", 0).where(rounded, signed_zero)
    return y.compare("eq", 0).where(x / y, result)


def _remainder(x: Scalar, y: Scalar) -> Scalar:
    if x.dtype.is_float:
        return _float_remainder(x, y)
    divisor, by_zero = _safe_divisor(x, y)
    rest = x % divisor
    if x.dtype.kind == "signed":
        opposite = rest.compare("ne", 0) & (rest ^ divisor).compare("lt", 0)
        rest = y.compare("eq", -1).where(x.like(0), opposite.where(rest + divisor, rest))
    return by_zero.where(x.like(0), rest)


def _power(x: Scalar, y: Scalar) -> Scalar:
    if x.dtype.is_float:
        return x.math("powf", y)
    return _integer_power(x, y)


def _integer_power(x: Scalar, y: Scalar) -> Scalar:
    """Square and multiply over the bits of the exponent; a negative exponent leaves 1, -1 or 0."""
    result, base, one = x.like(1), x, x.like(1)
    for bit in range(x.dtype.bits - (x.dtype.kind == "signed")):
        factor = (y & (1 << bit)).compare("ne", 0).where(base, one)
        result, base = result * factor, base * base
    if x.dtype.kind == "unsigned":
        return result
    odd = (y & 1).compare("ne", 0)
    minus_one = x.compare("eq", -1).where(odd.where(x, one), x.like(0))
    inverse = x.compare("eq", 1).where(one, minus_one)
    return y.compare("lt", 0).where(inverse, result)


def _left_shift(x: Scalar, y: Scalar) -> Scalar:
    safe, within = _safe_shift(x, y)
    return within.where(Scalar(arith.shli(x.value, safe.value), x.dtype), x.like(0))


def _right_shift(x: Scalar, y: Scalar) -> Scalar:
    safe, within = _safe_shift(x, y)
    if x.dtype.kind == "unsigned":
        return within.where(Scalar(arith.shrui(x.value, safe.value), x.dtype), x.like(0))
    sign = x.compare("lt", 0).where(x.like(-1), x.like(0))
    return within.where(Scalar(arith.shrsi(x.value, safe.value), x.dtype), sign)


def _safe_shift(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """A shift below the number of bits, and whether the real one is (a negative shift is not)."""
    within = (
        y.compare("lt", x.dtype.bits) & y.compare("ge", 0)
        if y.dtype.kind == "signed"
        else y.compare("lt", x.dtype.bits)
    )
    return within.where(y, y.like(0)), within


def _question(name: str) -> Body:
    return lambda x: Scalar(getattr(math, name)(x.value), bool_)


BODIES: dict[str, Body] = {
    "negative": lambda x: -x,
    "absolute": _absolute,
    "sign": _sign,
    "floor": _math("floor"),
    "ceil": _math("ceil"),
    "trunc": _math("trunc"),
    "round": _math("roundeven"),
    "square": lambda x: x * x,
    "reciprocal": lambda x: x.like(1) / x,
    "sqrt": _math("sqrt"),
    "rsqrt": _rsqrt,
    "cbrt": _math("cbrt"),
    "exp": _math("exp"),
    "exp2": _math("exp2"),
    "expm1": _math("expm1"),
    "log": _math("log"),
    "log2": _math("log2"),
    "log10": _math("log10"),
    "log1p": _math("log1p"),
    "sin": _math("sin"),
    "cos": _math("cos"),
    "tan": _math("tan"),
    "arcsin": _math("asin"),
    "arccos": _math("acos"),
    "arctan": _math("atan"),
    "sinh": _math("sinh"),
    "cosh": _math("cosh"),
    "tanh": _math("tanh"),
    "arcsinh": _math("asinh"),
    "arccosh": _math("acosh"),
    "arctanh": _math("atanh"),
    "erf": _math("erf"),
    "erfc": _math("erfc"),
    "sigmoid": _sigmoid,
    "relu": lambda x: x.maximum(0),
    "isnan": lambda x: x.compare("ne", x),
    "isinf": lambda x: x.math("absf").compare("eq", float("inf")),
    "isfinite": lambda x: x.math("absf").compare("lt", float("inf")),
    "logical_not": lambda x: x ^ True,
    "invert": lambda x: x ^ (True if x.dtype == bool_ else -1),
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "floor_divide": _floor_divide,
    "remainder": _remainder,
    "power": _power,
    "arctan2": _math("atan2"),
    "copysign": _math("copysign"),
    "maximum": lambda x, y: x.maximum(y),
    "minimum": lambda x, y: x.minimum(y),
    "equal": _compare("eq"),
    "not_equal": _compare("ne"),
    "less": _compare("lt"),
    "less_equal": _compare("le"),
    "greater": _compare("gt"),
    "greater_equal": _compare("ge"),
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "left_shift": _left_shift,
    "right_shift": _right_shift,
    "where": lambda condition, x, y: condition.where(x, y),
}
# Shorter bodies for machines whose exponentials of f32 are 0 where they are subnormal: there is nothing to keep.
WITHOUT_SUBNORMALS: dict[str, Body] = {"sigmoid": _short_sigmoid}
# The machine's negation of a float flips the sign bit only for arith.negf; exact bit operations need no wider type.
DIVISIONS = ("floor_divide", "remainder")


@lowers(*BODIES)
def lower_pointwise(op: Lowering) -> ir.Value:
    """Widen half-precision operands, run the body, round the result to its dtype."""
    name = op.operation.name.removeprefix("blu.")
    bodies = BODIES if op.keeps_subnormals else BODIES | WITHOUT_SUBNORMALS
    body, dtypes, result = bodies[name], [item.dtype for item in op.types], op.result
    if name in DIVISIONS and result.dtype.is_integer:
        check_divisor(op)

    def scalar_body(*values: ir.Value) -> ir.Value:
        if result.dtype.is_stored_only:  # elements are moved as they are
            return body(*map(Scalar, values, dtypes)).value
        loaded = [load(value, dtype) for value, dtype in zip(values, dtypes, strict=True)]
        return store(body(*loaded), result.dtype)

    return pointwise(result.shape, op.operands, element_type(result.dtype), scalar_body)


def scalar_rule(name: str) -> Callable[[Body], Body]:
    """Decorator for ops that are declared elsewhere: lower the elementwise op `name` by this scalar body."""

    def register(body: Body) -> Body:
        lowers(name)(lower_pointwise)
        BODIES[name] = body
        return body

    return register


@lowers("convert")
def lower_convert(op: Lowering) -> ir.Value:
    """A loop of scalar conversions."""
    source, target = op.types[0].dtype, op.result.dtype
    return pointwise(op.result.shape, op.operands, element_type(target), lambda x: Scalar(x, source).to(target).value)


@lowers("nearest_byte")
def lower_nearest_byte(op: Lowering) -> ir.Value:
    """Next to 1.5 * 2^23 floats are whole numbers: those of a sum with it are its low bits, whatever their sign."""
    source, large = op.types[0].dtype, 1.5 * 2**23 + op.attributes["above"]

    def low_bits(value: ir.Value) -> ir.Value:
        bits = arith.bitcast(ir.IntegerType.get_signless(32), (Scalar(value, source) + large).value)
        return arith.trunci(element_type(op.result.dtype), bits)

    return pointwise(op.result.shape, op.operands, element_type(op.result.dtype), low_bits)
