"""Column sums on GPUs: cut into ranges of rows, which the kernels that walk over these rows add up themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.dialects.core.mlir import func
from blu.dialects.targets.nvidia import SM_90A
from blu.passes.framework.families import SCHEDULE
from blu.passes.gpu.rows import rows as row_kernels
from blu.passes.gpu.rows.schedule import ColumnsSchedule
from tests.kernels.gpu.test_rows import LOADS, TARGETS, WIDE_LOADS, array, count, shape_only
from tests.support.kernels.gpu_products import emit
from tests.support.kernels.gpu_program import DTYPES, compile_program
from tests.support.kernels.linalg_text import KernelText

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas on this machine")


def layer_norm_gradient(x, w, g, r):
    """The gradient of a layer norm added to another one, in two types; those of its parameters and of a bias before."""
    b = blu.zeros(w.shape)
    _, pull = blu.vjp(lambda x, w, b: blu.layer_norm(x, w, b), x, w, b)
    dx, dw, db = pull(g)
    total = dx + r
    return total, total.astype("bf16"), dw, db, blu.sum(total, axis=0)


def layer_norm_gradient_reference(x, w, g, r):
    x, w, g, r = (item.astype(np.float64) for item in (x, w, g, r))
    inverse = 1 / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    y = (x - x.mean(1, keepdims=True)) * inverse
    dy = g * w
    total = inverse * (dy - dy.mean(1, keepdims=True) - y * (dy * y).mean(1, keepdims=True)) + r
    return total, total, (g * y).sum(0), g.sum(0), total.sum(0)


def sizes(rows: int, columns: int) -> tuple[np.ndarray, ...]:
    """The arguments of `layer_norm_gradient`, without memory."""
    return shape_only(rows, columns), shape_only(columns), shape_only(rows, columns), shape_only(rows, columns)


@needs_ptxas
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "columns"), [(65536, 768), (16384, 4096), (1000, 1000)])
def test_sums_stay_in_registers(rows: int, columns: int, target: str):
    program = compile_program(layer_norm_gradient, *sizes(rows, columns), target=target)
    assert not program.spills()


def test_a_layer_norm_and_its_sums_are_one_kernel():
    program = compile_program(layer_norm_gradient, *sizes(65536, 768))
    first, *others = program.plan["launches"]
    assert (first["grid"][0], first["threads"]) == (128, 256), "a block for each range of 512 rows"
    assert len(others) == 1, "all sums over ranges are put together in one launch"
    assert count(program, r"cp\.async\.c", "rows") == 2 * 3 * 6, "three inputs are copied, before the loop and in it"
    assert count(program, LOADS, "rows") == count(program, WIDE_LOADS, "rows") == 6, "only the weights are loaded"


def test_an_rms_norm_behind_a_product_leaves_its_gradient_to_one_kernel():
    """Products wrote four wide tensors for it, and its weight's terms were one of them."""

    @blu.autocast("bf16")
    def gradient(x, w, v, g, r):
        _, pull = blu.vjp(lambda x, w: blu.matmul(blu.rms_norm(x, w), v), x, w)
        dx, dw = pull(g)
        return dx + r, dw

    shapes = [(16384, 768), (768,), (768, 2048), (16384, 2048), (16384, 768)]
    launches = compile_program(gradient, *(shape_only(*shape) for shape in shapes)).plan["launches"]
    names = [launch["kernel"] for launch in launches if not launch["kernel"].startswith("copy")]
    (product,) = [number for number, name in enumerate(names) if name.startswith("gemm")]
    assert len(names[product + 1 :]) == 2, "the rows, and the sums of their ranges"


def test_rows_that_do_not_fit_are_added_up_alone():
    program = compile_program(layer_norm_gradient, *sizes(1024, 50000))
    assert len([launch for launch in program.plan["launches"] if launch["kernel"].startswith("rows")]) > 1


def test_few_rows_are_added_up_at_once():
    launches = compile_program(lambda x: blu.sum(x, axis=0), shape_only(200, 768)).plan["launches"]
    assert [launch["kernel"] for launch in launches] == ["loops_0"]


def halves(*shape: int) -> np.ndarray:
    return array(*shape, dtype=ml_dtypes.bfloat16)


def products_and_sums(x, y):
    z = x * y + 1.0
    return z, blu.sum(z, axis=0)


def softmax_and_sums(x):
    y = blu.softmax(x, axis=-1)
    return y, blu.sum(y, axis=0), blu.sum(x, axis=0)


def softmax_and_sums_reference(x):
    y = np.exp(x - x.max(1, keepdims=True))
    y /= y.sum(1, keepdims=True)
    return y, y.sum(0), x.sum(0)


