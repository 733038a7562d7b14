"""f64 functions without the C library, as GPUs have them: errors in ULP, special values, vectors against scalars.

They are compiled for the processor here. The reference is numpy in np.longdouble where that has 64 bits or more, and
mpmath for erf and erfc and for arguments of the circular functions that are hard to reduce.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from blu.dialects.core.mlir import ir
from blu.passes.kernels.math.expand_math import DOUBLE_FUNCTIONS, FUNCTIONS, expand_math
from tests.support.kernels.cpu_kernel import X86_64_V2, compile_kernel, host_targets
from tests.support.kernels.math_kernel import apply, kernel_text
from tests.support.kernels.math_reference import BINARY, REFERENCES, ulp_errors

pytestmark = pytest.mark.skipif(host_targets() == [X86_64_V2], reason="needs a fused multiply-add")

BY_MPMATH = ("erf", "erfc")
NAMES = [name for name in REFERENCES if f"math.{name}" in DOUBLE_FUNCTIONS]
BOUNDED = [name for name in NAMES if name not in BY_MPMATH]

SPECIALS = np.array(
    [0, 1, 0.5, 2, 3, 2.5, np.inf, np.nan, 5e-324, 1e-310, 2.2250738585072014e-308, 2.225073858507201e-308,
     1.7976931348623157e308, 1.2899302502209993e308, 1e-300, 1e-20, 1e-8, 1e300, 709.782712893384, 709.7827128933841,
     710.4758600739439, 710.475860073944, 745.1, 745.2, 708.4, 1022, 1023.9999, 1024, 1074, 1074.5, 1075, 2.0**53,
     2.0**53 + 2, 2.0**54, 2.0**53 - 1, 0.49999999999999994, 0.9999999999999999, 1.0000000000000002, 2.0**20,
     2.0**20 + 1, 22, 19.1, 1.5707963267948966, 3.141592653589793, 0.25, 4, 1 / 3, 101, 1e10, 0.6, 0.9, 5.9, 26.5,
     27.2, 27.3, 0.125, 0.375, 0.8, 1e22, 36.7, 37.5],
    dtype=np.float64,
)  # fmt: skip
SPECIALS = np.concatenate([SPECIALS, -SPECIALS])
# The f64 number that comes nearest to a multiple of pi/2, and others around the ends of reductions.
HARD_ANGLES = np.array([6381956970095103 * 2.0**797, 2.0**20, 1.7976931348623157e308, 1e22, 2.0**60, 5e30, 411557987.0])


def spread_doubles(count: int, seed: int) -> np.ndarray:
    """One random number out of each of `count` equal parts of the f64 bit patterns: all magnitudes, inf and NaN too."""
    step = 2**64 // count
    bits = np.arange(count, dtype=np.uint64) * np.uint64(step)
    return (bits + np.random.default_rng(seed).integers(0, step, count, np.uint64)).view(np.float64)


def usual_doubles(count: int, seed: int) -> np.ndarray:
    """Numbers where the functions bend: normal ones of several sizes, and numbers closer and closer to 1."""
    random = np.random.default_rng(seed)
    sizes = random.choice([1e-8, 1e-4, 0.01, 0.3, 1, 3, 10, 30, 300, 1000, 1e5], count)
    centers = random.choice([0, 0, 1], count)
    return random.standard_normal(count) * np.where(centers, 10.0 ** -random.integers(0, 10, count), sizes) + centers


def arguments(name: str, count: int) -> list[list[np.ndarray]]:
    """Sets of operands: all bit patterns, usual numbers and special ones, each with each for a binary function."""
    first = [spread_doubles(count, 1), usual_doubles(count, 2)]
    if name not in BINARY:
        return [[array] for array in (*first, SPECIALS)]
    random = np.random.default_rng(3)
    sets = [[array, random.permutation(array)] for array in first]
    positive = [np.abs(first[1]), random.permutation(first[1])]
    return [*sets, positive, [grid.ravel() for grid in np.meshgrid(SPECIALS, SPECIALS)]]


def found_by_blu(name: str, *arrays: np.ndarray, shape: tuple[int, ...] = (4,)) -> np.ndarray:
    return apply(name, *arrays, shape=shape, libm=False)


def exact_by_mpmath(name: str, x: np.ndarray) -> np.ndarray:
    """As f64 numbers and the rest of each, in one np.longdouble; results are exact to its last place."""
    with mpmath.workdps(60):
        values = [getattr(mpmath, name)(mpmath.mpf(float(value))) for value in x]
        parts = [(float(value), float(value - float(value))) for value in values]
    return np.array([np.longdouble(high) + np.longdouble(low) for high, low in parts])


def needs_a_better_reference() -> None:
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("np.longdouble is f64 here")


def check_class_and_sign(found: np.ndarray, exact: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float64)
    number = ~np.isnan(exact)
    np.testing.assert_array_equal(np.isinf(found), np.isinf(rounded))
    np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(rounded)[number])


def test_every_call_of_the_c_library_has_an_expansion():
    assert {name for name, function in FUNCTIONS.items() if function.libm} <= set(DOUBLE_FUNCTIONS)
    assert all(function.max_ulp <= (4 if name == "math.erfc" else 2) for name, function in DOUBLE_FUNCTIONS.items())


@pytest.mark.parametrize("name", BOUNDED)
def test_error(name: str):
    needs_a_better_reference()
    bound = DOUBLE_FUNCTIONS[f"math.{name}"].max_ulp
    largest = 0.0
    for arrays in arguments(name, 2**16):
        found = found_by_blu(name, *arrays)
        with np.errstate(all="ignore"):
            exact = REFERENCES[name](*(array.astype(np.longdouble) for array in arrays))
        errors = ulp_errors(found, exact)
        worst = int(np.argmax(errors))
        where = f"{name}({[float(array[worst]) for array in arrays]}) = {found[worst]}, exactly {exact[worst]}"
        assert errors[worst] <= bound, f"{errors[worst]:.3f} ULP: {where}"
        check_class_and_sign(found, exact)
        largest = max(largest, errors[worst])
    # Not zero, or a bound that says nothing would pass.
    assert largest >= bound / 2


@pytest.mark.parametrize("name", BY_MPMATH)
def test_error_of_the_error_functions(name: str):
    needs_a_better_reference()
    random = np.random.default_rng(5)
    x = np.concatenate([random.uniform(-6, 6, 1200), random.uniform(-1, 1, 400), random.uniform(5, 26, 800)])
    errors = ulp_errors(found_by_blu(name, x), exact_by_mpmath(name, x))
    bound = DOUBLE_FUNCTIONS[f"math.{name}"].max_ulp
    assert bound / 2 <= errors.max() <= bound


@pytest.mark.parametrize("name", BY_MPMATH)
def test_special_values_of_the_error_functions(name: str):
    """As in the C library, also where erfc is subnormal."""
    x = np.concatenate([SPECIALS, np.linspace(26.5, 27.5, 101)])
    found, exact = found_by_blu(name, x), REFERENCES[name](x)
    np.testing.assert_allclose(found, exact, rtol=5 * np.finfo(np.float64).eps, atol=1e-323)
    check_class_and_sign(found, exact)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_hard_angles(name: str):
    needs_a_better_reference()
    near = np.round(np.geomspace(1, 2.0**26, 60)) * (math.pi / 2)
    x = np.concatenate([HARD_ANGLES, -np.nextafter(HARD_ANGLES, 0), near, spread_doubles(256, 5)[48:120]])
    with mpmath.workdps(400):
        exact = exact_by_mpmath_of_angle(name, x)
    assert ulp_errors(found_by_blu(name, x), exact).max() <= DOUBLE_FUNCTIONS[f"math.{name}"].max_ulp


def exact_by_mpmath_of_angle(name: str, x: np.ndarray) -> np.ndarray:
    values = [getattr(mpmath, name)(mpmath.mpf(float(value))) for value in x]
    return np.array([np.longdouble(float(value)) + np.longdouble(float(value - float(value))) for value in values])


@pytest.mark.parametrize("name", NAMES)
def test_vectors_equal_scalars(name: str):
    """Bit by bit, for any shape of vector."""
    arrays = [np.concatenate([*pair]) for pair in zip(*arguments(name, 512)[:2], strict=True)]
    scalars = found_by_blu(name, *arrays, shape=()).view(np.uint64)
    for shape in ((8,), (2, 4)):
        np.testing.assert_array_equal(found_by_blu(name, *arrays, shape=shape).view(np.uint64), scalars)


def test_logarithms_of_powers_are_whole():
    exponents = np.arange(-1074.0, 1024.0)
    np.testing.assert_array_equal(found_by_blu("log2", np.ldexp(1.0, exponents.astype(int))), exponents)
    np.testing.assert_array_equal(found_by_blu("log10", 10.0 ** np.arange(23)), np.arange(23))
    np.testing.assert_array_equal(found_by_blu("exp2", exponents), np.ldexp(1.0, exponents.astype(int)))
    np.testing.assert_array_equal(found_by_blu("cbrt", np.arange(1000.0) ** 3), np.arange(1000))


def test_sincos_agrees_with_sin_and_cos():
    x = np.concatenate([spread_doubles(1024, 4), SPECIALS])
    x = np.resize(x, len(x) // 4 * 4)
    text = kernel_text("sincos", ["f64"], "f64", (4,), len(x))
    text = text.replace(") -> vector<4xf64>", ") -> (vector<4xf64>, vector<4xf64>)")
    for name, results in (("sin", "%r, %other = "), ("cos", "%other, %r = ")):
        with ir.Context():
            module = ir.Module.parse(text.replace("%r = ", results))
        expand_math(module, fma=True, libm=False)
        found = np.empty_like(x)
        compile_kernel(module, "kernel").bind(x, found)()
        np.testing.assert_array_equal(found, found_by_blu(name, x))


@pytest.mark.parametrize("exponent_type", ["i32", "i64"])
def test_fpowi(exponent_type: str):
    needs_a_better_reference()
    dtype = np.int32 if exponent_type == "i32" else np.int64
    exponents = np.array([0, 1, 2, 3, 5, -1, -2, 7, 30, -31, 1023, -1074, 2**24 + 1, 2**30, 2**31 - 1, -(2**31)], dtype)
    x, n = (grid.ravel() for grid in np.meshgrid(np.concatenate([SPECIALS, usual_doubles(256, 4)]), exponents))
    found = apply("fpowi", x, n, types=["f64", exponent_type], shape=(4,), libm=False)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.longdouble), n.astype(np.longdouble))
    assert ulp_errors(found, exact).max() <= DOUBLE_FUNCTIONS["math.fpowi"].max_ulp
    check_class_and_sign(found, exact)


def test_the_expansions_need_fused_multiply_add():
    with ir.Context():
        module = ir.Module.parse("func.func @f(%x: f64) -> f64 { %y = math.exp %x : f64 return %y : f64 }")
        with pytest.raises(AssertionError, match="fused multiply-add"):
            expand_math(module, fma=False, libm=False)
