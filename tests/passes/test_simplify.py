"""Simplification keeps every bit: random programs by NumPy, folded ops against kernels, and time linear in the ops."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blu
from blu.dialects.core.context import make_context
from blu.dialects.core.dtypes import DTYPES, DType, TensorType, bf16, bool_, f16, f32, f64, i8, i32, i64, u8
from blu.dialects.core.evaluation import array_type, evaluate
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import copy_module
from blu.dialects.core.op import OPS
from blu.dialects.ops.pointwise import special_values
from blu.dialects.tensor.tensor import Tensor
from blu.errors import BluError
from blu.passes.graph.simplify import Simplify
from blu.passes.graph.simplify.arithmetic import NEUTRAL
from blu.passes.graph.simplify.fold import BITS, COMPARISONS, EXACT_FOR_INTEGERS, ROUNDED_CORRECTLY
from tests.support.programs.interpret import interpret
from tests.support.programs.traced import shared_context, traced

make_context()
POINTWISE = ["add", "subtract", "multiply", "divide", "floor_divide", "bitwise_and", "bitwise_or", "bitwise_xor",
             "equal", "less", "maximum", "negative", "invert", "logical_not", "absolute", "floor", "round"]  # fmt: skip
SHAPES = [(), (6,), (1,), (), (2, 3), (3, 2), (1, 6), (6, 1), (3, 1, 2), (0,)]
NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.5, 300.0, np.nan, -np.inf]
INPUTS = [TensorType((2, 3), f32), TensorType((6,), i32), TensorType((3, 1), bf16), TensorType((2, 3), bool_)]


Choices = list[tuple[int, int, int, int]]


def _constant(dtype: DType, number: int) -> Tensor:
    """A constant of one of the SHAPES, of one or two of the NUMBERS."""
    first, second = NUMBERS[number % 8], NUMBERS[number // 8 % 8]
    numbers = np.resize([first, second if number % 3 == 0 else first], SHAPES[number % len(SHAPES)])
    numbers = numbers if dtype.is_float else np.nan_to_num(numbers, posinf=7, neginf=0)
    return OPS["constant"](value=numbers.astype(dtype.numpy))


def _pointwise(x: Tensor, pool: list[Tensor], one: int, two: int) -> Tensor:
    cls = OPS[POINTWISE[(one + two) % len(POINTWISE)]]
    alike = [tensor for tensor in pool if tensor.dtype == x.dtype]
    other = alike[two // 2 % len(alike)] if two % 2 else _constant(x.dtype, two)
    operands = [x, other] if two % 4 else [other, x]
    return cls(*operands[: len(cls.operand_fields())])


def _transpose(x: Tensor, pool: list[Tensor], one: int, two: int) -> Tensor:
    return OPS["transpose"](x, permutation=[int(axis) for axis in np.random.default_rng(one).permutation(x.ndim)])


def _slice(x: Tensor, pool: list[Tensor], one: int, two: int) -> Tensor:
    starts = [min(one % 3, size) for size in x.shape]
    limits = [max(start, size - two % 2) for start, size in zip(starts, x.shape, strict=True)]
    return OPS["slice"](x, starts=starts, limits=limits, strides=[1 + (one + two) % 2] * x.ndim)


def _pad(x: Tensor, pool: list[Tensor], one: int, two: int) -> Tensor:
    value = OPS["constant"](value=np.ones((), x.dtype.numpy))
    return OPS["pad"](x, value, low=[one % 2] * x.ndim, high=[two % 2] * x.ndim)


def _concatenate(x: Tensor, pool: list[Tensor], one: int, two: int) -> Tensor:
    return OPS["concatenate"]([x, _constant(x.dtype, one), x][: 1 + two % 3], axis=0)


def _where(x: Tensor, pool: list[Tensor], one: int, two: int) -> Tensor:
    conditions = [tensor for tensor in pool if tensor.dtype == bool_]
    condition = conditions[one // 2 % len(conditions)] if one % 2 else _constant(bool_, one)
    return OPS["where"](condition, x, x if two % 4 == 0 else _constant(x.dtype, two))


STEPS = [
    _pointwise,
    lambda x, pool, one, two: OPS["convert"](x, dtype=DTYPES[one % len(DTYPES)]),
    lambda x, pool, one, two: OPS["reshape"](x, shape=SHAPES[one % len(SHAPES)]),
    lambda x, pool, one, two: OPS["broadcast_to"](x, shape=SHAPES[one % len(SHAPES)]),
    lambda x, pool, one, two: OPS["reverse"](x, axes=[axis for axis in range(x.ndim) if one >> axis & 1]),
    _transpose,
    _slice,
    _pad,
    _concatenate,
    _where,
]


def _program(choices: Choices) -> Callable[..., list[Tensor]]:
    """A function that applies one op after the other, each twice; choices that no op accepts are skipped."""

    def program(*inputs: Tensor) -> list[Tensor]:
        pool = [*inputs, _constant(f32, len(choices)), _constant(i32, len(choices))]
        for step, which, one, two in choices:
            x = pool[which // 2 % len(pool)] if which % 2 else pool[-1]
            for numbers in ((one, two), (two, one)):
                try:
                    x = STEPS[step % len(STEPS)](x, pool, *numbers)
                    pool.append(x)
                except BluError:
                    continue
        return pool[len(inputs) :]

    return program


def _simplified(module: ir.Module) -> ir.Module:
    with module.context, ir.Location.unknown():
        copy = copy_module(module)
        Simplify().run(copy)
        assert copy.operation.verify()
    return copy


def _same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Equal with the signs of zeros; NaN equals NaN."""
    wide, wider = one.astype(np.float64), other.astype(np.float64)
    same = (wide == wider) & (np.signbit(wide) == np.signbit(wider)) | (np.isnan(wide) & np.isnan(wider))
    return one.dtype == other.dtype and one.shape == other.shape and bool(same.all())


