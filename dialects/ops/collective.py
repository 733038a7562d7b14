"""Collectives: what the ranks of an axis of the mesh do together. They are steps of the host program, not kernels.

A program is the same for all ranks, and each has its own operands. Let x be the operands of all ranks: a collective is
a function of all of them, and but for maxima and minima a linear one. Its gradient is the transposed one: what is
differentiated is the sum, over the ranks, of what each of them differentiates. Of a largest or smallest element it goes
to those who have it.

| op             | what rank i of n gets                              | its gradient            |
|----------------|----------------------------------------------------|-------------------------|
| all_reduce     | the sum (mean, max, min) of all x                   | all_reduce              |
| all_gather     | x of rank 0, 1, .. one after the other along dim 0  | reduce_scatter          |
| reduce_scatter | part i along dim 0 of the sum (mean, ..) of all x   | all_gather              |
| broadcast      | x of rank `root`                                    | all_reduce, at the root |
| all_to_all     | part i of x of rank 0, 1, .. along dim 0            | all_to_all              |
| permute        | x of rank (i - shift) mod n                         | permute back            |
| axis_index     | i                                                   |                         |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from blu.dialects.core.dtypes import (
    TensorType,
    bf16,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)
from blu.dialects.core.op import Effects, ErrorSample, Op, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.errors import DTypeError, ShapeError

REDUCTIONS = ("sum", "mean", "max", "min")
NUMBERS = (f64, f32, f16, bf16, i8, i32, i64, u8, u32, u64)
"""What is added up across ranks: NCCL knows no integers of 16 bits."""
UNSIGNED = (u8, u16, u32, u64)
MOVED = (*NUMBERS, i16, u16, bool_)
"""What is sent as it is."""
_SHAPES = ((), (1,), (4,), (2, 3), (4, 0), (3, 2, 2))


class CollectiveOp(Op):
    """Base of the collectives: `axis` is that of the mesh, of `ranks` ranks."""

    effects = Effects.ORDERED
    host_step = True
    # What a rank's tensors may hold, and whether they have a dimension that is cut in equal parts.
    dtypes: ClassVar[Sequence[Any]] = MOVED
    is_split: ClassVar[bool] = False
    doing: ClassVar[str] = "exchange"
    over_ranks: ClassVar[Callable[..., list[np.ndarray]]]
    """The reference: from the operands of all ranks to what each of them gets."""

    operand: Operand
    axis: str
    ranks: int

    @classmethod
    def reference(cls, operand: np.ndarray, axis: str, ranks: int, **options: Any) -> np.ndarray:
        """What one rank alone gets."""
        assert ranks == 1, "others take part"
        return np.asarray(cls.over_ranks([operand], **options)[0])

    @classmethod
    def check(cls, operand: TensorType, ranks: int) -> None:
        """ShapeError or DTypeError for what ranks cannot do together."""
        _check_ranks(ranks)
        if operand.dtype not in cls.dtypes:
            known = ", ".join(item.name for item in cls.dtypes)
            raise DTypeError(f"ranks {cls.doing} {known}, got {operand}", advice="convert it with x.astype(dtype)")
        if cls.is_split and (not operand.shape or operand.shape[0] % ranks):
            raise ShapeError(f"the first dimension of {operand} is not a multiple of {ranks} ranks")

    @classmethod
    def options(cls) -> Iterator[dict[str, Any]]:
        """The further attributes that samples are drawn with."""
        yield {}

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for options in cls.options():
            for dtype in cls.dtypes:
                for shape in _SHAPES if dtype in (f64, f32) else ((2, 3),):
                    if shape or not cls.needs_dim():
                        lowest = 0 if dtype in (*UNSIGNED, bool_) else -9
                        yield Sample((draw(rng, shape, dtype, lowest, 9),), _alone(options))

    @classmethod
    def needs_dim(cls) -> bool:
        """Whether a scalar is no operand."""
        return cls.is_split

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        options = next(cls.options())
        operand = TensorType((4, 2), f32)
        yield ErrorSample((operand,), {"axis": "dp", "ranks": 0, **options}, "at least 1 rank")
        if bool_ not in cls.dtypes:
            yield ErrorSample((operand.with_dtype(bool_),), _alone(options), f"ranks {cls.doing} f64")
        if cls.is_split:
            yield ErrorSample((operand,), {"axis": "dp", "ranks": 3, **options}, "not a multiple of 3 ranks")


def _check_ranks(ranks: int) -> None:
    if ranks < 1:
        raise ShapeError(f"an axis of a mesh has at least 1 rank, got {ranks}")


def _alone(options: dict[str, Any]) -> dict[str, Any]:
    return {"axis": "dp", "ranks": 1, **options}


class _Reducing(CollectiveOp):
    """Base of the collectives that add up, or compare, what ranks have."""

    dtypes = NUMBERS
    doing = "reduce"

    @classmethod
    def check_reduction(cls, operand: TensorType, ranks: int, reduction: str) -> None:
        """Errors of `check`, and of reductions."""
        cls.check(operand, ranks)
        if reduction not in REDUCTIONS:
            raise ShapeError(f"a reduction is one of {', '.join(REDUCTIONS)}, got '{reduction}'")
        if reduction == "mean" and not operand.dtype.is_float:
            raise DTypeError(f"a mean is taken of floats, got {operand}")

    @classmethod
    def options(cls) -> Iterator[dict[str, Any]]:
        yield from ({"reduction": name} for name in ("sum", "max", "min"))

    @classmethod
    def samples(cls) -> Iterator[Sample]:
        yield from super().samples()
        rng = np.random.default_rng(1)
        for dtype in (f64, f32, bf16, f16):
            yield Sample((draw(rng, (4, 2), dtype, -9, 9),), _alone({"reduction": "mean"}))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        operand = TensorType((4, 2), f32)
        yield ErrorSample((operand,), _alone({"reduction": "product"}), "one of sum, mean, max, min")
        yield ErrorSample((operand.with_dtype(i32),), _alone({"reduction": "mean"}), "a mean is taken of floats")


class AllReduce(_Reducing, name="all_reduce"):
    """The sum, mean, largest or smallest of what all ranks of an axis have, on each of them."""

    reduction: str

    @staticmethod
    def over_ranks(operands: Sequence[np.ndarray], reduction: str) -> list[np.ndarray]:
        return [_reduced(operands, reduction) for _ in operands]

    @staticmethod
    def infer(operand: TensorType, axis: str, ranks: int, reduction: str) -> TensorType:
        AllReduce.check_reduction(operand, ranks, reduction)
        return operand

    @staticmethod
    def vjp(g: Any, operand: Any, result: Any, axis: str, ranks: int, reduction: str) -> Any:
        mesh = {"axis": axis, "ranks": ranks}
        if reduction in ("max", "min"):
            return _share_of_extreme(AllReduce(g, reduction="sum", **mesh), operand, result, mesh)
        return AllReduce(g, reduction=reduction, **mesh)


class ReduceScatter(_Reducing, name="reduce_scatter"):
    """Of the sum (mean, ..) of what all ranks have, each one its part along the first dimension."""

    reduction: str
    is_split = True

    @staticmethod
    def over_ranks(operands: Sequence[np.ndarray], reduction: str) -> list[np.ndarray]:
        return np.split(_reduced(operands, reduction), len(operands))

    @staticmethod
    def infer(operand: TensorType, axis: str, ranks: int, reduction: str) -> TensorType:
        ReduceScatter.check_reduction(operand, ranks, reduction)
        return operand.with_shape((operand.shape[0] // ranks, *operand.shape[1:]))

    @staticmethod
    def vjp(g: Any, operand: Any, result: Any, axis: str, ranks: int, reduction: str) -> Any:
        mesh = {"axis": axis, "ranks": ranks}
        gathered = AllGather(g, **mesh)
        if reduction in ("max", "min"):
            return _share_of_extreme(gathered, operand, AllGather(result, **mesh), mesh)
        return gathered if reduction == "sum" else gathered * (1.0 / ranks)


class AllGather(CollectiveOp, name="all_gather"):
    """What all ranks have, one after the other along the first dimension."""

    @classmethod
    def needs_dim(cls) -> bool:
        return True

    @staticmethod
    def over_ranks(operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.concatenate(operands) for _ in operands]

    @staticmethod
    def infer(operand: TensorType, axis: str, ranks: int) -> TensorType:
        AllGather.check(operand, ranks)
        if not operand.shape:
            raise ShapeError("scalars have no dimension along which they are gathered: reshape them to (1,)")
        return operand.with_shape((operand.shape[0] * ranks, *operand.shape[1:]))

    @staticmethod
    def vjp(g: Any, operand: Any, result: Any, axis: str, ranks: int) -> Any:
        return ReduceScatter(g, axis=axis, ranks=ranks, reduction="sum")


class Broadcast(CollectiveOp, name="broadcast"):
    """What rank `root` of an axis has, on all of them."""

    root: int

    @staticmethod
    def over_ranks(operands: Sequence[np.ndarray], root: int) -> list[np.ndarray]:
        return [operands[root] for _ in operands]

    @staticmethod
    def infer(operand: TensorType, axis: str, ranks: int, root: int) -> TensorType:
        Broadcast.check(operand, ranks)
        if not 0 <= root < ranks:
            raise ShapeError(f"the root of {ranks} ranks is one of them, got {root}")
        return operand

    @staticmethod
    def vjp(g: Any, operand: Any, result: Any, axis: str, ranks: int, root: int) -> Any:
        from blu.dialects.tensor.arithmetic import equal, where

        total = AllReduce(g, axis=axis, ranks=ranks, reduction="sum")
        return where(equal(AxisIndex(axis=axis, ranks=ranks), root), total, 0.0)

    @classmethod
    def options(cls) -> Iterator[dict[str, Any]]:
        yield {"root": 0}

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        yield from super().error_samples()
        yield ErrorSample((TensorType((2,), f32),), {"axis": "dp", "ranks": 2, "root": 2}, "is one of them, got 2")


class AllToAll(CollectiveOp, name="all_to_all"):
    """Part i along the first dimension of what each rank has goes to rank i."""

    is_split = True

    @staticmethod
    def over_ranks(operands: Sequence[np.ndarray]) -> list[np.ndarray]:
        parts = [np.split(operand, len(operands)) for operand in operands]
        return [np.concatenate(received) for received in zip(*parts, strict=True)]

    @staticmethod
    def infer(operand: TensorType, axis: str, ranks: int) -> TensorType:
        AllToAll.check(operand, ranks)
        return operand

    @staticmethod
    def vjp(g: Any, operand: Any, result: Any, axis: str, ranks: int) -> Any:
        return AllToAll(g, axis=axis, ranks=ranks)


class Permute(CollectiveOp, name="permute"):
    """What each rank has goes to the one `shift` further round the axis."""

    shift: int

    @staticmethod
    def over_ranks(operands: Sequence[np.ndarray], shift: int) -> list[np.ndarray]:
        return [operands[(rank - shift) % len(operands)] for rank in range(len(operands))]

    @staticmethod
    def infer(operand: TensorType, axis: str, ranks: int, shift: int) -> TensorType:
        Permute.check(operand, ranks)
        return operand

    @staticmethod
    def vjp(g: Any, operand: Any, result: Any, axis: str, ranks: int, shift: int) -> Any:
        return Permute(g, axis=axis, ranks=ranks, shift=-shift)

    @classmethod
    def options(cls) -> Iterator[dict[str, Any]]:
        yield {"shift": 1}


class AxisIndex(Op, name="axis_index"):
    """Which rank of an axis this one is (i32). Nobody else takes part in that."""

    host_step = True
    deliberate: ClassVar[dict[str, str]] = {"vjp": "it is an integer"}

    axis: str
    ranks: int

    @staticmethod
    def over_ranks(ranks: int) -> list[np.ndarray]:
        return [np.array(rank, np.int32) for rank in range(ranks)]

    @staticmethod
    def reference(axis: str, ranks: int) -> np.ndarray:
        assert ranks == 1, "others take part"
        return np.array(0, np.int32)

    @staticmethod
    def infer(axis: str, ranks: int) -> TensorType:
        _check_ranks(ranks)
        return TensorType((), i32)

    @staticmethod
    def samples() -> Iterator[Sample]:
        yield Sample((), _alone({}))

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        yield ErrorSample((), {"axis": "dp", "ranks": 0}, "at least 1 rank")


def _reduced(operands: Sequence[np.ndarray], reduction: str) -> np.ndarray:
    """What all operands give; halves are added up in f32, as everywhere."""
    if reduction in ("max", "min"):
        return reduce({"max": np.maximum, "min": np.minimum}[reduction], operands)
    dtype = operands[0].dtype
    wide = np.float32 if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype
    total = reduce(np.add, [operand.astype(wide) for operand in operands])
    return (total / len(operands) if reduction == "mean" else total).astype(dtype)


def _share_of_extreme(g: Any, operand: Any, extreme: Any, mesh: dict[str, Any]) -> Any:
    """The gradient of the largest or smallest: what has it shares it, as in reductions on one rank."""
    from blu.dialects.tensor.arithmetic import equal, where

    has_it = equal(operand, extreme)
    count = AllReduce(has_it.astype(g.dtype), reduction="sum", **mesh)
    return where(has_it, g / count, 0.0)
