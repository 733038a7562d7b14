"""Tests of nested arguments: flattening, names, comparison, and the line that says what changed."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import ArgumentError
from blu.frontend.tracing import tree

Pair = namedtuple("Pair", "left right")


@dataclass
class Batch:
    tokens: Any
    mask: Any = None
    kind: str = field(default="text", metadata={"static": True})


@dataclass(frozen=True)
class Shape:
    shape: tuple[int, ...]
    dtype: str


NESTED = {"a": [1, (2, Pair(3, None))], "b": Batch(4, [5], "image"), 7: {}, "c": OrderedDict(x=6)}


def test_leaves_names_and_back() -> None:
    leaves, treedef = tree.flatten(NESTED)
    assert leaves == [1, 2, 3, 4, 5, 6]
    assert treedef.names == ("a.0", "a.1.0", "a.1.1.left", "b.tokens", "b.mask.0", "c.x")
    assert treedef.num_leaves == 6
    rebuilt = treedef.unflatten(leaves)
    assert rebuilt == NESTED
    assert type(rebuilt["a"][1][1]) is Pair
    assert type(rebuilt["c"]) is OrderedDict
    assert treedef.unflatten("abcdef")["b"] == Batch("d", ["e"], "image")


def test_a_leaf_alone_is_a_tree() -> None:
    leaves, treedef = tree.flatten(3)
    assert (leaves, treedef.names, treedef.unflatten(["x"])) == ([3], ("",), "x")


def test_what_stands_for_an_array_is_a_leaf() -> None:
    spec = Shape((2,), "f32")
    assert tree.flatten([spec, np.zeros(2)])[1].names == ("0", "1")
    assert tree.flatten(spec)[0] == [spec]


def test_equal_trees_have_equal_hashes() -> None:
    left, right = tree.flatten(NESTED)[1], tree.flatten({**NESTED, "a": [0, (0, Pair(0, None))]})[1]
    assert left == right
    assert hash(left) == hash(right)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"a": [1, (2, Pair(3, 4))]}, "a.1.1.right: None -> leaf"),
        ({"a": [1, [2, Pair(3, None)]]}, "a.1: tuple(0, 1) -> list(0, 1)"),
        ({"b": Batch(4, [5, 6], "image")}, "b.mask: list(0) -> list(0, 1)"),
        ({"b": Batch(4, [5], "text")}, "b: kind = 'image' -> 'text'"),
        ({"d": 1}, "the argument: dict(a, b, 7, c) -> dict(a, b, 7, c, d)"),
        ({}, ""),
    ],
)
def test_a_difference_is_one_line(change: dict, line: str) -> None:
    before, after = tree.flatten(NESTED)[1], tree.flatten({**NESTED, **change})[1]
    assert tree.describe_difference(before, after) == line
    assert (before == after) == (line == "")


def test_static_values_of_other_types_differ() -> None:
    frozen = [
        tree.freeze(value) for value in (1, 1.0, True, "1", -0.0, 0.0, (1,), [1], {1}, {1: 1}, Shape((1,), "f32"))
    ]
    assert len(set(frozen)) == len(frozen)
    assert tree.freeze(float("nan")) == tree.freeze(float("nan"))
    assert tree.Static([1, {"a": 2}]) == tree.Static([1, {"a": 2}])


def test_a_static_value_is_compared_as_it_was() -> None:
    sizes = [1, 2]
    before = tree.Static(sizes)
    sizes.append(3)
    assert before != tree.Static(sizes)


def test_a_value_that_cannot_be_recognised_is_refused() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(ArgumentError, match="type Unhashable is neither an array nor hashable"):
        tree.freeze(Unhashable())


def test_depth_costs_no_recursion() -> None:
    deep: Any = 1
    for _ in range(15_000):
        deep = [deep]
    leaves, treedef = tree.flatten(deep)
    assert leaves == [1]
    rebuilt = treedef.unflatten([2])
    for _ in range(15_000):
        [rebuilt] = rebuilt
    assert rebuilt == 2
    assert hash(treedef) == hash(tree.flatten(deep)[1])


def test_a_tree_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ArgumentError, match="hold itself"):
        tree.flatten(loop)


def test_types_can_be_registered() -> None:
    class Interval:
        def __init__(self, low: Any, high: Any, unit: str):
            self.low, self.high, self.unit = low, high, unit

    @dataclass
    class Option:
        value: int

    tree.register(
        Interval,
        lambda item: ({"low": item.low, "high": item.high}, item.unit),
        lambda children, unit: Interval(**children, unit=unit),
    )
    tree.register_leaf(Option)
    option = Option(3)
    leaves, treedef = tree.flatten([Interval(1, 2, "m"), option])
    assert leaves == [1, 2, option]
    assert treedef.names == ("0.low", "0.high", "1")
    rebuilt = treedef.unflatten([5, 6, option])[0]
    assert (rebuilt.low, rebuilt.high, rebuilt.unit) == (5, 6, "m")
    assert treedef != tree.flatten([Interval(1, 2, "km"), option])[1]


def test_a_dtype_is_a_static_leaf() -> None:
    from blu.dialects.core.dtypes import f32
    from blu.frontend.tracing.spec import is_static

    assert tree.flatten({"dtype": f32})[0] == [f32]
    assert is_static(f32)


def test_trees_are_mapped_by_hand() -> None:
    found = blu.tree.map(lambda one, other: one + other, NESTED, blu.tree.map(lambda leaf: 10 * leaf, NESTED))
    assert blu.tree.leaves(found) == [11, 22, 33, 44, 55, 66]
    leaves, nesting = blu.tree.flatten(found)
    assert blu.tree.unflatten(nesting, leaves) == found and found["b"].kind == "image"
    assert blu.tree.items({"w": 1, "h": (2, None)}) == [("w", 1), ("h.0", 2)]


def test_models_are_mapped_in_compiled_functions() -> None:
    model = blu.nn.Linear(2, 3).initialize()
    halves = blu.jit(lambda model: blu.tree.map(lambda leaf: leaf.astype("bf16"), model))(model)
    assert isinstance(halves, blu.nn.Linear)
    assert [(name, str(leaf.dtype)) for name, leaf in blu.tree.items(halves)] == [
        ("weight", "bfloat16"),
        ("bias", "bfloat16"),
    ]


def test_trees_that_differ_are_told_apart() -> None:
    with pytest.raises(ArgumentError, match=r"tree\.map: the trees differ: the other has no leaf 'b\.0'"):
        blu.tree.map(max, {"a": 1, "b": [2]}, {"a": 1})
    with pytest.raises(ArgumentError, match=r"the first has no leaf 'c'"):
        blu.tree.map(max, {"a": 1}, {"a": 1, "c": 2})
    with pytest.raises(ArgumentError, match=r"in another order"):
        blu.tree.map(max, {"a": 1, "b": 1}, {"b": 1, "a": 2})
    with pytest.raises(ArgumentError, match=r"has 1 leaves, got 2"):
        blu.tree.unflatten(blu.tree.flatten({"a": 1})[1], [1, 2])
