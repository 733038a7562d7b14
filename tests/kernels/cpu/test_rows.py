"""Row kernels with reductions against NumPy, on all targets of this machine and for all ways to run blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blu.dialects.core.mlir import ir
from blu.passes.cpu.rows import rows
from tests.support.kernels.cpu_kernel import compile_kernel, host_targets
from tests.support.kernels.linalg_text import KernelText
from tests.support.kernels.row_check import emit_text, random, run_everywhere
from tests.support.kernels.row_ops import binary, reduce_rows, unary

SIZES = st.sampled_from([0, 1, 2, 7, 16, 17, 64, 100, 300])
ROWS = st.sampled_from([0, 1, 3, 17])
BEST = host_targets()[:1]
FEW = settings(max_examples=8, deadline=None)


def softmax_text(shape: tuple[int, int], element: str = "f32") -> str:
    kernel = KernelText()
    x = kernel.input(shape, element)
    top = reduce_rows(kernel, x, "arith.maximumf", {"f32": "0xFF800000", "f64": "0xFFF0000000000000"}[element])
    e = unary(kernel, "math.exp", binary(kernel, "arith.subf", x, top, ("d0, d1", "d0"), shape))
    kernel.output(binary(kernel, "arith.divf", e, reduce_rows(kernel, e, "arith.addf", "0.0"), ("d0, d1", "d0"), shape))
    return kernel.text()


def layer_norm_text(shape: tuple[int, int], residual: bool) -> str:
    """Inputs x (and the residual), weight, bias; outputs the sum (with residual) and the normalised rows."""
    kernel = KernelText()
    both = ("d0, d1", "d0")
    x = kernel.input(shape)
    other = kernel.input(shape) if residual else None
    weight, bias = kernel.input(shape[1:]), kernel.input(shape[1:])
    if other:
        x = binary(kernel, "arith.addf", x, other, ("d0, d1", "d0, d1"), shape)
        kernel.output(x)
    divide = f"%n = arith.constant {float(shape[1])} : f32\n%z = arith.divf %a0, %n : f32\nlinalg.yield %z : f32"
    mean = kernel.pointwise([reduce_rows(kernel, x, "arith.addf", "0.0")], ["d0"], shape[:1], divide)
    centred = binary(kernel, "arith.subf", x, mean, both, shape)
    squares = binary(kernel, "arith.mulf", centred, centred, ("d0, d1", "d0, d1"), shape)
    variance = kernel.pointwise([reduce_rows(kernel, squares, "arith.addf", "0.0")], ["d0"], shape[:1], divide)
    body = """
      %e = arith.constant 1.0e-5 : f32
      %z = arith.addf %a0, %e : f32
      %y = math.rsqrt %z : f32
      linalg.yield %y : f32"""
    inverse = kernel.pointwise([variance], ["d0"], shape[:1], body)
    scaled = binary(
        kernel,
        "arith.mulf",
        binary(kernel, "arith.mulf", centred, inverse, both, shape),
        weight,
        ("d0, d1", "d1"),
        shape,
    )
    kernel.output(binary(kernel, "arith.addf", scaled, bias, ("d0, d1", "d1"), shape))
    return kernel.text()


def softmax_reference(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@FEW
@given(ROWS, SIZES)
def test_softmax_of_any_shape(rows_: int, columns: int):
    x = random((rows_, columns))
    (y,) = run_everywhere(softmax_text(x.shape), [x], [np.empty_like(x)], BEST)
    if x.size:
        np.testing.assert_allclose(y, softmax_reference(x), rtol=2e-6)


@pytest.mark.parametrize(("shape", "element"), [((40, 1000), "f32"), ((5, 83), "f64")])
def test_softmax_has_the_same_bits_everywhere(shape: tuple[int, int], element: str):
    x = random(shape, element)
    (y,) = run_everywhere(softmax_text(x.shape, element), [x], [np.empty_like(x)])
    np.testing.assert_allclose(y, softmax_reference(x), rtol=2e-6 if element == "f32" else 1e-13)


@pytest.mark.parametrize("columns", [300, 40_000])
def test_rows_longer_than_the_scratch_are_computed_again(columns: int):
    """The result is f64, so exp(x - max) cannot be kept in its memory until the sum is known."""
    shape = (2, columns)
    kernel = KernelText()
    x = kernel.input(shape)
    top = reduce_rows(kernel, x, "arith.maximumf", "0xFF800000")
    e = unary(kernel, "math.exp", binary(kernel, "arith.subf", x, top, ("d0, d1", "d0"), shape))
    total = reduce_rows(kernel, e, "arith.addf", "0.0")
    body = "%z = arith.divf %a0, %a1 : f32\n%y = arith.extf %z : f32 to f64\nlinalg.yield %y : f64"
    kernel.output(kernel.pointwise([e, total], ["d0, d1", "d0"], shape, body, "f64"))
    values = random(shape)
    (y,) = run_everywhere(kernel.text(), [values], [np.empty(shape)], BEST)
    np.testing.assert_allclose(y, softmax_reference(values), rtol=1e-5)
    assert ("memref.alloca" in str(emit_text(kernel.text(), BEST[0]))) == (columns == 300)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("shape", [(3, 768), (200, 100), (1, 7)])
def test_layer_norm(shape: tuple[int, int], residual: bool):
    x, other, weight, bias = random(shape), random(shape, seed=1), random(shape[1:], seed=2), random(shape[1:], seed=3)
    inputs = [x, other, weight, bias] if residual else [x, weight, bias]
    outputs = run_everywhere(layer_norm_text(shape, residual), inputs, [np.empty_like(x)] * (1 + residual))
    total = x + other if residual else x
    wide = total.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * weight + bias
    np.testing.assert_allclose(outputs[-1], expected, atol=3e-6, rtol=1e-5)
    if residual:
        np.testing.assert_array_equal(outputs[0], total)


def test_cross_entropy_gathers_the_target():
    """loss[r] = log(sum(exp(x[r]))) - x[r, target[r]]: a reduction and a gather of one element per row."""
    shape = (6, 130)
    kernel = KernelText()
    x, target = kernel.input(shape), kernel.input(shape[:1], "i64")
    total = unary(kernel, "math.log", reduce_rows(kernel, unary(kernel, "math.exp", x), "arith.addf", "0.0"))
    body = f"""
      %row = linalg.index 0 : index
      %column = arith.index_cast %a1 : i64 to index
      %picked = tensor.extract {x.name}[%row, %column] : {x.type}
      %z = arith.subf %a0, %picked : f32
      linalg.yield %z : f32"""
    kernel.output(kernel.pointwise([total, target], ["d0", "d0"], shape[:1], body))
    values, targets = random(shape), np.array([0, 129, 5, 64, 63, 16])
    (loss,) = run_everywhere(kernel.text(), [values, targets], [np.empty(6, np.float32)])
    wide = values.astype(np.float64)
    np.testing.assert_allclose(loss, np.log(np.exp(wide).sum(1)) - wide[np.arange(6), targets], rtol=1e-5)


def plus(number: float):
    """np.sum that starts from `number`."""
    return lambda x, axis: np.sum(x, axis) + number


REDUCTIONS = [
    ("arith.addf", "0.0", "f32", np.sum),
    ("arith.addf", "0.0", "f64", np.sum),
    ("arith.addf", "2.5", "f32", plus(2.5)),
    ("arith.mulf", "1.0", "f32", np.prod),
    ("arith.maximumf", "0xFF800000", "f32", np.max),
    ("arith.minimumf", "0x7F800000", "f32", np.min),
    ("arith.addi", "0", "i64", np.sum),
    ("arith.addi", "7", "i32", plus(7)),
    ("arith.muli", "1", "i64", np.prod),
    ("arith.maxsi", "-128", "i8", np.max),
    ("arith.minsi", "32767", "i16", np.min),
    ("arith.andi", "true", "i1", np.all),
    ("arith.ori", "false", "i1", np.any),
    ("arith.xori", "false", "i1", np.logical_xor.reduce),
]


@pytest.mark.parametrize(("combiner", "start", "element", "reference"), REDUCTIONS)
@pytest.mark.parametrize("columns", [1, 50, 150])
def test_reductions_across(combiner: str, start: str, element: str, reference, columns: int):
    x = random((5, columns), element)
    kernel = KernelText()
    kernel.output(reduce_rows(kernel, kernel.input(x.shape, element), combiner, start))
    (y,) = run_everywhere(kernel.text(), [x], [np.empty(5, x.dtype)], host_targets() if columns == 50 else BEST)
    tolerance = 1e-5 if element == "f32" else 1e-13
    expected = reference(x, axis=1)
    np.testing.assert_allclose(y.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("combiner", ["arith.maximumf", "arith.minimumf"])
def test_extrema_propagate_nan(combiner: str):
    x = random((40, 70))
    x[3, 69] = x[4, 0] = x[5, 33] = np.nan
    kernel = KernelText()
    kernel.output(
        reduce_rows(kernel, kernel.input(x.shape), combiner, "0xFF800000" if "max" in combiner else "0x7F800000")
    )
    (y,) = run_everywhere(kernel.text(), [x], [np.empty(40, np.float32)], BEST)
    np.testing.assert_array_equal(y, x.max(1) if "max" in combiner else x.min(1))


def arg_text(shape: tuple[int, int], axis: int, order: str) -> str:
    """argmax or argmin of f32 over one axis, as two results; the first NaN wins."""
    kernel = KernelText()
    x = kernel.input(shape)
    kept = (shape[1 - axis],)
    starts = [kernel.fill(kept, "0xFF800000" if order == "ogt" else "0x7F800000"), kernel.fill(kept, "0", "i64")]
    kernel.lines.append("%all = arith.constant true")
    body = f"""
      %i = linalg.index {axis} : index
      %j = arith.index_cast %i : index to i64
      %better = arith.cmpf {order}, %a0, %o0 : f32
      %nan = arith.cmpf une, %a0, %a0 : f32
      %known = arith.cmpf oeq, %o0, %o0 : f32
      %both = arith.andi %nan, %known : i1
      %first = arith.andi %both, %all : i1
      %take = arith.ori %better, %first : i1
      %v = arith.select %take, %a0, %o0 : f32
      %k = arith.select %take, %j, %o1 : i64
      linalg.yield %v, %k : f32, i64"""
    maps = ["d0, d1", f"d{1 - axis}", f"d{1 - axis}"]
    for result in kernel.generic("pr" if axis else "rp", maps, [x], starts, body):
        kernel.output(result)
    return kernel.text()


@FEW
@given(st.sampled_from([1, 7, 33, 200]), st.integers(0, 1), st.sampled_from(["ogt", "olt"]), st.integers(0, 9))
def test_argmax_and_argmin(columns: int, axis: int, order: str, seed: int):
    """Few different values, so that the first of several equal ones has to be found; some rows with NaN."""
    x = np.random.default_rng(seed).integers(0, 4, (9, columns)).astype(np.float32)
    x[2, columns // 2 :] = np.nan
    x[3] = -np.inf
    best, place = run_everywhere(
        arg_text(x.shape, axis, order), [x], [np.empty(x.shape[1 - axis], t) for t in (np.float32, np.int64)], BEST
    )
    reference = np.argmax if order == "ogt" else np.argmin
    np.testing.assert_array_equal(place, reference(x, axis))
    np.testing.assert_array_equal(
        best, np.take_along_axis(x, np.expand_dims(reference(x, axis), axis), axis).squeeze(axis)
    )


@FEW
@given(ROWS, SIZES)
def test_sum_over_rows_gives_columns(rows_: int, columns: int):
    kernel = KernelText()
    x = kernel.input((rows_, columns))
    body = "%y = arith.mulf %a0, %a0 : f32\n%z = arith.addf %o0, %y : f32\nlinalg.yield %z : f32"
    kernel.output(kernel.generic("rp", ["d0, d1", "d1"], [x], [kernel.fill((columns,), "0.0")], body)[0])
    values = random((rows_, columns))
    (y,) = run_everywhere(kernel.text(), [values], [np.empty(columns, np.float32)], BEST)
    np.testing.assert_allclose(y, (values * values).sum(0), rtol=1e-5)


def test_wide_columns_are_split_into_blocks_of_equal_bits():
    kernel = KernelText()
    x = kernel.input((300, 3000))
    body = "%z = arith.addf %o0, %a0 : f32\nlinalg.yield %z : f32"
    kernel.output(kernel.generic("rp", ["d0, d1", "d1"], [x], [kernel.fill((3000,), "0.0")], body)[0])
    values = random((300, 3000))
    module = emit_text(kernel.text(), host_targets()[0])
    assert module.body.operations[0].attributes["blu.blocks"].value > 1
    (y,) = run_everywhere(kernel.text(), [values], [np.empty(3000, np.float32)])
    np.testing.assert_allclose(y, values.sum(0), atol=1e-4)


def test_reduction_over_outer_and_inner_dimensions():
    """Batch statistics: x[n, c, s] summed over n and s."""
    kernel = KernelText()
    x = kernel.input((4, 3, 50))
    body = "%z = arith.addf %o0, %a0 : f32\nlinalg.yield %z : f32"
    total = kernel.generic("rpr", ["d0, d1, d2", "d1"], [x], [kernel.fill((3,), "0.0")], body)[0]
    kernel.output(binary(kernel, "arith.subf", x, total, ("d0, d1, d2", "d1"), (4, 3, 50)))
    kernel.output(total)
    values = random((4, 3, 50))
    y, sums = run_everywhere(kernel.text(), [values], [np.empty_like(values), np.empty(3, np.float32)])
    np.testing.assert_allclose(sums, values.sum((0, 2)), atol=1e-4)
    np.testing.assert_array_equal(y, values - sums[:, None])


def test_reduction_of_everything():
    kernel = KernelText()
    x = kernel.input((70, 1000))
    body = "%z = arith.addf %o0, %a0 : f32\nlinalg.yield %z : f32"
    kernel.output(kernel.generic("rr", ["d0, d1", ""], [x], [kernel.fill((), "0.0")], body)[0])
    values = random((70, 1000))
    (y,) = run_everywhere(kernel.text(), [values], [np.empty((), np.float32)])
    np.testing.assert_allclose(y, values.astype(np.float64).sum(), rtol=1e-4)


def test_softmax_over_the_outer_dimension():
    """Lanes run along the kept dimension; the sum's input is computed again instead of kept."""
    shape = (40, 100)
    kernel = KernelText()
    x = kernel.input(shape)
    body = "%e = math.exp %a0 : f32\n%z = arith.addf %o0, %e : f32\nlinalg.yield %z : f32"
    total = kernel.generic("rp", ["d0, d1", "d1"], [x], [kernel.fill(shape[1:], "0.0")], body)[0]
    kernel.output(binary(kernel, "arith.divf", unary(kernel, "math.exp", x), total, ("d0, d1", "d1"), shape))
    values = random(shape)
    (y,) = run_everywhere(kernel.text(), [values], [np.empty_like(values)])
    e = np.exp(values.astype(np.float64))
    np.testing.assert_allclose(y, e / e.sum(0), rtol=1e-5)


