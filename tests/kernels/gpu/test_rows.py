"""Row and pointwise kernels on GPUs: what ptxas makes of them, and results in an interpreter of PTX."""

from __future__ import annotations

import re
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.passes.kernels.schedules import Fields
from tests.support.kernels.gpu_program import DTYPES, GpuProgram, compile_program

TARGETS = ("sm_80", "sm_89", "sm_90a")
needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas on this machine")


def array(*shape: int, dtype: type = np.float32) -> np.ndarray:
    """Numbers of a normal distribution."""
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32).astype(dtype)


def shape_only(*shape: int, dtype: type = np.float32) -> np.ndarray:
    """A large array that takes no memory, to compile for."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def count(program: GpuProgram, pattern: str, name: str = "") -> int:
    """How often an instruction is in the PTX of kernels whose names begin so."""
    return sum(len(re.findall(pattern, text)) for kernel, text in program.ptx.items() if kernel.startswith(name))


LOADS, WIDE_LOADS, WIDE_STORES = r"ld\.global", r"ld\.global[.\w]*v4", r"st\.global[.\w]*v4"


def cross_entropy(x, t):
    return blu.value_and_grad(lambda x: blu.cross_entropy(x, t))(x)


def layer_norm(x, w, b):
    return blu.layer_norm(x, w, b)


KERNELS: dict[str, tuple[Callable, tuple[np.ndarray, ...]]] = {
    "layer_norm": (layer_norm, (shape_only(16384, 768), shape_only(768), shape_only(768))),
    "wide layer_norm": (layer_norm, (shape_only(16384, 4096), shape_only(4096), shape_only(4096))),
    "gelu": (lambda x: blu.gelu(x, "tanh"), (shape_only(16, 1024, 3072),)),
    "gelu of halves": (lambda x: blu.gelu(x), (shape_only(16, 1024, 3072, dtype=ml_dtypes.bfloat16),)),
    "cross_entropy": (cross_entropy, (shape_only(8192, 50304), shape_only(8192, dtype=np.int32))),
    "odd cross_entropy": (cross_entropy, (shape_only(8192, 50257), shape_only(8192, dtype=np.int32))),
    "cross_entropy of halves": (
        cross_entropy,
        (shape_only(8192, 50304, dtype=ml_dtypes.bfloat16), shape_only(8192, dtype=np.int32)),
    ),
    "column sum": (lambda x: blu.sum(x, axis=0), (shape_only(65536, 768),)),
    "full sum": (lambda x: blu.sum(x), (shape_only(124_000_000),)),
    "long softmax": (lambda x: blu.softmax(x, axis=-1), (shape_only(8, 1_000_000),)),
    "transpose": (lambda x: blu.transpose(x) * 2.0, (shape_only(4096, 2048),)),
    "embedding": (lambda w, t: blu.take(w, t, axis=0), (shape_only(50257, 768), shape_only(4096, dtype=np.int32))),
}


@needs_ptxas
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", KERNELS)
def test_everything_fits_in_registers(name: str, target: str):
    function, arguments = KERNELS[name]
    assert not compile_program(function, *arguments, target=target).spills()


@pytest.mark.parametrize(
    ("name", "loads", "stores"), [("layer_norm", 18, 6), ("wide layer_norm", 12, 4), ("gelu", 2, 2)]
)
def test_each_input_is_read_once_and_widely(name: str, loads: int, stores: int):
    """LayerNorm of 768: 24 elements a thread, three inputs, four elements a load."""
    function, arguments = KERNELS[name]
    program = compile_program(function, *arguments)
    assert count(program, LOADS) == count(program, WIDE_LOADS) == loads
    assert count(program, WIDE_STORES) == stores
    assert count(program, r"\.local") == 0


def test_mixed_types_are_read_in_whole_vectors():
    program = compile_program(
        lambda x, y: x + y, shape_only(4096, 768, dtype=ml_dtypes.bfloat16), shape_only(4096, 768)
    )
    assert (count(program, LOADS), count(program, WIDE_LOADS)) == (3, 3), "one of eight halves, two of four f32"


def test_few_long_rows_are_shared_by_blocks():
    function, arguments = KERNELS["long softmax"]
    launches = compile_program(function, *arguments).plan["launches"]
    assert [launch["kernel"] for launch in launches] == ["rows_0", "rows_0_walk1", "rows_0_walk2"]
    assert all(launch["grid"][0] == 8 * 66 for launch in launches)


def test_long_columns_are_shared_by_blocks():
    """Of clusters on Hopper; elsewhere, or where columns are few, another launch adds up what blocks have found."""
    function, (rows,) = KERNELS["column sum"]
    for argument, target, names in (
        (rows, "sm_90a", ["loops_0"]),
        (rows, "sm_89", ["rows_0", "loops_0"]),
        (shape_only(65536, 64), "sm_90a", ["rows_0", "loops_0"]),
    ):
        launches = compile_program(function, argument, target=target).plan["launches"]
        assert [launch["kernel"] for launch in launches] == names
        assert launches[0]["grid"][0] >= 120


@needs_ptxas
@pytest.mark.parametrize(
    ("width", "gradient", "dtype", "blocks"),
    [(50304, False, "f32", 2), (50304, True, "f32", 4), (128256, False, "f32", 4), (128256, True, "f32", 4),
     (256000, True, "f32", 8), (50304, True, "bf16", 4), (128256, True, "bf16", 4)],
)  # fmt: skip
def test_long_rows_are_shared_by_a_cluster(width: int, gradient: bool, dtype: str, blocks: int):
    """On Hopper: no block reads its part of a row twice."""
    function = cross_entropy if gradient else lambda x, t: blu.cross_entropy(x, t)
    arguments = shape_only(8192, width, dtype=DTYPES[dtype]), shape_only(8192, dtype=np.int32)
    program = compile_program(function, *arguments)
    (name,) = [name for name, text in program.ptx.items() if f".reqnctapercluster {blocks}, 1, 1" in text]
    assert count(program, r"mapa\.shared::cluster", name) >= 1
    assert (count(program, r"cp\.async\.cg", name) > 0, count(program, WIDE_LOADS, name)) == (True, 0)
    assert not program.spills(name)
    assert "cluster" not in "".join(compile_program(function, *arguments, target="sm_89").ptx.values())


@pytest.mark.parametrize(
    ("width", "dtype", "writes", "blocks"), [(1001, "f32", False, 4), (1000, "f32", True, 2), (1000, "bf16", True, 2)]
)
def test_clusters_find_what_one_block_would(width: int, dtype: str, writes: bool, blocks: int):
    """Short rows as if they were long ones."""
    x = array(264, width).astype(DTYPES[dtype])
    x[2, :] = -3.0

    def function(x):
        below = blu.max(x.astype("f32"), axis=1, keepdims=True) - x.astype("f32")
        return blu.sum(below, axis=1), below.astype(dtype) if writes else blu.min(x, axis=1)

    wish: Fields = {"kind": "rows_ahead", "threads": 64, "cluster": blocks, "per_processor": 2}
    program = compile_program(function, x, schedules={"rows_0": wish})
    assert f".reqnctapercluster {blocks}, 1, 1" in program.ptx["rows_0"]
    total, other = program.interpret(x)
    below = (x.max(1, keepdims=True).astype(np.float32) - x.astype(np.float32)).astype(np.float64)
    np.testing.assert_allclose(total, below.sum(1), rtol=1e-5)
    expected = below.astype(DTYPES[dtype]) if writes else x.min(1)
    np.testing.assert_allclose(*(item.astype(np.float64) for item in (other, expected)), rtol=1e-6, atol=1e-6)


@needs_ptxas
@pytest.mark.parametrize(
    ("rows", "width", "dtype", "blocks"),
    [(1, 16384, "f32", 8), (3, 50257, "f32", 8), (2, 51201, "f32", 8), (2, 16386, "f16", 8), (2, 65544, "bf16", 8),
     (2, 16385, "f16", 0), (2, 266241, "f32", 0), (2, 16384, "f64", 0)],
)  # fmt: skip
def test_few_long_rows_are_read_once(rows: int, width: int, dtype: str, blocks: int):
    """On Hopper, by clusters that have them in registers; in slices where they do not fit, or cannot be copied."""
    x = array(rows, width).astype(DTYPES[dtype])
    program = compile_program(lambda x: (blu.softmax(x, axis=-1), blu.max(x, axis=1)), x)
    grids = [launch["grid"][0] for launch in program.plan["launches"]]
    assert (grids == [rows * blocks]) == (blocks > 0) == ("cluster" in "".join(program.ptx.values()))
    assert not program.spills()
    found, largest = (item.astype(np.float64) for item in program.interpret(x))
    powers = np.exp(x.astype(np.float64))
    rtol, atol = (1e-2, 3e-8) if "16" in dtype else (1e-5, 0.0)
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol, atol)
    np.testing.assert_array_equal(largest, x.astype(np.float64).max(1))


def test_transposes_go_through_shared_memory():
    function, arguments = KERNELS["transpose"]
    program = compile_program(function, *arguments)
    assert program.plan["launches"][0]["shared_bytes"] == 32 * 33 * 4
    assert count(program, r"st\.shared") == count(program, r"ld\.shared") == 4


RESULTS: dict[str, tuple[Callable, tuple[np.ndarray, ...], Callable]] = {
    "bias": (lambda x, b: x + b, (array(9, 20), array(20)), lambda x, b: x + b),
    "odd": (lambda x, y: x * y, (array(7, 3), array(7, 3)), lambda x, y: x * y),
    "strided": (lambda x: x[:, 1:15:2] * 2.0, (array(6, 16),), lambda x: x[:, 1:15:2] * 2),
    "row sum": (lambda x: blu.sum(x, axis=1), (array(5, 40),), lambda x: x.sum(1)),
    "row sum of a block": (lambda x: blu.sum(x, axis=1), (array(2, 5000),), lambda x: x.sum(1)),
    "row maximum": (lambda x: blu.max(x, axis=1), (array(3, 33),), lambda x: x.max(1)),
    "column sum": (lambda x: blu.sum(x, axis=0), (array(300, 8),), lambda x: x.sum(0)),
    "full sum": (lambda x: blu.sum(x), (array(20000),), lambda x: x.sum()),
    "transpose": (lambda x: blu.transpose(x) + 1.0, (array(35, 40),), lambda x: x.T + 1),
    "softmax": (
        lambda x: blu.softmax(x, axis=-1),
        (array(3, 12),),
        lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str):
    function, arguments, reference = RESULTS[name]
    (result,) = compile_program(function, *arguments).interpret(*arguments)
    np.testing.assert_allclose(result, reference(*arguments), rtol=2e-5, atol=2e-5)


def test_a_maximum_with_nan_is_nan():
    program = compile_program(lambda x: blu.max(x, axis=1), shape_only(64, 768))
    assert count(program, r"max\.NaN\.f32") > 5
    assert count(program, r"max\.f32") == 0


def test_counters_are_not_read():
    """The one-hot rows of a gradient are counted in place: only logits, targets and what is known of rows is read."""
    arguments = shape_only(8192, 50304), shape_only(8192, dtype=np.int32)
    program = compile_program(cross_entropy, *arguments)
    widest = max(program.plan["launches"], key=lambda launch: launch["grid"][0])
    sources = [argument for argument in widest["args"] if argument[0] in ("input", "output")]
    assert len(sources) == 3
    assert program.plan["arena_bytes"] < 8192 * 32, "50304 numbers are not in memory"


@pytest.mark.parametrize(
    ("rows", "width", "dtype"), [(1, 1, "f32"), (5, 33, "f64"), (3, 1025, "f32"), (140, 70, "bf16")]
)
def test_counted_columns_are_those_of_the_targets(rows: int, width: int, dtype: str):
    """What is subtracted from a row of the gradient of cross-entropy stands where its target does."""
    x, t = array(rows, width).astype(DTYPES[dtype]), np.arange(rows, dtype=np.int32) * 7 % width
    t[2:3] = -100
    program = compile_program(cross_entropy, x, t)
    loss, gradient = program.interpret(x, t)
    wide, counts = x.astype(np.float64), (t >= 0)[:, None]
    softmax = np.exp(wide - wide.max(1, keepdims=True))
    softmax /= softmax.sum(1, keepdims=True)
    expected = (softmax - (np.arange(width) == t[:, None])) * counts / counts.sum()
    logarithms = np.log(softmax[np.arange(rows), np.maximum(t, 0)])[:, None]
    tolerance = {"f32": 2e-6, "f64": 1e-13, "bf16": 5e-3}[dtype]
    assert float(loss) == pytest.approx(-(logarithms * counts).sum() / counts.sum(), rel=tolerance, abs=tolerance)
    assert np.abs(gradient.astype(np.float64) - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("repeats", [(2, 1), (1, 3), (2, 3)])
def test_numbers_that_are_repeated_are_counted_as_they_lie(repeats: tuple[int, int]):
    """Each several times in a row, and all of them several times over."""
    each, over = repeats
    x = np.arange(4 * each * over)
    program = compile_program(lambda x: blu.tile(blu.repeat(blu.arange(4), each), over) + x, x)
    assert np.array_equal(program.interpret(x)[0], np.tile(np.repeat(np.arange(4), each), over) + x)


def test_numbers_that_are_read_along_two_loops_are_counted_along_both():
    """As relative positions are: one value, read twice."""
    x = np.arange(20).reshape(4, 5)
    distances = compile_program(lambda x: blu.arange(4)[:, None] - blu.arange(4) + x[:, :4], x).interpret(x)[0]
    assert np.array_equal(distances, np.arange(4)[:, None] - np.arange(4) + x[:, :4])


def test_nothing_is_written_for_empty_tensors():
    x = np.zeros((0, 4), np.float32)
    (result,) = compile_program(lambda x: x + 1.0, x).interpret(x)
    assert result.shape == (0, 4)
