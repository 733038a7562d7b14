"""Every op in every dtype on rows of one element, about a warp, a block and many vectors, against NumPy's references.

Numbers are those of the ops' samples, repeated. All dtypes and lengths of an op are one program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bench.gpu.case import Case
from bench.gpu.check_samples import case_of
from blu.dialects.core.context import make_context
from blu.dialects.core.evaluation import evaluate
from blu.dialects.core.op import OPS, Op, Sample
from blu.plan.tensors import NAMES

LENGTHS = (1, 31, 33, 65, 257, 1025, 5000)
ROWS = 3
LONGEST_SORTED = 1025
"""Kernels that count, for each element, those before it take the square of a row."""

Longer = Callable[[Sample, int], Sample]


def cases() -> Iterator[Case]:
    """A case for each op that takes rows; attention has cases of its own, constants have no rows."""
    make_context()  # declares all ops
    for name, cls in sorted(OPS.items()):
        if name in LONGER:
            samples = [LONGER[name](sample, length) for sample in by_dtype(cls) for length in LENGTHS]
            case = case_of(f"rows of {name}", cls, samples)
            yield replace(case, reference=partial(running_sums, samples)) if name == "cumsum" else case


def running_sums(samples: Sequence[Sample]) -> list[np.ndarray]:
    """Those of f64 in more than 64 bits: NumPy's, one after the other, are less exact than what they are to check."""
    wide = {np.dtype(np.float64): np.longdouble}
    return [
        np.cumsum(array.astype(wide[array.dtype]), axis=sample.attributes["axis"]).astype(array.dtype)
        if (array := sample.operands[0]).dtype in wide
        else evaluate(OPS["cumsum"], sample.operands, sample.attributes)[0]
        for sample in samples
    ]


def by_dtype(cls: type[Op]) -> list[Sample]:
    """For each dtype of an op's last operand the sample with most elements."""
    found: dict[str, Sample] = {}
    for sample in cls.samples():
        operand = _table(sample)
        dtype = NAMES[operand.dtype]
        if operand.size and (dtype not in found or operand.size > _table(found[dtype]).size):
            found[dtype] = sample
    return list(found.values())


def _table(sample: Sample) -> np.ndarray:
    """The operand whose dtype counts: what where() chooses from, otherwise the first."""
    first, *others = sample.operands
    if isinstance(first, list):
        return first[0] if first else np.zeros(0, np.bool_)
    chosen = [item for item in others if isinstance(item, np.ndarray)]
    return chosen[0] if len(chosen) == 2 and first.dtype == np.bool_ else first


def _rows(array: Any, length: int) -> np.ndarray:
    return np.resize(array, (ROWS, length))


def _indices(count: int, size: int) -> np.ndarray:
    """Some of them from the end, some again and again."""
    return np.random.default_rng(count).integers(-size, size, count)


def _everywhere(sample: Sample, length: int) -> Sample:
    """All operands are rows."""
    operands = tuple(None if item is None else _rows(item, length) for item in sample.operands)
    return Sample(operands, sample.attributes)


def _along(**attributes: Any) -> Longer:
    """The first operand is rows, and attributes say along which axis the op goes."""

    def longer(sample: Sample, length: int) -> Sample:
        return Sample((_rows(_table(sample), length),), {**sample.attributes, **attributes})

    return longer


def _sized(attributes: Callable[[int], dict[str, Any]]) -> Longer:
    """The first operand is rows, and attributes follow from their length."""
    return lambda sample, length: Sample((_rows(_table(sample), length),), {**sample.attributes, **attributes(length)})


def _with(others: Callable[[np.ndarray], tuple], **attributes: Any) -> Longer:
    """The first operand is rows, others follow from them; the axis, where there is one, is the last."""

    def longer(sample: Sample, length: int) -> Sample:
        x = _rows(_table(sample), length)
        axis = {"axis": 1} if "axis" in sample.attributes else {}
        return Sample((x, *others(x)), {**sample.attributes, **axis, **attributes})

    return longer


