"""The scalar fallback: any linalg and view ops in one kernel, against NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blu.dialects.core.mlir import func
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.others import loops
from blu.passes.cpu.rows.choice import choose_loops
from tests.support.kernels.cpu_kernel import host_targets
from tests.support.kernels.linalg_text import KernelText, Tensor
from tests.support.kernels.row_check import DTYPES, emit_text, random, run_everywhere
from tests.support.kernels.row_ops import binary, reduce_rows, unary

BEST = host_targets()[:1]


def emit_loops(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Emit as loops what may have other kinds of kernels."""
    loops.emit(kernel, choose_loops(kernel).blocks)


def run(kernel: KernelText, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> list[np.ndarray]:
    return run_everywhere(kernel.text(), inputs, outputs, BEST, emit_loops)


def view(kernel: KernelText, text: str, shape: tuple[int, ...], element: str = "f32") -> Tensor:
    """An op given as text, in which RESULT stands for its result type."""
    value = Tensor(kernel._name(), shape, element)
    kernel.lines.append(f"{value.name} = {text.replace('RESULT', value.type)}")
    return value


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([0, 1, 3, 20]), st.sampled_from([0, 1, 7, 33]))
def test_a_whole_softmax_is_computed_on_demand(rows: int, columns: int):
    kernel = KernelText()
    shape = (rows, columns)
    x = kernel.input(shape, "f64")
    top = reduce_rows(kernel, x, "arith.maximumf", "0xFFF0000000000000")
    e = unary(kernel, "math.exp", binary(kernel, "arith.subf", x, top, ("d0, d1", "d0"), shape))
    total = reduce_rows(kernel, e, "arith.addf", "0.0")
    kernel.output(binary(kernel, "arith.divf", e, total, ("d0, d1", "d0"), shape))
    values = random(shape, "f64")
    (y,) = run(kernel, [values], [np.empty_like(values)])
    e = np.exp(values - values.max(1, keepdims=True, initial=-np.inf))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "i1"])
def test_copies_of_all_element_types_between_layouts(element: str):
    """out.T = in, from a strided input into a strided output with an offset."""
    kernel = KernelText()
    x = kernel.input((5, 6), element, [8, 1], 3)
    kernel.output(kernel.pointwise([x], ["d1, d0"], (6, 5), f"linalg.yield %a0 : {element}", element), [7, 1], 2)
    source, target = random((50,), element), np.zeros(60, DTYPES[element])
    (result,) = run(kernel, [source], [target])
    size = source.itemsize
    strided = np.lib.stride_tricks.as_strided
    strided(target[2:], (6, 5), [7 * size, size])[...] = strided(source[3:], (5, 6), [8 * size, size]).T
    assert result.tobytes() == target.tobytes()


def test_bool_is_one_byte():
    kernel = KernelText()
    x, y = kernel.input((9,), "i1"), kernel.input((9,), "i1")
    kernel.output(binary(kernel, "arith.andi", x, y, ("d0", "d0"), (9,)))
    a, b = random((9,), "i1"), random((9,), "i1", seed=1)
    (z,) = run(kernel, [a, b], [np.ones(9, np.bool_)])
    np.testing.assert_array_equal(z.view(np.uint8), (a & b).view(np.uint8))


def test_no_dimensions():
    kernel = KernelText()
    x, y = kernel.input(()), kernel.input(())
    kernel.output(binary(kernel, "arith.addf", x, y, ("", ""), ()))
    (z,) = run(kernel, [np.array(2, np.float32), np.array(3, np.float32)], [np.empty((), np.float32)])
    assert z == 5


def test_matrix_product_with_several_operands_and_any_loop_order():
    """out[j, i] = sum over k, l of a[i, k] * b[l, k, j] * c[l]."""
    kernel = KernelText()
    a, b, c = kernel.input((3, 4)), kernel.input((2, 4, 5)), kernel.input((2,))
    body = """
      %1 = arith.mulf %a0, %a1 : f32
      %2 = arith.mulf %1, %a2 : f32
      %3 = arith.addf %o0, %2 : f32
      linalg.yield %3 : f32"""
    maps = ["d1, d0", "d3, d0, d2", "d3", "d2, d1"]
    kernel.output(kernel.generic("rppr", maps, [a, b, c], [kernel.fill((5, 3), "0.0")], body)[0])
    arrays = [random((3, 4)), random((2, 4, 5), seed=1), random((2,), seed=2)]
    (y,) = run(kernel, arrays, [np.empty((5, 3), np.float32)])
    np.testing.assert_allclose(y, np.einsum("ik,lkj,l->ji", *arrays), rtol=1e-5)


def test_contraction():
    kernel = KernelText()
    a, b, start = kernel.input((3, 4)), kernel.input((4, 5)), kernel.fill((3, 5), "0.0")
    maps = ["(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"]
    spelled = ", ".join(f"affine_map<{item}>" for item in maps)
    text = f"ins({a.name}, {b.name} : {a.type}, {b.type}) outs({start.name} : {start.type}) -> RESULT"
    kernel.output(view(kernel, f"linalg.contract indexing_maps = [{spelled}] {text}", (3, 5)))
    x, y = random((3, 4)), random((4, 5), seed=1)
    (z,) = run(kernel, [x, y], [np.empty((3, 5), np.float32)])
    np.testing.assert_allclose(z, x @ y, rtol=1e-5)


