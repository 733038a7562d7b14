"""Rows of exponentials that a product has made, settled on GPUs: some are kept, others are formed again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from blu.dialects.ops.loss import LARGEST_LOSS, SettleRows
from tests.support.kernels.gpu_program import DTYPES, GpuProgram, compile_program

ROWS, WIDTH, WARPS = 5, 3, 8
CLASSES = (1, 2, WARPS - 1, WARPS, WARPS + 1, 32 * WARPS + 1)
Arrays = tuple[np.ndarray, ...]


def compiled(*arrays: np.ndarray) -> GpuProgram:
    return compile_program(lambda *operands: SettleRows(*operands), *arrays)


def operands(classes: int, dtype: str, rows: int = ROWS, width: int = WIDTH) -> Arrays:
    """What a product would give for targets 0, 7, 14, .., and its factors."""
    rng = np.random.default_rng([classes, rows])
    x, w = (rng.standard_normal(shape).astype(DTYPES[dtype]) for shape in ((rows, width), (classes, width)))
    targets = (np.arange(rows) * 7 % classes).astype(np.int32)
    return (*begun(x, w, targets), x, w, targets)


def begun(x: np.ndarray, w: np.ndarray, targets: np.ndarray) -> Arrays:
    logits, at_target = wide(x) @ wide(w).T, (np.arange(len(targets)), targets)
    with np.errstate(over="ignore", invalid="ignore"):
        terms = np.exp(logits - logits[at_target][:, None])
        others = terms.copy()
        others[at_target] = 0
        return terms.astype(x.dtype), others.sum(axis=1).astype(np.float32)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)


def exact(x: np.ndarray, w: np.ndarray, targets: np.ndarray) -> Arrays:
    """Softmax, less 1 at the target, and the loss."""
    logits, own = wide(x) @ wide(w).T, (np.arange(len(targets)), targets)
    shifted = logits - logits.max(axis=1, keepdims=True)
    found = np.exp(shifted)
    total = found.sum(axis=1)
    found[own] = 0
    found[own] = -found.sum(axis=1)
    return found / total[:, None], np.log(total) - shifted[own]


def check(arrays: Arrays, found: list[np.ndarray], again: list[int]) -> None:
    """Rows that are kept have their bits but at the target; and all are their softmax, less 1 there."""
    terms, x, w, targets = arrays[0], *arrays[2:]
    kept = np.arange(terms.shape[1]) != targets[:, None]
    kept[again] = False
    np.testing.assert_array_equal(found[0][kept], terms[kept])
    gradient, loss = exact(x, w, targets)
    unit = 2.0**-7 if x.dtype == DTYPES["bf16"] else 4e-6
    with np.errstate(invalid="ignore"):
        ratio = wide(found[0]) / wide(found[1])[:, None]
    assert np.all(np.abs(ratio - gradient) <= unit * np.abs(gradient) + 1e-30)
    assert np.all(np.abs(found[2] - loss) <= 2e-6 * np.abs(loss) + 1e-30)


@pytest.mark.parametrize("classes", CLASSES)
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_rows_of_as_many_classes_as_warps(classes: int, dtype: str) -> None:
    """The second row's sum is no number, the last one's is infinite: both are formed again."""
    arrays = operands(classes, dtype)
    arrays[1][[1, -1]], arrays[0][[1, -1]] = (np.nan, np.inf), np.inf
    check(arrays, compiled(*arrays).interpret(*arrays), [1, ROWS - 1])


@pytest.mark.parametrize(
    ("rows", "width", "dtype", "targets"),
    [(0, 3, "f32", "i32"), (1, 1, "f32", "i64"), (2, 33, "f32", "i64"), (2, 128, "f32", "i32"), (1, 132, "f32", "i32"),
     (2, 264, "bf16", "i32"), (1, 260, "bf16", "i32"), (15, 3, "f32", "i32"), (16, 3, "f32", "i32"),
     (33, 5, "f32", "i32")],
)  # fmt: skip
def test_few_rows_of_any_width(rows: int, width: int, dtype: str, targets: str) -> None:
    *arrays, chosen = operands(9, dtype, rows, width)
    arrays = (*arrays, chosen.astype(targets.replace("i", "int")))
    arrays[1][-1:], arrays[1][:-1:5] = np.inf, np.nan
    again = sorted({*range(rows)[-1:], *range(0, rows - 1, 5)})
    check(arrays, compiled(*arrays).interpret(*arrays), again)


def far_rows() -> Arrays:
    """Losses around the largest one that is kept, of 300 nats, of one who is sure, and where all logits are equal."""
    targets, largest = np.array([3, 0, 8, 5, 1], np.int32), LARGEST_LOSS - np.log(8)
    distances = (largest - 0.1, largest + 0.1, 300, -16, 0)
    w = np.zeros((9, ROWS), np.float32)
    w[targets, np.arange(ROWS)] = np.negative(distances)
    x = np.eye(ROWS, dtype=np.float32)
    return (*begun(x, w, targets), x, w, targets)


def test_losses_beyond_what_exponentials_hold() -> None:
    arrays = far_rows()
    check(arrays, compiled(*arrays).interpret(*arrays), [1, 2])


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_logits_that_are_no_numbers(special: float) -> None:
    """Of the first row at the target, of the second one elsewhere: what a softmax of these has."""
    x, w, targets = np.ones((2, 1), np.float32), np.arange(9, dtype=np.float32)[:, None], np.array([4, 5], np.int32)
    w[4] = special
    arrays = (*begun(x, w, targets), x, w, targets)
    terms, sums, loss = compiled(*arrays).interpret(*arrays)
    with np.errstate(invalid="ignore"):
        expected = SettleRows.reference(*(wide(item) for item in arrays[:4]), targets)
    for one, other in zip((terms, sums, loss), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=4e-6)


def test_targets_beyond_the_classes_write_nowhere_else() -> None:
    """A check reports them; the kernel stays in its row."""
    arrays = operands(9, "f32")
    program = compiled(*arrays)
    arrays[-1][:] = [-1, 9, 1 << 30, -(1 << 30), 4]
    terms = program.interpret(*arrays)[0]
    assert np.all((terms != arrays[0]).sum(axis=1) == 1)


FAULTS = {
    "the target's own term counts": ("setp.eq", "setp.ne"),
    "all rows are kept": ("0f6ABCEDE5", "0f7F800000"),
    "the largest is the smallest": ("max.NaN.f32", "min.NaN.f32"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault: str, planted: Callable[..., GpuProgram]) -> None:
    arrays = far_rows()
    with pytest.raises(AssertionError):
        check(arrays, planted(compiled(*arrays), *FAULTS[fault]).interpret(*arrays), [1, 2])


@pytest.fixture
def planted() -> Callable[..., GpuProgram]:
    """A program whose kernel has another instruction everywhere."""

    def plant(program: GpuProgram, old: str, new: str) -> GpuProgram:
        (name,) = program.kernels("settle_rows")
        assert old in program.ptx[name]
        changed = {**program.ptx, name: program.ptx[name].replace(old, new)}
        return GpuProgram(program.target, changed, program.plan, program.constants)

    return plant
