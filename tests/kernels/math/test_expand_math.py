"""Expansion of math functions: errors in ULP over all of f32, special values, vectors against scalars, f64, integers.

The bounds are `max_ulp` in the table FUNCTIONS. The reference is numpy in f64 (the C library for erf), and mpmath for
arguments of sin, cos and tan so large that the reference itself needs checking.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from blu.dialects.core.mlir import ir
from blu.dialects.targets.cpu import X86_64_V2, X86_64_V4
from blu.passes.kernels.math.expand_math import FUNCTIONS, expand_math
from tests.support import minimax
from tests.support.kernels.cpu_kernel import compile_kernel, host_targets
from tests.support.kernels.math_kernel import NUMPY_TYPES, apply, kernel_text, operation_names
from tests.support.kernels.math_reference import BINARY, REFERENCES, ulp_errors

# These have tests of their own.
OTHERS = {"sincos", "fpowi", "ipowi", "fma", "clampf", "isnan", "isinf", "isfinite", "isnormal"}
SLOW_REFERENCES = ("erf", "erfc")

SPECIALS = np.array(
    [0, 1, 0.5, 2, 3, 2.5, np.inf, np.nan, 1e-45, 1e-40, 1.1754944e-38, 1.17549421e-38, 3.4028235e38, 1e-30, 1e-20,
     1e-8, 1e30, 88.72283, 88.72284, 87.4, 89.1, 89.4, 103.97, 103.98, 126, 127.99999, 128, 149, 149.5, 150, 2**24,
     2**24 + 1, 2**25, 2**25 + 2, 0.49999997, 0.99999994, 1.0000001, 1e5, 100001, 10.05, 10.06, 9.19, 1.5707964,
     3.1415927, 0.25, 4, 0.33333334, 101, 1e10, 2e38, 0.6, 0.9],
    dtype=np.float32,
)  # fmt: skip
SPECIALS = np.concatenate([SPECIALS, -SPECIALS])


def reference(name: str, *arrays: np.ndarray) -> np.ndarray:
    """The function in f64, of f32 or f64 numbers."""
    with np.errstate(all="ignore"):
        return REFERENCES[name](*(array.astype(np.float64) for array in arrays))


def spread_floats(count: int, seed: int) -> np.ndarray:
    """One random number out of each of `count` equal parts of the f32 bit patterns: all magnitudes, inf and NaN too."""
    step = 2**32 // count
    bits = np.arange(count, dtype=np.uint64) * step + np.random.default_rng(seed).integers(0, step, count, np.uint64)
    return bits.astype(np.uint32).view(np.float32)


def usual_floats(count: int, seed: int) -> np.ndarray:
    """Numbers where the functions bend: normal ones of several sizes, and numbers around 1."""
    random = np.random.default_rng(seed)
    sizes = random.choice([0.01, 0.3, 1, 3, 10, 30, 1000], count)
    centers = random.choice([0, 0, 1], count)
    return (random.standard_normal(count) * np.where(centers, 0.2, sizes) + centers).astype(np.float32)


def arguments(name: str, count: int) -> list[list[np.ndarray]]:
    """Sets of operands: all bit patterns and usual numbers; for a binary function the second is the first shuffled."""
    first = [spread_floats(count, 1), usual_floats(count // 2, 2)]
    if name not in BINARY:
        return [[array] for array in first]
    random = np.random.default_rng(3)
    sets = [[array, random.permutation(array)] for array in first]
    return [*sets, [np.abs(first[1]), random.permutation(first[1])]]


def check_errors(name: str, count: int, fma: bool) -> None:
    bound = FUNCTIONS[f"math.{name}"].max_ulp[0 if fma else 1]
    for arrays in arguments(name, count):
        found, exact = apply(name, *arrays, fma=fma), reference(name, *arrays)
        errors = ulp_errors(found, exact)
        worst = int(np.argmax(errors))
        where = f"{name}({[float(array[worst]) for array in arrays]}) = {found[worst]}, exactly {exact[worst]}"
        assert errors[worst] <= bound, f"{errors[worst]:.3f} ULP: {where}"
        # Not zero, or a bound that says nothing would pass.
        assert errors.max() >= bound / 4


BOUNDED = [name for name in REFERENCES if name != "round"]


def test_every_function_of_the_table_is_tested():
    assert {f"math.{name}" for name in [*REFERENCES, *OTHERS]} == set(FUNCTIONS)


def test_bounds_are_what_the_documentation_promises():
    for name, function in FUNCTIONS.items():
        assert function.max_ulp is None or max(function.max_ulp) <= 2.0, name
    for name in ("math.exp", "math.exp2", "math.log", "math.log10"):
        assert FUNCTIONS[name].max_ulp[0] <= 1.0


@pytest.mark.parametrize("name", BOUNDED)
def test_f32_error(name: str):
    check_errors(name, 2**19 if name in SLOW_REFERENCES else 2**21, fma=True)


@pytest.mark.parametrize("name", BOUNDED)
def test_f32_error_without_fused_multiply_add(name: str):
    if X86_64_V2 not in host_targets():
        pytest.skip("needs an x86-64 host")
    check_errors(name, 2**17, fma=False)


@pytest.mark.parametrize("fma", [True, False])
@pytest.mark.parametrize("name", REFERENCES)
def test_special_values(name: str, fma: bool):
    """Class, sign of zero and overflow exactly as numpy in f64, rounded."""
    if not fma and X86_64_V2 not in host_targets():
        pytest.skip("needs an x86-64 host")
    arrays = [grid.ravel() for grid in np.meshgrid(SPECIALS, SPECIALS)] if name in BINARY else [SPECIALS]
    found, exact = apply(name, *arrays, fma=fma), reference(name, *arrays)
    assert ulp_errors(found, exact).max() <= 2.0
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
    number = ~np.isnan(exact)
    np.testing.assert_array_equal(np.isinf(found), np.isinf(rounded))
    np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(rounded)[number])


@pytest.mark.parametrize("name", REFERENCES)
def test_vectors_equal_scalars(name: str):
    """Bit by bit, for any shape of vector."""
    arrays = [np.concatenate([array[:2048], SPECIALS]) for array in arguments(name, 2**13)[0]]
    scalars = apply(name, *arrays, shape=()).view(np.uint32)
    for shape in ((16,), (2, 8)):
        np.testing.assert_array_equal(apply(name, *arrays, shape=shape).view(np.uint32), scalars)


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("shape", [(), (2, 4)])
def test_f64_is_the_c_library(name: str, shape: tuple[int, ...]):
    arrays = [array.astype(np.float64) * (1 + 1e-10) for array in arguments(name, 1024)[1]]
    arrays = [np.concatenate([array, SPECIALS.astype(np.float64)]) for array in arrays]
    found, exact = apply(name, *arrays, shape=shape), reference(name, *arrays)
    np.testing.assert_allclose(found, exact, rtol=2 * np.finfo(np.float64).eps, atol=0)
    number = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(exact)[number])


def test_trigonometry_of_huge_numbers():
    """Against 200 digits; the first is the f32 number that comes nearest to a multiple of pi/2."""
    huge = np.array([16367173 * 2.0**72, 3.4028235e38, 1e10, 12345678.0, 1.2e5, 2.0**60, 5e22, -7e30], np.float32)
    x = np.concatenate([huge, np.nextafter(huge, np.float32(0)), spread_floats(512, 5)[120:136]])
    x = x[np.isfinite(x)]
    with mpmath.workdps(200):
        for name in ("sin", "cos", "tan"):
            exact = np.array([float(getattr(mpmath, name)(mpmath.mpf(float(value)))) for value in x])
            assert ulp_errors(apply(name, x), exact).max() <= FUNCTIONS[f"math.{name}"].max_ulp[0]


def test_sincos_agrees_with_sin_and_cos():
    x = np.concatenate([arguments("sin", 4096)[0][0], SPECIALS])
    text = kernel_text("sincos", ["f32"], "f32", (16,), len(x) // 16 * 16)
    text = text.replace("%r = ", "%sine, %r = ").replace(") -> vector<16xf32>", ") -> (vector<16xf32>, vector<16xf32>)")
    cosine = np.empty(len(x) // 16 * 16, np.float32)
    compile_kernel(text, "kernel").bind(x[: len(cosine)].copy(), cosine)()
    np.testing.assert_array_equal(cosine, apply("cos", x[: len(cosine)]))
    sine = np.empty_like(cosine)
    compile_kernel(text.replace("%sine, %r", "%r, %cosine"), "kernel").bind(x[: len(sine)].copy(), sine)()
    np.testing.assert_array_equal(sine, apply("sin", x[: len(sine)]))


@pytest.mark.parametrize("exponent_type", ["i32", "i64"])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_fpowi(element: str, exponent_type: str):
    exponents = [0, 1, 2, 3, 5, -1, -2, -3, 7, 30, -31, 127, -149, 2**24 + 1, 2**30, -(2**30) - 1, 2**31 - 1, -(2**31)]
    base = np.concatenate([SPECIALS, usual_floats(256, 4)]).astype(NUMPY_TYPES[element])
    x, n = (grid.ravel() for grid in np.meshgrid(base, np.array(exponents, NUMPY_TYPES[exponent_type])))
    found = apply("fpowi", x, n, types=[element, exponent_type])
    exact = reference("powf", x, n)
    check_power(found, exact)


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 64, 65, -1, -3])
def test_fpowi_of_a_constant(element: str, exponent: int):
    """Constants are expanded on their own: multiplications where they are small."""
    x = np.concatenate([SPECIALS, usual_floats(256, 4)]).astype(NUMPY_TYPES[element])
    x = np.resize(x, len(x) // 8 * 8)
    text = kernel_text("fpowi", [element, "i32"], element, (8,), len(x), exponent)
    found = np.empty_like(x)
    compile_kernel(text, "kernel").bind(x, np.zeros(len(x), np.int32), found)()
    check_power(found, reference("powf", x, np.full(len(x), exponent)))


def check_power(found: np.ndarray, exact: np.ndarray) -> None:
    if found.dtype == np.float64:
        np.testing.assert_allclose(found, exact, rtol=2 * np.finfo(np.float64).eps, atol=0)
    else:
        assert ulp_errors(found, exact).max() <= FUNCTIONS["math.fpowi"].max_ulp[0]
    number = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(exact)[number])


@pytest.mark.parametrize("element", ["i32", "i64"])
def test_ipowi(element: str):
    dtype = NUMPY_TYPES[element]
    bases = np.array([0, 1, -1, 2, -2, 3, 10, -7, 46341, 2**31 - 1, -(2**31)], dtype)
    exponents = np.array([0, 1, 2, 3, 31, 40, 63, -1, -2, -5, 2**31 - 1], dtype)
    x, n = (grid.ravel() for grid in np.meshgrid(bases, exponents))
    modulus = 2 ** (8 * dtype().itemsize)
    expected = np.array([_wrapped_power(int(a), int(b), modulus) for a, b in zip(x, n, strict=True)], dtype)
    for shape in ((), (8,)):
        np.testing.assert_array_equal(apply("ipowi", x, n, shape=shape), expected)


def _wrapped_power(base: int, exponent: int, modulus: int) -> int:
    if exponent < 0:
        return base ** (exponent % 2) if base in (1, -1) else 0
    return (pow(base, exponent, modulus) + modulus // 2) % modulus - modulus // 2


@pytest.mark.parametrize("exponent", [0, 1, 2, 5, 13, -3])
def test_ipowi_of_a_constant(exponent: int):
    x = np.arange(-8, 8, dtype=np.int32)
    text = kernel_text("ipowi", ["i32", "i32"], "i32", (8,), 16, exponent)
    found = np.empty_like(x)
    compile_kernel(text, "kernel").bind(x, x, found)()
    np.testing.assert_array_equal(found, [_wrapped_power(int(value), exponent, 2**32) for value in x])


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_predicates(element: str):
    x = SPECIALS.astype(NUMPY_TYPES[element])
    smallest = np.finfo(x.dtype).smallest_normal
    expected = {
        "isnan": np.isnan(x),
        "isinf": np.isinf(x),
        "isfinite": np.isfinite(x),
        "isnormal": np.isfinite(x) & (np.abs(x) >= smallest),
    }
    for name, mask in expected.items():
        np.testing.assert_array_equal(apply(name, x, result="i1", shape=()), mask)


def test_clampf_keeps_nan():
    x, low, high = (np.array(v, np.float32) for v in ([-5, 5, 0.5, np.nan], [-1] * 4, [1] * 4))
    np.testing.assert_array_equal(apply("clampf", x, low, high, shape=(4,)), [-1, 1, 0.5, np.nan])


def test_fma_is_rounded_once_or_twice():
    a = np.full(16, 1 + 2.0**-12, np.float32)
    c = np.full(16, -1 - 2.0**-11, np.float32)
    np.testing.assert_array_equal(apply("fma", a, a, c, fma=True), 2.0**-24)
    if X86_64_V2 in host_targets():
        np.testing.assert_array_equal(apply("fma", a, a, c, fma=False), 0.0)


@pytest.mark.parametrize(("target", "fused"), [(X86_64_V2, False), (X86_64_V4, True), (None, True)])
def test_the_target_decides_about_fused_multiply_add(target, fused: bool):
    with ir.Context():
        module = ir.Module.parse("func.func @f(%x: f32) -> f32 { %y = math.exp %x : f32 return %y : f32 }")
        if target:
            module.operation.attributes["blu.target"] = target.to_attribute()
        expand_math(module)
    assert ("math.fma" in operation_names(module)) == fused


def test_expansions_keep_the_location():
    text = 'func.func @f(%x: f32) -> f32 { %y = math.sin %x : f32 loc("model.py":12:3) return %y : f32 loc("r":1:1) }'
    with ir.Context():
        module = ir.Module.parse(text)
        expand_math(module)
    block = module.body.operations[0].regions[0].blocks[0]
    assert {str(op.location) for op in list(block.operations)[:-1]} == {'loc("model.py":12:3)'}


def test_narrow_floats_are_refused():
    with ir.Context():
        module = ir.Module.parse("func.func @f(%x: bf16) -> bf16 { %y = math.exp %x : bf16 return %y : bf16 }")
        with pytest.raises(AssertionError, match="bodies compute in f32 or f64"):
            expand_math(module)


def test_coefficients_are_those_that_minimax_computes():
    from blu.passes.kernels.math import error_function, exponential, inverse_trigonometry, logarithm, power
    from blu.passes.kernels.math import trigonometry as circular

    files = (error_function, exponential, inverse_trigonometry, logarithm, power, circular)
    check_coefficients(files, minimax.FITS)


def test_coefficients_in_f64_are_those_that_minimax_computes():
    from blu.passes.kernels.math.double import error_function, exponential, inverse_trigonometry, logarithm
    from blu.passes.kernels.math.double import trigonometry as circular

    check_coefficients((error_function, exponential, inverse_trigonometry, logarithm, circular), minimax.DOUBLE_FITS)


def check_coefficients(files: tuple, fits: dict[str, minimax.Fit]) -> None:
    with mpmath.workdps(60):
        for name, fit in fits.items():
            tables = [vars(file)[name] for file in files if name in vars(file)]
            assert tables == [tuple(fit.coefficients())], name