def _product(**attributes: Any) -> Longer:
    """Of ones and a few numbers, so that it stays far from infinity."""

    def longer(sample: Sample, length: int) -> Sample:
        x = np.ones((ROWS, length), _table(sample).dtype)
        x[:, :: max(1, length // 5)] = 2
        return Sample((x,), attributes)

    return longer


def _settled(sample: Sample, length: int) -> Sample:
    """Rows that a product has begun, of which the last two are formed again."""
    dtype = sample.operands[0].dtype
    x, w = (np.resize(item, (size, 3)) for item, size in zip(sample.operands[2:4], (ROWS, length), strict=True))
    x[-1] = 0
    logits, targets = x.astype(np.float64) @ w.astype(np.float64).T, np.arange(ROWS) * 7 % length
    terms = np.exp(logits - np.take_along_axis(logits, targets[:, None], axis=1))
    sums = np.where(np.arange(length) == targets[:, None], 0, terms).sum(axis=1).astype(np.float32)
    sums[-2:] = np.inf, np.nan
    return Sample((terms.astype(dtype), sums, x, w, targets), sample.attributes)


def _sorted_row(sample: Sample, length: int) -> Sample:
    return _along(axis=1)(sample, min(length, LONGEST_SORTED))


def _joined(sample: Sample, length: int) -> Sample:
    x = _rows(_table(sample), length)
    return Sample(([x, x[:, :1], x],), {"axis": 1})


def _start(*places: int) -> list[np.ndarray]:
    return [np.array(place, np.int32) for place in places]


_POINTWISE = [name for name in """
    absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_or bitwise_xor cbrt
    ceil clip convert copysign cos cosh divide equal erf erfc exp exp2 expm1 floor floor_divide gelu greater
    greater_equal invert isfinite isinf isnan left_shift less less_equal log log10 log1p log2 logical_not
    maximum minimum multiply nearest_byte negative not_equal power reciprocal reduce_precision relu remainder
    right_shift round rsqrt sigmoid sign silu sin sinh sqrt square subtract tan tanh trunc where
    """.split()]  # fmt: skip
_FOLDS = ("all", "any", "max", "min", "sum")

LONGER: dict[str, Longer] = {
    **dict.fromkeys(_POINTWISE, _everywhere),
    **dict.fromkeys(_FOLDS, _along(axes=(1,))),
    **dict.fromkeys(("argmax", "argmin", "cumsum", "softmax", "log_softmax"), _along(axis=1)),
    **dict.fromkeys(("cummax", "cummin", "logcumsumexp"), _along(axis=1)),
    **dict.fromkeys(("sort", "argsort"), _sorted_row),
    "prod": _product(axes=(1,), keepdims=False),
    "cumprod": _product(axis=1),
    "recurrence": _with(lambda decay: (decay,)),
    "reverse": _along(axes=(1,)),
    "row_windows": _along(sizes=(2, 2), steps=(1, 1), start=0),
    "transpose": _along(permutation=(1, 0)),
    "broadcast_to": lambda sample, length: Sample((np.resize(_table(sample), length),), {"shape": (ROWS, length)}),
    "reshape": _sized(lambda length: {"shape": (length, ROWS)}),
    "slice": _sized(lambda length: {"starts": (0, 0), "limits": (ROWS, length), "strides": (1, 2)}),
    **dict.fromkeys(("top_k", "arg_top_k"), _sized(lambda length: {"k": min(length, 5)})),
    "pad": lambda sample, length: Sample(
        (_rows(_table(sample), length), sample.operands[1]), {"low": (0, 1), "high": (1, 2)}
    ),
    "concatenate": _joined,
    "checked_index": lambda sample, length: Sample(
        ([_indices(length, 7)],), {"sizes": (7,), "from_end": True, "reported_as": "take"}
    ),
    "take": _with(lambda x: (_indices(x.shape[1], x.shape[1]),)),
    "take_along_axis": _with(lambda x: (_indices(x.size, x.shape[1]).reshape(x.shape),)),
    "scatter_add": _with(lambda x: (_indices(x.shape[1], x.shape[1]), x[:, ::-1].copy())),
    "dynamic_slice": lambda sample, length: Sample(
        (_rows(_table(sample), length), _start(1, 1)), {"sizes": (2, max(1, length - 2))}
    ),
    "dynamic_update_slice": lambda sample, length: Sample(
        (_rows(_table(sample), length), _rows(_table(sample), length)[1:, : max(1, length - 2)], _start(1, 1))
    ),
    "layer_norm": _with(lambda x: (x[0], x[1])),
    "rms_norm": _with(lambda x: (x[0],)),
    "standardize": _with(lambda x: (None, None), axes=(1,)),
    "one_hot": lambda sample, length: Sample((np.resize(_table(sample), length),), sample.attributes),
    "matmul": _with(lambda x: (x[::-1, ::-1].T.copy(),)),
    "contract": _with(lambda x: (x[::-1].copy(),), equation="mk,nk->mn"),
    "settle_rows": _settled,
    "cross_entropy": _with(lambda x: (np.arange(ROWS) * 7 % x.shape[1],)),
}