def test_every_emitted_op_has_a_location():
    module = emit_text(layer_norm_text((30, 100), True), host_targets()[0])
    places: list[str] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        places.append(str(operation.location))
        return ir.WalkResult.ADVANCE

    module.body.operations[0].walk(visit)
    assert "loc(unknown)" not in places
    assert any("model.py" in place for place in places)


def analyse_text(text: str) -> object:
    context = ir.Context()
    context.enable_multithreading(False)
    with context:
        module = ir.Module.parse(text)
        kernel = module.body.operations[0]
        names = ("linalg.generic", "linalg.fill", "linalg.contract", "tensor.empty")
        operations = [op for op in kernel.entry_block.operations if op.operation.name in names]
        analysis = rows.analyse(operations)
        assert rows.accepts(operations) == bool(analysis)
        return getattr(analysis, "reason", "")


def test_groups_that_are_refused():
    kernel = KernelText()
    x = kernel.input((8, 9))
    body = "%z = arith.addf %o0, %a0 : f32\nlinalg.yield %z : f32"
    kernel.output(kernel.generic("pr", ["d0, d1", "d0"], [x], [kernel.fill((8,), "0.0")], body)[0])
    kernel.output(kernel.generic("rp", ["d0, d1", "d1"], [x], [kernel.fill((9,), "0.0")], body)[0])
    assert "reduces other dimensions" in analyse_text(kernel.text())

    kernel = KernelText()
    y = unary(kernel, "math.exp", kernel.input((8, 8)))
    kernel.output(binary(kernel, "arith.addf", y, y, ("d0, d1", "d1, d0"), (8, 8)))
    assert "two loops" in analyse_text(kernel.text())

    kernel = KernelText()
    w = unary(kernel, "math.exp", kernel.input((9,)))
    kernel.output(w)
    kernel.output(binary(kernel, "arith.addf", kernel.input((8, 9)), w, ("d0, d1", "d1"), (8, 9)))
    assert "not all dimensions" in analyse_text(kernel.text())
    assert analyse_text(layer_norm_text((8, 9), True)) == ""