def test_argmax_has_two_outputs_from_one_loop():
    kernel = KernelText()
    x = kernel.input((6, 20))
    body = """
      %i = linalg.index 1 : index
      %j = arith.index_cast %i : index to i64
      %take = arith.cmpf ogt, %a0, %o0 : f32
      %v = arith.select %take, %a0, %o0 : f32
      %k = arith.select %take, %j, %o1 : i64
      linalg.yield %v, %k : f32, i64"""
    starts = [kernel.fill((6,), "0xFF800000"), kernel.fill((6,), "0", "i64")]
    for result in kernel.generic("pr", ["d0, d1", "d0", "d0"], [x], starts, body):
        kernel.output(result)
    module = emit_text(kernel.text(), BEST[0], emit_loops)
    assert str(module).count("scf.for") == 3, "blocks, elements, reduction"
    values = random((6, 20))
    best, place = run(kernel, [values], [np.empty(6, np.float32), np.empty(6, np.int64)])
    np.testing.assert_array_equal(best, values.max(1))
    np.testing.assert_array_equal(place, values.argmax(1))


def test_gather_from_a_value_of_the_kernel():
    kernel = KernelText()
    table, index = unary(kernel, "math.exp", kernel.input((7, 4), "f64")), kernel.input((5,), "i64")
    body = f"""
      %i = arith.index_cast %a0 : i64 to index
      %j = linalg.index 1 : index
      %z = tensor.extract {table.name}[%i, %j] : {table.type}
      linalg.yield %z : f64"""
    kernel.output(kernel.pointwise([index], ["d0"], (5, 4), body, "f64"))
    values, indices = random((7, 4), "f64"), np.array([6, 0, 3, 3, 1])
    (y,) = run(kernel, [values, indices], [np.empty((5, 4))])
    np.testing.assert_allclose(y, np.exp(values)[indices], rtol=1e-14)


def test_views():
    """A slice of a transposed, reshaped input, written into the middle of another tensor."""
    kernel = KernelText()
    x, into = kernel.input((4, 6)), kernel.input((3, 10))
    start = kernel.empty((6, 4), "f32")
    turned = view(
        kernel,
        f"linalg.transpose ins({x.name} : {x.type}) outs({start.name} : {start.type}) permutation = [1, 0]",
        (6, 4),
    )
    kernel.lines[-1] = kernel.lines[-1].replace(" RESULT", "")
    split = view(
        kernel,
        f"tensor.expand_shape {turned.name} [[0, 1], [2]] output_shape [3, 2, 4] : {turned.type} into RESULT",
        (3, 2, 4),
    )
    flat = view(kernel, f"tensor.collapse_shape {split.name} [[0], [1, 2]] : {split.type} into RESULT", (3, 8))
    part = view(kernel, f"tensor.extract_slice {flat.name}[1, 1] [1, 3] [1, 2] : {flat.type} to RESULT", (3,))
    placed = view(
        kernel,
        f"tensor.insert_slice {part.name} into {into.name}[2, 4] [1, 3] [1, 2] : {part.type} into RESULT",
        (3, 10),
    )
    kernel.output(placed)
    values, target = random((4, 6)), random((3, 10), seed=1)
    (y,) = run(kernel, [values, target], [np.empty((3, 10), np.float32)])
    expected = target.copy()
    expected[2, 4:9:2] = values.T.reshape(3, 8)[1, 1:7:2]
    np.testing.assert_array_equal(y, expected)


def test_work_is_split_into_blocks():
    kernel = KernelText()
    x = kernel.input((300, 400))
    kernel.output(unary(kernel, "arith.negf", x))
    module = emit_text(kernel.text(), BEST[0], emit_loops)
    assert module.body.operations[0].attributes["blu.blocks"].value > 4
    values = random((300, 400))
    (y,) = run(kernel, [values], [np.empty_like(values)])
    np.testing.assert_array_equal(y, -values)


@pytest.mark.parametrize("shape", [(101, 1009), (1, 1), (1, 40_961), (3, 10_007)])
def test_no_point_is_left_out_where_blocks_do_not_divide_them(shape: tuple[int, int]):
    kernel = KernelText()
    kernel.output(unary(kernel, "math.exp", kernel.input(shape)))
    values = random(shape)
    module = emit_text(kernel.text(), BEST[0], emit_loops)
    blocks = int(re.search(r"blu.blocks = (\d+)", str(module))[1])
    assert blocks > 1 and values.size % blocks if values.size > 1 else blocks == 1
    (y,) = run(kernel, [values], [np.full(shape, np.nan, np.float32)])
    np.testing.assert_allclose(y, np.exp(values), rtol=1e-6)
