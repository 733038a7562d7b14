"""Ops that were found right are not verified again during a run, and wrong ones are found all the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from blu.compiler.driver.source import IrSource, parse_source
from blu.dialects.core import verification
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import module_text
from blu.dialects.core.remembering import once, remembered, remembering

TEXT = """
func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<3xf32>) {
  %0 = "blu.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "blu.exp"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "blu.exp"(%y) : (tensor<3xf32>) -> tensor<3xf32>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xf32>, tensor<3xf32>
}
"""


@pytest.fixture
def exponentials() -> Iterator[list[ir.Operation]]:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(TEXT)
        block = module.body.operations[0].regions[0].blocks[0]
        yield [item.operation for item in block.operations if item.operation.name == "blu.exp"]


def test_equal_ops_are_verified_once_in_a_run(exponentials: list[ir.Operation]) -> None:
    seen: list[ir.Operation] = []
    check = remembered(lambda operation: not seen.append(operation))
    first, second, other = exponentials
    with remembering():
        assert all(check(operation) for operation in (first, second, other, first))
    assert seen == [first, other]
    assert check(second)
    assert seen == [first, other, second]


def test_a_function_of_a_type_is_asked_once_in_a_run(exponentials: list[ir.Operation]) -> None:
    seen: list[ir.Type] = []
    ask = once(lambda type_: seen.append(type_) or str(type_))
    types = [item.results[0].type for item in exponentials]
    with remembering():
        assert [ask(item) for item in types] == [str(item) for item in types]
        with remembering():
            assert ask(types[0]) == str(types[0])
        assert seen == [types[0], types[2]]
    assert ask(types[0]) == str(types[0])
    assert len(seen) == 3


def test_a_wrong_op_is_refused_every_time(exponentials: list[ir.Operation]) -> None:
    check = remembered(lambda operation: False)
    with remembering():
        assert not check(exponentials[0])
        assert not check(exponentials[0])


def test_a_wrong_type_is_found_beside_right_ones(exponentials: list[ir.Operation]) -> None:
    first, second, _ = exponentials
    with remembering():
        assert first.verify() and second.verify()
        second.operands[0].set_type(ir.Type.parse("tensor<4xf32>"))
        with pytest.raises(ir.MLIRError):
            second.verify()


def test_reading_and_printing_look_at_equal_ops_once(monkeypatch: pytest.MonkeyPatch) -> None:
    inferred, seen = verification._inferred, []
    monkeypatch.setattr(verification, "_inferred", lambda *given: seen.append(given[1].name) or inferred(*given))
    module = parse_source(IrSource("x.mlir", TEXT), make_context())
    assert seen == ["blu.exp"] * 2
    assert '"blu.exp"' in module_text(module)
    assert seen == ["blu.exp"] * 4