def test_an_output_in_the_memory_of_an_input_is_written_last():
    """first = x + 1 in x's place, second = x - sum(x): the second walk still has to read x."""
    shape = (3, 90)
    kernel = KernelText()
    x = kernel.input(shape)
    body = "%one = arith.constant 1.0 : f32\n%z = arith.addf %a0, %one : f32\nlinalg.yield %z : f32"
    first = kernel.pointwise([x], ["d0, d1"], shape, body)
    second = binary(kernel, "arith.subf", x, reduce_rows(kernel, x, "arith.addf", "0.0"), ("d0, d1", "d0"), shape)
    kernel.output(first)
    kernel.output(second)
    text = kernel.text().replace(", %arg1: memref<3x90xf32>", "").replace("writable %arg1", "writable %arg0")
    values = random(shape)
    memory, other = values.copy(), np.empty_like(values)
    compile_kernel(emit_text(text, BEST[0]), "kernel", BEST[0]).bind(memory, other)()
    np.testing.assert_array_equal(memory, values + 1)
    np.testing.assert_allclose(other, values - values.sum(1, keepdims=True), rtol=1e-4, atol=1e-4)


def test_what_is_refused_becomes_scalar_loops():
    """A reduction of rows beside one of columns."""
    kernel = KernelText()
    x = kernel.input((8, 9))
    body = "%z = arith.addf %o0, %a0 : f32\nlinalg.yield %z : f32"
    kernel.output(kernel.generic("pr", ["d0, d1", "d0"], [x], [kernel.fill((8,), "0.0")], body)[0])
    kernel.output(kernel.generic("rp", ["d0, d1", "d1"], [x], [kernel.fill((9,), "0.0")], body)[0])
    values = random((8, 9))
    over_columns, over_rows = run_everywhere(
        kernel.text(), [values], [np.empty(8, np.float32), np.empty(9, np.float32)]
    )
    np.testing.assert_allclose(over_columns, values.sum(1), atol=1e-5)
    np.testing.assert_allclose(over_rows, values.sum(0), atol=1e-5)
