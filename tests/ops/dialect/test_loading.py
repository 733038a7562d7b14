"""What a context takes: dialects are the same in each, and their declarations are worked out once."""

from __future__ import annotations

import pytest

from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ext, ir
from blu.dialects.core.op import BluDialect
from blu.dialects.plan import PlanDialect

TEXT = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "blu.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ops whose declaration is worked out."""
    names: list[str] = []
    emit = ext.Operation._emit_operation.__func__

    def record(cls: type) -> None:
        names.append(cls._op_name)
        emit(cls)

    monkeypatch.setattr(ext.Operation, "_emit_operation", classmethod(record))
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
    dialect: type, declared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fewer = list(dialect.operations)[:-1]
    monkeypatch.setattr(dialect, "operations", fewer)
    make_context()
    assert declared == [operation._op_name for operation in fewer]
    declared.clear()
    monkeypatch.undo()
    assert make_context().is_dialect_loaded(dialect.DIALECT_NAMESPACE)
