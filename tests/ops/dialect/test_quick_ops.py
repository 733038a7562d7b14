"""Builders that are quicker than upstream's make the same ops."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from blu.dialects.core import mlir
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.dialects.quick_ops import OF_ONE_TYPE, QUICK, TO_A_TYPE

I64, F32, V2 = "i64", "f32", "vector<2xf32>"
# Functions of a type and an operand, by the types of both.
CONVERSIONS = {
    "bitcast": (I64, "f64"),
    "extf": ("f64", F32),
    "extsi": (I64, "i32"),
    "extui": (I64, "i32"),
    "index_cast": ("index", I64),
    "index_castui": ("index", I64),
    "truncf": ("f16", F32),
    "trunci": ("i32", I64),
    "vector.bitcast": ("vector<1xi64>", V2),
    "vector.broadcast": (V2, F32),
    "llvm.inttoptr": ("!llvm.ptr<3>", I64),
}


@pytest.fixture
def block() -> Iterator[ir.Block]:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse("func.func @f() { return }")
        with ir.InsertionPoint(module.body.operations[0].regions[0].blocks[0].operations[0]):
            yield module.body.operations[0].regions[0].blocks[0]


def _value(type_: str) -> ir.Value:
    return ir.Operation.create("ub.poison", results=[ir.Type.parse(type_)]).result


def _both(block: ir.Block, dialect: str, name: str, *arguments: Any) -> list[str]:
    """The op that upstream's builder makes, and the one that ours does; both verified."""
    quick = getattr(mlir, dialect)  # which loads upstream's
    upstream = importlib.import_module(f"{mlir.PACKAGE}.dialects.{dialect}")
    assert getattr(upstream, name) is not getattr(quick, name)
    made = [getattr(module, name)(*arguments).owner for module in (upstream, quick)]
    assert all(operation.operation.verify() for operation in made)
    return [str(operation).partition("= ")[2] for operation in made]


@pytest.mark.parametrize("name", OF_ONE_TYPE)
def test_operations_on_one_type(block: ir.Block, name: str) -> None:
    value = _value(F32 if name in ("addf", "divf", "mulf", "subf") else I64)
    upstream, quick = _both(block, "arith", name, value, value)
    assert quick == upstream


@pytest.mark.parametrize(("dialect", "name"), [(dialect, name) for dialect in QUICK for name in TO_A_TYPE[dialect]])
def test_conversions(block: ir.Block, dialect: str, name: str) -> None:
    target, source = CONVERSIONS.get(f"{dialect}.{name}") or CONVERSIONS[name]
    upstream, quick = _both(block, dialect, name, ir.Type.parse(target), _value(source))
    assert quick == upstream


def test_others(block: ir.Block) -> None:
    i64 = ir.Type.parse(I64)
    number, element = ir.IntegerAttr.get(i64, 5), _value(F32)
    for dialect, name, *arguments in (
        ("arith", "constant", i64, number),
        ("arith", "constant", i64, 5),
        ("vector", "from_elements", ir.Type.parse(V2), [element, element]),
        ("llvm", "extractvalue", ir.F32Type.get(), _value("!llvm.struct<(i64, f32)>"), [1]),
    ):
        upstream, quick = _both(block, dialect, name, *arguments)
        assert quick == upstream
    fast = ir.Attribute.parse("#arith.fastmath<fast>")
    assert "fastmath<fast>" in str(mlir.arith.addf(element, element, fastmath=fast).owner)
