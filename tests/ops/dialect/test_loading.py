"""What a context takes: dialects are the same in each, and their declarations are worked out once."""

from __future__ import annotations

import importlib
import types
from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

from blu.dialects.core import dialect as dialects
from blu.dialects.core.context import make_context
from blu.dialects.core.dialect import ATTRIBUTE, OPTIONAL, REGION, RESULT, VARIADIC, PythonDialect, Slot
from blu.dialects.core.mlir import PACKAGE, ir
from blu.dialects.core.op import BluDialect
from blu.dialects.plan import PlanDialect

SAME = TypeVar("SAME")
TEXT = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "blu.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ops whose declaration is written."""
    names: list[str] = []
    write = dialects._operation

    def record(operation: dialects.Declared) -> object:
        names.append(operation.name)
        return write(operation)

    monkeypatch.setattr(dialects, "_operation", record)
    return names


def test_the_second_context_reads_what_the_first_has_written(declared: list[str]) -> None:
    make_context()
    declared.clear()
    context = make_context()
    assert declared == []
    with context:
        module = ir.Module.parse(TEXT)
        assert module.operation.verify()
        with pytest.raises(ir.MLIRError, match="exp"):
            ir.Module.parse(TEXT.replace("-> tensor<2x3xf32>\n  return", "-> tensor<2xf32>\n  return"))


@pytest.mark.parametrize("dialect", [BluDialect, PlanDialect])
def test_a_dialect_with_other_ops_is_written_anew(
    dialect: PythonDialect, declared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fewer = list(dialect.operations)[:-1]
    monkeypatch.setattr(dialect, "operations", fewer)
    make_context()
    assert declared == [operation.name for operation in fewer]
    declared.clear()
    monkeypatch.undo()
    assert make_context().is_dialect_loaded(dialect.name)


@pytest.mark.parametrize("dialect", [BluDialect, PlanDialect])
def test_declarations_are_those_that_the_bindings_build(dialect: PythonDialect) -> None:
    with make_context(), ir.Location.unknown():
        assert _forms(dialect.declaration()) == _forms(_built(dialect))


def _built(dialect: PythonDialect) -> ir.Module:
    """What MLIR's Python makes of the same ops, as classes with annotations."""
    ext = importlib.import_module(f"{PACKAGE}.dialects.ext")
    built = types.new_class("Built", (ext.Dialect,), {"name": dialect.name})
    for operation in dialect.operations:
        body = {"__annotations__": {slot.name: _annotation(slot) for slot in operation.slots}}
        types.new_class(
            "One", (built.Operation,), {"name": operation.name}, lambda space, body=body: space.update(body)
        )
    return built._emit_module()


def _annotation(slot: Slot) -> Any:
    if slot.kind in (ATTRIBUTE, REGION):
        return Any if slot.kind == ATTRIBUTE else ir.Region
    of = SAME if slot.constraint else Any
    one = ir.OpResult[of] if slot.kind == RESULT else ir.Value[of]
    return {VARIADIC: Sequence[one], OPTIONAL: one | None}.get(slot.how_many, one)


def _forms(module: ir.Module) -> list[list[object]]:
    """What each op is declared to have: names and kinds of its fields, and which of them have one constraint."""
    return [_form(item) for item in module.body.operations[0].regions[0].blocks[0].operations]


def _form(declared: ir.OpView) -> list[object]:
    constraints: dict[ir.Value, int] = {}
    form: list[object] = [declared.attributes["sym_name"]]
    for item in declared.regions[0].blocks[0].operations:
        used = [constraints.setdefault(value, len(constraints)) for value in item.operands]
        if used:
            form.append((item.name, used, {str(name): value for name, value in item.attributes.items()}))
    return form
