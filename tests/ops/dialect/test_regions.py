"""Ops with regions: traced from functions, verified, printed, read, and with the effects of their bodies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import blu
from blu.compiler.driver.driver import DriverOptions, run_pipeline
from blu.compiler.pipelines.cpu import PIPELINE
from blu.dialects.core.context import make_context
from blu.dialects.core.fields import CAPTURED_SLOTS
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import module_text
from blu.dialects.core.op import OPS, is_pure
from blu.dialects.core.op_table import op_rows
from blu.errors import BluError, ShapeError, TraceError
from blu.frontend.tracing.flat_function import FlatFunction
from blu.passes.framework.base import MlirPass
from blu.passes.graph.simplify import Simplify
from tests.support.programs.interpret import interpret
from tests.support.programs.region_ops import (
    ENDS,
    W,
    X,
    after,
    loop_of,
    main_of,
    names,
    numbers,
    region_ops,
    repeated,
    text_of,
    traced,
)


@pytest.fixture(scope="module", autouse=True)
def declared() -> Iterator[None]:
    with region_ops():
        yield


# Tracing.
@pytest.mark.parametrize("name", ["repeat", "repeat_back", "repeat_lowered"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_program_with_a_body_runs(name: str, count: int) -> None:
    np.testing.assert_allclose(blu.jit(repeated(name, count))(X, W), numbers(count), rtol=1e-6)


def test_a_body_is_traced_once_and_reads_nothing_but_its_arguments() -> None:
    calls = []

    def body(state: Any) -> Any:
        calls.append(state)
        return state * w_of_closure[0]

    w_of_closure: list[Any] = []

    def program(x: Any, w: Any) -> Any:
        w_of_closure.append(w)
        return OPS["repeat"]([x], body=body, count=5)

    module = after(traced(program, X, W))
    assert len(calls) == 1
    operation = loop_of(module)
    assert list(operation.operands) == list(main_of(module).arguments)
    assert len(operation.regions[0].blocks[0].arguments) == 2


def test_bodies_in_bodies_and_states_of_several_dtypes() -> None:
    def program(x: Any, n: Any) -> Any:
        def inner(value: Any, count: Any) -> Any:
            return value * 2 + x, count + 1

        def outer(value: Any, count: Any) -> Any:
            return OPS["repeat"]([value, count], body=inner, count=2)

        return OPS["repeat"]([x, n], body=outer, count=3)

    value, count = blu.jit(program)(X, np.array(10, np.int64))
    np.testing.assert_allclose(value, X * (2**7 - 1), rtol=1e-6)
    assert int(count) == 16


def test_two_bodies_share_what_they_read_from_above() -> None:
    def program(x: Any, y: Any, z: Any) -> Any:
        return OPS["either"](x > 0, first=lambda: y + x, second=lambda: z * y)

    np.testing.assert_array_equal(blu.jit(program)(X, W, 3 * W), np.where(X > 0, W + X, 3 * W * W))
    module = after(traced(program, X, W, 3 * W))
    assert [len(region.blocks[0].arguments) for region in loop_of(module).regions] == [3, 3]


def test_a_function_of_nested_values_as_a_body() -> None:
    def step(state: dict[str, Any], scale: float) -> dict[str, Any]:
        return {"a": state["a"] + state["b"][0], "b": [state["b"][0] * scale]}

    def program(a: Any, b: Any) -> Any:
        flat = FlatFunction(step, ({"a": a, "b": [b]}, 2.0))
        results = OPS["repeat"](flat.tensors, body=flat, count=3)
        return flat.result_tree.unflatten(results)

    found = blu.jit(program)(X, W)
    np.testing.assert_allclose(found["a"], X + 7 * W, rtol=1e-6)
    np.testing.assert_allclose(found["b"][0], 8 * W, rtol=1e-6)


def test_large_arrays_and_gradients_in_a_body() -> None:
    large = np.full((100, 100), 0.5, np.float32)

    def program(x: Any) -> Any:
        def body(state: Any) -> Any:
            return blu.grad(lambda value: blu.sum(value * value * large[0, 0]))(state) + blu.sum(large) * 0

        return OPS["repeat"]([x], body=body, count=2)[0]

    np.testing.assert_allclose(blu.jit(program)(X), X, rtol=1e-6)


def leaking(x: Any) -> Any:
    kept = []

    def body(state: Any) -> Any:
        kept.append(state * 2)
        return state

    OPS["repeat"]([x], body=body, count=2)
    return OPS["repeat"]([x], body=lambda state: state + kept[0], count=2)


WRONG = {
    "no tensor": (lambda x: OPS["repeat"]([x], body=lambda s: "text", count=2), TraceError, "body gives a str"),
    "other type": (lambda x: OPS["repeat"]([x], body=blu.sum, count=2), ShapeError, "gives \\[f32\\[\\]\\]"),
    "in the body": (lambda x: OPS["repeat"]([x], body=lambda s: s @ s.reshape((2, 2)), count=2), BluError, "matmul"),
    "no body": (lambda x: OPS["repeat"]([x], count=2), BluError, "is called as Repeat\\(state, count=..., body=...\\)"),
    "of another": (leaking, TraceError, "a tensor of another body is used, f32\\[4\\]"),
    "too many": (
        lambda x: OPS["repeat"]([x], body=lambda s: [s] * (CAPTURED_SLOTS + 1), count=2),
        ShapeError,
        f"at most {CAPTURED_SLOTS}",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_in_a_body_are_told_with_the_line(case: str) -> None:
    function, error, message = WRONG[case]
    with pytest.raises(error, match=message) as raised:
        blu.jit(function).trace(X)
    assert "test_regions.py:" in str(raised.value.location)


def test_what_a_body_computes_is_no_value_outside() -> None:
    def program(x: Any) -> Any:
        kept = []
        OPS["repeat"]([x], body=lambda state: kept.append(state * 2) or state, count=2)
        return kept[0] + x

    with pytest.raises(BluError, match="body of a repeat computes is used outside") as raised:
        blu.jit(program)(X)
    assert "test_regions.py:" in str(raised.value)


def test_a_trace_goes_on_after_a_mistake_that_is_caught() -> None:
    def program(x: Any) -> Any:
        with pytest.raises(TraceError):
            OPS["repeat"]([x], body=lambda state: "text", count=2)
        return x + 1

    np.testing.assert_array_equal(blu.jit(program)(X), X + 1)


# Text.
REFUSED = {
    "no yield": ('"blu.exp"(%a) : (tensor<4xf32>) -> tensor<4xf32>', None, "block that ends in blu.yield"),
    "from above": (ENDS.replace("%v", "%y"), None, "using value defined outside the region"),
    "no captured": (ENDS.replace("%v", "%a"), "%a: tensor<4xf32>", "takes f32\\[4\\], but its arguments are nothing"),
    "other captured": (
        ENDS.replace("%v", "%a"),
        "%a: tensor<4xf32>, %b: tensor<3xf32>",
        "captures f32\\[4\\], but the last arguments of body are f32\\[3\\]",
    ),
    "other argument": (
        ENDS.replace("%v", "%b"),
        "%a: tensor<f32>, %b: tensor<4xf32>",
        "body takes f32\\[4\\], but its arguments are f32\\[\\]",
    ),
    "other result": (
        ENDS.replace("%v", "%s").replace("(tensor<4xf32>)", "(tensor<3xf32>)"),
        "%a: tensor<4xf32>, %b: tensor<4xf32>",
        "the body takes",
    ),
}


def test_text_with_a_body_is_read() -> None:
    assert names(after(text_of())) == ["func.func", "exp", "repeat", "yield", "func.return"]


@pytest.mark.parametrize("case", REFUSED)
def test_hand_written_bodies_are_refused_with_their_line(case: str) -> None:
    body, arguments, message = REFUSED[case]
    if "%s" in body:
        body = '%s = "blu.iota"() {shape = array<i64: 3>, axis = 0 : i64, dtype = f32} : () -> tensor<3xf32>\n' + body
    text = text_of(body, arguments) if arguments else text_of(body)
    with make_context() as context, pytest.raises(ir.MLIRError, match=message) as raised:
        ir.Module.parse(text, context)
    assert '"-":' in str(raised.value)


def test_text_of_a_traced_body_reads_back_as_the_same() -> None:
    def program(x: Any, w: Any) -> Any:
        return OPS["repeat"]([x], body=lambda state: repeated()(state, w), count=2)

    text = traced(program, X, W)
    assert module_text(after(text)) == text
    with make_context() as context:
        loaded = ir.Module.parse(text, context)
        (found,) = interpret(loaded, [X, W])
    np.testing.assert_allclose(found, blu.jit(program)(X, W)[0], rtol=1e-6)


def test_dumps_of_bodies_read_back(tmp_path: Any) -> None:
    with make_context() as context:
        module = ir.Module.parse(traced(repeated(), X, W), context)
        run_pipeline(module, PIPELINE.steps(stop="blu"), DriverOptions(dump_dir=tmp_path))
    texts = [path.read_text() for path in sorted(tmp_path.glob("*.mlir"))]
    assert any("blu.repeat" in text for text in texts)
    assert all(after(text).operation.verify() for text in texts)


def test_the_table_of_ops_shows_regions() -> None:
    rows = {row.name: row for row in op_rows(("repeat_lowered",))}
    assert rows["either"].regions == "first, second" and rows["exp"].regions == ""
    assert rows["repeat"].operands == "state..., captured..." and rows["repeat"].lowering == "decompose"


# Effects.
def told(name: str = "tell") -> str:
    """Two equal ops whose bodies do what `name` says, and one that nobody reads."""

    def program(x: Any) -> Any:
        body = lambda state: OPS[name](state) * 2 if name == "tell" else blu.sin(state) * 2  # noqa: E731
        first, second, _ = (OPS["repeat"]([x], body=body, count=2)[0] for _ in range(3))
        return first + second

    return traced(program, X)


@pytest.mark.parametrize(("item", "pure"), [(MlirPass("cse"), 1), (Simplify(), 2), (MlirPass("canonicalize"), 2)])
def test_an_op_has_the_effects_of_its_body(item: Any, pure: int) -> None:
    assert names(after(told(), item)).count("repeat") == 3
    assert names(after(told("sin"), item)).count("repeat") == pure
    modules = after(told()), after(told("sin"))
    assert [is_pure(loop_of(module)) for module in modules] == [False, True]


def test_effects_in_a_body_happen_as_often_as_it_is_done() -> None:
    told_thrice = blu.jit(lambda x: OPS["repeat"]([x], body=lambda state: OPS["tell"](state) + 1, count=3))
    assert told_thrice.trace(X).lower(stop="cse").text.count('"blu.tell"') == 3
