"""f16 conversions on processors with and without F16C, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.kernels.cpu_kernel import host_targets, run_kernel

TARGETS = pytest.mark.parametrize("target", host_targets(), ids=lambda target: target.name)


def conversion(op: str, source: str, result: str, size: int, lanes: int = 8) -> str:
    """A kernel that converts `size` elements, `lanes` at a time (1: scalars)."""
    if lanes == 1:
        load, store = "%v = memref.load %in[%i] : IN", "memref.store %w, %out[%i] : OUT"
        types = f"{source} to {result}"
    else:
        vector = f"vector<{lanes}x{source}>", f"vector<{lanes}x{result}>"
        load, store = f"%v = vector.load %in[%i] : IN, {vector[0]}", f"vector.store %w, %out[%i] : OUT, {vector[1]}"
        types = f"{vector[0]} to {vector[1]}"
    text = f"""
    func.func @convert(%in: IN, %out: OUT, %begin: index, %end: index) attributes {{blu.blocks = 1 : i64}} {{
      %size = arith.constant {size} : index
      %zero = arith.constant 0 : index
      %step = arith.constant {lanes} : index
      scf.for %i = %zero to %size step %step {{
        {load}
        %w = arith.{op} %v : {types}
        {store}
      }}
      return
    }}"""
    return text.replace("IN", f"memref<{size}x{source}>").replace("OUT", f"memref<{size}x{result}>")


def assert_same(output: np.ndarray, expected: np.ndarray) -> None:
    """Equal bits; any NaN equals any other."""
    bits = f"u{output.itemsize}"
    same = (output.view(bits) == expected.view(bits)) | (np.isnan(output) & np.isnan(expected))
    assert same.all(), (output[~same][:5], expected[~same][:5])


@TARGETS
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("result", ["f32", "f64"])
def test_every_half_widens_exactly(result: str, lanes: int, target):
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    dtype = {"f32": np.float32, "f64": np.float64}[result]
    output = np.zeros(65536, dtype)
    run_kernel(conversion("extf", "f16", result, 65536, lanes), "convert", [halves], [output], target=target)
    with np.errstate(invalid="ignore"):
        assert_same(output, halves.astype(dtype))


def close_calls(dtype: type) -> np.ndarray:
    """Every half, the middles between neighbours, what lies just beside those, and values far outside."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(dtype)
    middles = (halves[1:] + halves[:-1]) / 2
    parts = [halves, middles, np.nextafter(middles, dtype(0)), np.nextafter(middles, dtype(1e9))]
    parts.append(np.array([65504, 65519.996, 65520, 65536, 1e30, 1e-30, np.inf, np.nan, 2**-25, 2**-26], dtype))
    positive = np.concatenate(parts)
    both = np.concatenate([positive, -positive])
    return np.resize(both, -(-len(both) // 8) * 8)


@TARGETS
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_narrowing_rounds_once_to_nearest_even(source: str, lanes: int, target):
    values = close_calls({"f32": np.float32, "f64": np.float64}[source])
    output = np.zeros(len(values), np.float16)
    run_kernel(conversion("truncf", source, "f16", len(values), lanes), "convert", [values], [output], target=target)
    with np.errstate(over="ignore"):
        assert_same(output, values.astype(np.float16))