def _check(program: Callable[..., list[Tensor]], inputs: list[np.ndarray]) -> None:
    """The simplified program gives the same bits, and cannot be simplified further."""
    module = traced(program, list(map(array_type, inputs)))
    with shared_context():
        smaller = _simplified(module)
        pairs = zip(interpret(smaller, inputs), interpret(module, inputs), strict=True)
        assert all(_same_bits(found, expected) for found, expected in pairs), f"{module}\n{smaller}"
        assert str(_simplified(smaller)) == str(smaller)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", NEUTRAL)
def test_special_values_with_every_special_constant(name: str) -> None:
    cls = OPS[name]
    inputs = [special_values(dtype) for dtype in cls.dtypes]

    def program(*tensors: Tensor) -> list[Tensor]:
        results = []
        for tensor, numbers in zip(tensors, inputs, strict=True):
            for number in numbers:
                constant = OPS["constant"](value=np.asarray(number))
                results += [cls(tensor, constant), cls(constant, tensor)]
        return results

    _check(program, inputs)


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_all_pairs_of_conversions(source: DType) -> None:
    values = special_values(source)
    near = values + values.dtype.type(1) if source.is_integer else values
    inputs = [np.concatenate([values, near])]

    def program(x: Tensor) -> list[Tensor]:
        steps = [OPS["convert"](x, dtype=dtype) for dtype in DTYPES]
        return [OPS["convert"](step, dtype=dtype) for step in steps for dtype in DTYPES]

    _check(program, inputs)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 63)] * 4), min_size=5, max_size=25))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_programs_give_the_same_bits(choices: Choices) -> None:
    inputs = [np.resize(special_values(type_.dtype)[::2], type_.shape) for type_ in INPUTS]
    _check(_program(choices), inputs)


@pytest.mark.parametrize("dtype", [f32, f16, bf16, f64, i8, u8, i64, bool_], ids=str)
def test_kernels_give_the_bits_that_folding_gives(dtype: DType) -> None:
    """Every foldable op on all pairs of special values, compiled, against what the compiler computes for constants."""
    values = special_values(dtype)
    names = [name for name in (*COMPARISONS, *BITS, *ROUNDED_CORRECTLY) if dtype in OPS[name].dtypes]
    names += [name for name in EXACT_FOR_INTEGERS if dtype in OPS[name].dtypes and not dtype.is_float]
    operands = {name: (values[:, None], values)[: len(OPS[name].operand_fields())] for name in names}

    def program(column: Tensor, row: Tensor) -> list[Tensor]:
        return [OPS[name](*(column, row)[: len(operands[name])]) for name in names]

    found = blu.jit(program)(values[:, None], values)
    for name, array in zip(names, found, strict=True):
        (expected,) = evaluate(OPS[name], operands[name], {})
        assert _same_bits(np.asarray(array), expected), name


def test_time_is_linear_in_the_ops() -> None:
    def chain(x: Tensor, length: int) -> Tensor:
        for _ in range(length):
            moved = OPS["reshape"](x, shape=(2, 3) if x.ndim == 1 else (6,))
            x = OPS["add"](moved, OPS["constant"](value=np.ones((), np.float32)))
        return x

    seconds = []
    for length in (500, 2000):
        module = traced(lambda x, length=length: chain(x, length), [array_type(np.zeros(6, np.float32))])
        start = time.process_time()
        _simplified(module)
        seconds.append(time.process_time() - start)
    assert seconds[1] < 12 * seconds[0] + 0.5, seconds
