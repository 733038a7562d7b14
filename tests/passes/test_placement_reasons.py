"""What is written in place and what is copied: each decision of bufferization has its reason in `--explain-fusion`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest

import blu
from blu.compiler.jit import Traced


def decisions_of(traced: Traced, target: str = "x86-64-v3") -> list[str]:
    """What bufferization says of a program, without lines and files."""
    report = traced.lower(target, stop="blu-bufferize").report
    assert report is not None
    (run,) = (run for run in report.runs if run.name == "blu-bufferize")
    return [re.sub(r" \(test_placement_reasons\.py:[^)]*\)", "", line) for line in run.reasons]


SAID: list[tuple[Callable, Sequence[str], list[str]]] = [
    (lambda x, y: x + y, ["x"], ["rows_0 writes over the donated argument x"]),
    (
        lambda x, y: (x + y, blu.transpose(x, (1, 0))),
        ["x"],
        [
            "rows_0 does not write over the donated argument x: it is read later",
            "result 1 is copied: it is a view of something else in memory",
        ],
    ),
    (
        lambda x, y: blu.matmul(x, y),
        ["x"],
        [
            "gemm_0 does not write over the donated argument x: "
            "it is read at other places than where the result is written"
        ],
    ),
    (
        lambda x, y: (blu.matmul(y, y), blu.argsort(x)),
        ["x"],
        ["gemm_0 does not write over the donated argument x: it is read later"],
    ),
    (lambda x, y: blu.sum(x), ["x"], ["nothing is written over the donated argument x: no result suits it"]),
    (lambda x, y: (x, y + 1.0), [], ["result 0 is copied: it is an argument, which is not donated"]),
    (lambda x, y: (x, x, y), ["x", "y"], ["result 1 is copied: it is another result too"]),
    (
        lambda x, y: blu.transpose(x, (1, 0)),
        [],
        ["result 0 is copied: it is an argument, which is not donated"],
    ),
    (
        lambda x, y: blu.concatenate([x, blu.exp(y)], 0),
        [],
        ["tensor.insert_slice copies a part: it is an argument or a constant"],
    ),
]


@pytest.mark.filterwarnings("ignore::blu.errors.DonationWarning")
@pytest.mark.parametrize(("program", "donate", "lines"), SAID)
def test_what_is_said_of_memory(program: Callable, donate: Sequence[str], lines: list[str]) -> None:
    traced = blu.jit(program, donate=tuple(donate)).trace(blu.spec((4, 4)), blu.spec((4, 4)))
    assert decisions_of(traced) == lines


def rows_updated(x: blu.Tensor, y: blu.Tensor, start: blu.Tensor) -> blu.Tensor:
    return blu.dynamic_update_slice(x, y[:1], (start, 0))


UPDATES: list[tuple[Callable, Sequence[str], str]] = [
    (rows_updated, ["x"], "update_0 updates in place"),
    (rows_updated, [], "update_0 updates a copy: what it updates is a constant, or an argument not donated"),
    (
        lambda x, y, start: (rows_updated(x, y, start), blu.argsort(x)),
        ["x"],
        "update_0 updates a copy: what it updates is read later",
    ),
    (lambda x, y, start: rows_updated(x, x, start), ["x"], "update_0 updates a copy: it reads what it updates"),
    (lambda x, y, start: rows_updated(blu.exp(x), y, start), [], "update_0 updates in place"),
]


@pytest.mark.parametrize(("program", "donate", "line"), UPDATES)
def test_what_is_said_of_updates(program: Callable, donate: Sequence[str], line: str) -> None:
    traced = blu.jit(program, donate=tuple(donate)).trace(blu.spec((4, 4)), blu.spec((4, 4)), blu.spec((), "i32"))
    assert line in decisions_of(traced)


def test_all_that_a_deep_update_writes_over_is_one_line() -> None:
    def step(state: dict, rate: blu.Tensor) -> dict:
        return {name: value - rate * value for name, value in state.items()}

    state = {f"layer_{number}": blu.spec((number + 2, 3)) for number in range(6)}
    lines = decisions_of(blu.jit(step, donate=("state",)).trace(state, blu.spec(())))
    assert lines == ["rows_0 writes over the donated argument state.layer_0, and 5 more alike"]


def test_each_use_is_looked_at_once_to_find_out_when_memory_is_free() -> None:
    """Updates of one argument, each of which has to know that it is the last to use what it overwrites."""

    def looks(count: int) -> int:
        def step(x: blu.Tensor, y: blu.Tensor, start: blu.Tensor) -> blu.Tensor:
            for number in range(count):
                x = blu.dynamic_update_slice(x, y * float(number + 2), (start, 0))
            return x

        traced = blu.jit(step, donate=("x",)).trace(blu.spec((8, 4)), blu.spec((1, 4)), blu.spec((), "i32"))
        report = traced.lower("x86-64-v3", stop="blu-bufferize").report
        assert report is not None
        return next(run.statistics["uses looked at"] for run in report.runs if run.name == "blu-bufferize")

    few, some, many = looks(4), looks(8), looks(24)
    assert many - some == 4 * (some - few) > 0


def loss_and_gradient(x: blu.Array, w: blu.Array) -> tuple[blu.Array, blu.Array]:
    """Numbers of rows, made of what the rows beside them are made of."""
    rows = blu.matmul(x, w)
    most = blu.max(rows, 1, keepdims=True)
    terms = blu.exp(rows - most)
    total = blu.sum(terms, 1, keepdims=True)
    return blu.squeeze(blu.log(total) + most, 1), terms / total


def rows_and_their_spread(x: blu.Array, w: blu.Array) -> tuple[blu.Array, blu.Array]:
    """Numbers of rows, for which these are read once more than for the rows beside them."""
    rows = blu.matmul(x, w)
    return blu.var(rows, 1), blu.exp(rows - blu.max(rows, 1, keepdims=True))


@pytest.mark.parametrize(("function", "is_over"), [(loss_and_gradient, True), (rows_and_their_spread, False)])
def test_rows_are_written_over_what_they_are_made_of_where_no_number_beside_them_needs_it(
    function: Callable, is_over: bool
) -> None:
    traced = blu.jit(lambda x, w: [a @ w if a.ndim == 2 else a for a in function(x, w)]).trace(
        blu.spec((64, 300), "f32"), blu.spec((300, 300), "f32")
    )
    text = str(traced.lower("sm_90a", stop="blu-bufferize").module)
    (operands,) = (call for call in re.findall(r"call @rows_\d+\(([^)]*)\)", text) if call.count(",") >= 2)
    names = operands.split(", ")
    assert (len({*names}) < len(names)) == is_over


@pytest.mark.parametrize("batch", [1, 2])
def test_heads_are_written_beside_each_other(batch: int) -> None:
    """Of one sequence as of several, though of one the stride from one to the next is any number."""

    def program(query: blu.Tensor, key: blu.Tensor) -> blu.Tensor:
        found = [blu.attention(*operands, key) for operands in ((query, key), (key, query))]
        return blu.concatenate([item.swapaxes(1, 2).reshape(batch, 8, 32) for item in found], -1)

    heads = blu.spec((batch, 2, 8, 16))
    traced = blu.jit(program).trace(heads, heads)
    assert decisions_of(traced) == []
    kernels = str(traced.lower("x86-64-v3", stop="blu-bufferize").module)
    assert kernels.count(" call @attention_") == 2 and "call @copy" not in kernels
