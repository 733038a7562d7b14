"""Pointwise row kernels: shapes, strides, element types and gathers, against NumPy on all targets of this machine."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.kernels.cpu_kernel import host_targets
from tests.support.kernels.linalg_text import KernelText
from tests.support.kernels.row_check import DTYPES, emit_text, random, run_everywhere
from tests.support.kernels.row_ops import binary

SIZES = st.sampled_from([0, 1, 2, 7, 16, 17, 64, 100, 300])
ROWS = st.sampled_from([0, 1, 3, 17])
BEST = host_targets()[:1]
FEW = settings(max_examples=8, deadline=None)


GELU = """
  %c0 = arith.constant 0.044715 : f32
  %c1 = arith.constant 0.7978845608 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %x = arith.addf %a0, %a1 : f32
  %1 = arith.mulf %x, %x : f32
  %2 = arith.mulf %1, %x : f32
  %3 = arith.mulf %2, %c0 : f32
  %4 = arith.addf %x, %3 : f32
  %5 = arith.mulf %4, %c1 : f32
  %6 = math.tanh %5 : f32
  %7 = arith.addf %6, %one : f32
  %8 = arith.mulf %x, %7 : f32
  %9 = arith.mulf %8, %half : f32
  linalg.yield %9 : f32"""


@pytest.mark.parametrize("shape", [(128, 768), (3, 7), (1, 1), (2, 1000), (0, 4)])
def test_bias_gelu(shape: tuple[int, int]):
    kernel = KernelText()
    kernel.output(kernel.pointwise([kernel.input(shape), kernel.input(shape[1:])], ["d0, d1", "d1"], shape, GELU))
    x, bias = random(shape), random(shape[1:], seed=1)
    (y,) = run_everywhere(kernel.text(), [x, bias], [np.empty_like(x)])
    v = (x + bias).astype(np.float64)
    np.testing.assert_allclose(y, 0.5 * v * (1 + np.tanh(0.7978845608 * (v + 0.044715 * v**3))), atol=2e-6)


@FEW
@given(st.lists(st.sampled_from([0, 1, 2, 3, 7, 17, 40]), min_size=0, max_size=4), st.data())
def test_pointwise_of_any_rank_with_permuted_and_broadcast_operands(shape: list[int], data):
    """out = x.transpose(order) - y[kept dimensions], into an output with a gap after every row."""
    order = data.draw(st.permutations(range(len(shape))))
    kept = [dim for dim in range(len(shape)) if data.draw(st.booleans())]
    kernel = KernelText()
    x = kernel.input([shape[dim] for dim in order])
    y = kernel.input([shape[dim] for dim in kept])
    maps = (", ".join(f"d{dim}" for dim in order), ", ".join(f"d{dim}" for dim in kept))
    strides = list(np.cumprod([1, *[max(size, 1) + 3 for size in reversed(shape)]])[:-1][::-1])
    kernel.output(binary(kernel, "arith.subf", x, y, maps, tuple(shape)), strides, 5)
    a, b = random(x.shape), random(y.shape, seed=1)
    storage = np.full(
        5 + sum((max(size, 1) - 1) * step for size, step in zip(shape, strides, strict=True)) + 20, 99, np.float32
    )
    (result,) = run_everywhere(kernel.text(), [a, b], [storage], BEST)
    view = np.lib.stride_tricks.as_strided(storage[5:], shape, [4 * step for step in strides])
    view[...] = np.transpose(a, np.argsort(order)) - b.reshape(
        [shape[dim] if dim in kept else 1 for dim in range(len(shape))]
    )
    np.testing.assert_array_equal(result, storage)


@pytest.mark.parametrize(("source", "target", "body"), [
    ("f16", "f16", "%x = arith.extf %a0 : f16 to f32\n%y = arith.addf %x, %x : f32\n%z = arith.truncf %y : f32 to f16"),
    ("bf16", "bf16", "%x = arith.extf %a0 : bf16 to f32\n%y = arith.addf %x, %x : f32\n"
     "%z = arith.truncf %y : f32 to bf16"),
    ("f64", "f64", "%z = arith.addf %a0, %a0 : f64"),
    ("i8", "i8", "%z = arith.addi %a0, %a0 : i8"),
    ("i16", "i16", "%z = arith.addi %a0, %a0 : i16"),
    ("i64", "i64", "%z = arith.addi %a0, %a0 : i64"),
    ("i32", "i1", "%c = arith.constant 3 : i32\n%z = arith.cmpi sgt, %a0, %c : i32"),
    ("i1", "i1", "%c = arith.constant true\n%z = arith.xori %a0, %c : i1"),
    ("i1", "f32", "%z = arith.uitofp %a0 : i1 to f32"),
    ("i8", "i64", "%z = arith.extui %a0 : i8 to i64"),
])  # fmt: skip
def test_element_types(source: str, target: str, body: str):
    shape = (5, 77)
    kernel = KernelText()
    kernel.output(
        kernel.pointwise(
            [kernel.input(shape, source)], ["d0, d1"], shape, f"{body}\nlinalg.yield %z : {target}", target
        )
    )
    x = random(shape, source)
    targets = [target_ for target_ in host_targets() if source != "f16" or "v2" not in target_.name]
    (y,) = run_everywhere(kernel.text(), [x], [np.empty(shape, DTYPES[target])], targets)
    expected = {"i1": ~x if source == "i1" else x > 3, "f32": x.astype(np.float32)}.get(
        target, x + x if source == target else x.view(np.uint8)
    )
    np.testing.assert_array_equal(y, expected.astype(y.dtype))


def test_integer_division_never_sees_padding():
    shape = (3, 21)
    kernel = KernelText()
    kernel.output(
        binary(kernel, "arith.divsi", kernel.input(shape, "i32"), kernel.input(shape, "i32"), ("d0, d1",) * 2, shape)
    )
    x, y = random(shape, "i32"), np.full(shape, 3, np.int32)
    (z,) = run_everywhere(kernel.text(), [x, y], [np.empty(shape, np.int32)])
    np.testing.assert_array_equal(z, np.trunc(x / y).astype(np.int32))


@pytest.mark.parametrize("columns", [1, 40, 768])
def test_embedding_loads_contiguous_rows(columns: int):
    """out[r, c] = table[index[r], c] with negative indices counted from the end, as explicit ops of the body."""
    kernel = KernelText()
    table, index = kernel.input((11, columns)), kernel.input((6,), "i64")
    body = f"""
      %n = arith.constant 11 : i64
      %zero = arith.constant 0 : i64
      %negative = arith.cmpi slt, %a0, %zero : i64
      %wrapped = arith.addi %a0, %n : i64
      %row = arith.select %negative, %wrapped, %a0 : i64
      %i = arith.index_cast %row : i64 to index
      %j = linalg.index 1 : index
      %z = tensor.extract {table.name}[%i, %j] : {table.type}
      linalg.yield %z : f32"""
    kernel.output(kernel.pointwise([index], ["d0"], (6, columns), body))
    values, indices = random((11, columns)), np.array([0, -1, 5, 10, -11, 3])
    (y,) = run_everywhere(kernel.text(), [values, indices], [np.empty((6, columns), np.float32)])
    np.testing.assert_array_equal(y, values[indices])
    if columns > 16:
        assert "vector.from_elements" not in str(emit_text(kernel.text(), host_targets()[0]))


def test_gather_along_lanes_and_loop_indices():
    """out[r, c] = table[index[r, c]] + 100 * r + c."""
    kernel = KernelText()
    table, index = kernel.input((50,), "i64"), kernel.input((3, 37), "i32")
    body = f"""
      %i = arith.index_cast %a0 : i32 to index
      %x = tensor.extract {table.name}[%i] : {table.type}
      %r = linalg.index 0 : index
      %c = linalg.index 1 : index
      %hundred = arith.constant 100 : index
      %far = arith.muli %r, %hundred : index
      %sum = arith.addi %far, %c : index
      %number = arith.index_cast %sum : index to i64
      %z = arith.addi %x, %number : i64
      linalg.yield %z : i64"""
    kernel.output(kernel.pointwise([index], ["d0, d1"], (3, 37), body, "i64"))
    values = random((50,), "i64")
    indices = np.random.default_rng(0).integers(0, 50, (3, 37)).astype(np.int32)
    (y,) = run_everywhere(kernel.text(), [values, indices], [np.empty((3, 37), np.int64)])
    np.testing.assert_array_equal(y, values[indices] + 100 * np.arange(3)[:, None] + np.arange(37))


def test_scalar_operands_and_two_results():
    kernel = KernelText()
    x, rate = kernel.input((9, 33)), kernel.input(())
    body = "%y = arith.mulf %a0, %a1 : f32\n%z = arith.subf %a0, %y : f32\nlinalg.yield %y, %z : f32, f32"
    empty = [kernel.empty((9, 33), "f32") for _ in range(2)]
    for result in kernel.generic("pp", ["d0, d1", "", "d0, d1", "d0, d1"], [x, rate], empty, body):
        kernel.output(result)
    values, scale = random((9, 33)), np.array(0.25, np.float32)
    y, z = run_everywhere(kernel.text(), [values, scale], [np.empty_like(values)] * 2)
    np.testing.assert_array_equal(y, values * scale)
    np.testing.assert_array_equal(z, values - values * scale)


@pytest.mark.parametrize(("number", "element"), [("2.5", "f32"), ("-3", "i64"), ("true", "i1")])
def test_a_fill_can_be_a_result(number: str, element: str):
    kernel = KernelText()
    kernel.output(kernel.fill((5, 7), number, element), [9, 1], 2)
    storage = np.zeros(50, DTYPES[element])
    (result,) = run_everywhere(kernel.text(), [], [storage])
    np.lib.stride_tricks.as_strided(storage[2:], (5, 7), [9 * storage.itemsize, storage.itemsize])[...] = eval(
        number.title()
    )
    np.testing.assert_array_equal(result, storage)


def test_an_empty_tensor_can_be_read():
    """Of shape [0, 2] it has no elements; its producer was folded away."""
    kernel = KernelText()
    nothing = kernel.empty((0, 2), "i64")
    body = "%z = arith.trunci %a0 : i64 to i8\nlinalg.yield %z : i8"
    kernel.output(kernel.pointwise([nothing], ["d0, d1"], (0, 2), body, "i8"))
    run_everywhere(kernel.text(), [], [np.empty((0, 2), np.int8)], BEST)