X = array(300, 24)
RESULTS: dict[str, tuple[Callable, tuple[np.ndarray, ...], Callable]] = {
    "layer_norm": (
        layer_norm_gradient,
        (array(300, 40), array(40), array(300, 40), array(300, 40)[::-1].copy()),
        layer_norm_gradient_reference,
    ),
    "odd layer_norm": (
        layer_norm_gradient,
        (array(257, 33), array(33), array(257, 33), array(257, 33)[::-1].copy()),
        layer_norm_gradient_reference,
    ),
    "layer_norm of few columns": (
        layer_norm_gradient,
        (array(260, 3), array(3), array(260, 3), array(260, 3)[::-1].copy()),
        layer_norm_gradient_reference,
    ),
    "products": (products_and_sums, (X, X), lambda x, y: (x * y + 1, (x * y + 1).sum(0))),
    "halves": (
        lambda x: blu.sum(x.astype("f32"), axis=0),
        (halves(256, 4),),
        lambda x: (x.astype(np.float64).sum(0),),
    ),
    "softmax": (softmax_and_sums, (X,), softmax_and_sums_reference),
    "softmax of columns": (
        lambda x: softmax_and_sums(blu.transpose(x)),
        (X.T.copy(),),
        lambda x: softmax_and_sums_reference(x.T),
    ),
    "rows and columns": (
        lambda x: (blu.sum(x * x, axis=1), blu.sum(x, axis=0)),
        (X,),
        lambda x: ((x * x).sum(1), x.sum(0)),
    ),
    "scaled rows": (
        lambda x, v: (v * 2.0, x * v[:, None], blu.sum(x * v[:, None], axis=0)),
        (X, array(300)),
        lambda x, v: (v * 2, x * v[:, None], (x * v[:, None]).sum(0)),
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str):
    function, arguments, reference = RESULTS[name]
    found = compile_program(function, *arguments).interpret(*arguments)
    for result, expected in zip(found, reference(*arguments), strict=True):
        tolerance = 1e-2 if result.dtype == ml_dtypes.bfloat16 else 2e-5
        difference = np.abs(result.astype(np.float64) - expected).max()
        assert difference <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize(("shape", "axis"), [((1025, 8), 0), ((2015, 5), 0), ((1, 70001), 1), ((2, 140000), 1)])
def test_what_parts_find_out_about_bools_is_a_byte_in_memory(name: str, shape: tuple[int, int], axis: int):
    """Columns and rows that several blocks walk: one element decides, in the last part."""
    x = np.full(shape, name == "all")
    x[-1, -1] = name == "any"
    program = compile_program(lambda x: getattr(blu, name)(x, axis=axis), x)
    assert len(program.plan["launches"]) == 2
    assert np.array_equal(program.interpret(x)[0], getattr(np, name)(x, axis=axis))


CLUSTERS = {
    "narrow": {"cluster": 8, "threads": 128, "width": 8, "unroll": 2},
    "wide": {"cluster": 2, "threads": 64, "width": 32},
    "alone": {"cluster": 4, "threads": 64, "width": 16, "lanes": 1},
}


@pytest.mark.parametrize(
    ("dtype", "cluster"), [("f32", "narrow"), ("bf16", "wide"), ("i64", "alone"), ("i8", "narrow"), ("bool", "wide")]
)
def test_a_cluster_of_blocks_adds_up_columns(dtype: str, cluster: str):
    """One result, or two (a number and its place), of rows and columns that fill no block, and of more."""
    rng, wish = np.random.default_rng(0), {"loops_0": {"kind": "columns", **CLUSTERS[cluster]}}
    for name in ("any", "all") if dtype == "bool" else ("max", "argmax"):
        find, expected = partial(getattr(blu, name), axis=0), partial(getattr(np, name), axis=0)
        for rows, columns in ((1, 3), (65, 200)):
            x = rng.integers(0, 9, (rows, columns)).astype(DTYPES[dtype])
            program = compile_program(find, x, schedules=wish)
            assert program.plan["launches"][0]["grid"][0] % CLUSTERS[cluster]["cluster"] == 0
            np.testing.assert_array_equal(program.interpret(x)[0], expected(x))


def test_a_cluster_of_blocks_finds_several_things_of_columns():
    """Sums of one word and of two, and the most, each in its place of shared memory: as one loop of linalg may say."""
    text, (length, columns) = KernelText(), (65, 20)
    x = text.input((length, columns))
    starts = [text.fill((columns,), number, type_) for number, type_ in (("0.0", "f32"), ("0", "i64"), ("-9.0", "f32"))]
    body = """
      %s = arith.addf %o0, %a0 : f32
      %i = arith.fptosi %a0 : f32 to i64
      %t = arith.addi %o1, %i : i64
      %m = arith.maximumf %o2, %a0 : f32
      linalg.yield %s, %t, %m : f32, i64, f32"""
    for result in text.generic("rp", ["d0, d1", "d1", "d1", "d1"], [x], starts, body):
        text.output(result)

    def emit_cluster(kernel: func.FuncOp) -> list[func.FuncOp]:
        schedule = ColumnsSchedule(threads=64, lanes=2, width=16, unroll=1, cluster=2)
        kernel.attributes[SCHEDULE] = schedule.to_attribute()
        return row_kernels.emit(kernel, SM_90A)

    (launch,) = emit(text.text(), emit_cluster)
    array = np.random.default_rng(0).integers(-8, 9, (length, columns)).astype(np.float32)
    found = [np.zeros(columns, dtype) for dtype in (np.float32, np.int64, np.float32)]
    launch.run(array, *found)
    for own, right in zip(found, (array.sum(0), array.sum(0), array.max(0)), strict=True):
        np.testing.assert_array_equal(own, right)


def test_where_nobody_walks_over_rows_columns_take_one_launch():
    x = np.random.default_rng(0).integers(-8, 8, (1100, 1001)).astype(np.float32)
    alone = compile_program(lambda x: blu.sum(x, axis=0), x)
    assert len(alone.plan["launches"]) == 1
    assert not alone.spills()
    np.testing.assert_array_equal(alone.interpret(x)[0], x.sum(0))
    beside = compile_program(lambda x: (x - blu.max(x, axis=1, keepdims=True), blu.sum(x, axis=0)), x)
    assert [launch["kernel"] for launch in beside.plan["launches"]] == ["rows_0", "loops_0"], "x is read once"
    assert "cluster" in alone.ptx["loops_0"] and "cluster" not in beside.ptx["loops_0"], "which adds up few rows"
