"""Passes treat ops with bodies as what they are: they look into bodies, or leave them, or refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import blu
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import operations_in
from blu.dialects.core.op import OPS
from blu.errors import BluError
from blu.passes.framework.base import MlirPass
from blu.passes.gpu.rows.chunk_rows import ChunkRows
from blu.passes.graph.autocast import Autocast
from blu.passes.graph.decompose import Decompose
from blu.passes.graph.inline import Inline
from blu.passes.graph.reassociate import Reassociate
from blu.passes.graph.simplify import Simplify
from tests.support.programs.region_ops import (
    ENDS,
    W,
    X,
    after,
    loop_of,
    names,
    region_ops,
    repeated,
    text_of,
    traced,
)


@pytest.fixture(scope="module", autouse=True)
def declared() -> Iterator[None]:
    with region_ops():
        yield


def test_simplifications_reach_into_bodies_and_no_further() -> None:
    def program(x: Any) -> Any:
        return OPS["repeat"]([x * 3.0], body=lambda state: (state * 3.0) * 1.0, count=2)

    module = after(traced(program, X), Simplify(), Reassociate(), MlirPass("cse"))
    loop = loop_of(module)
    assert names(loop) == ["constant", "multiply", "yield"]
    assert names(module).count("constant") == 2


def test_precision_is_set_in_bodies() -> None:
    def program(x: Any) -> Any:
        with blu.autocast("bf16"):
            return OPS["repeat"]([x], body=lambda state: blu.exp(state @ state) @ state, count=2)

    x = np.ones((4, 4), np.float32)
    module = after(traced(program, x), Autocast())
    loop = loop_of(module)
    products = [item for item in operations_in(loop) if item.name == "blu.matmul"]
    assert [ir.StringAttr(item.attributes["precision"]).value for item in products] == ["bf16", "bf16"]
    (last,) = (item for item in operations_in(loop) if item.name == "blu.yield")
    assert last.operands[0].owner.name == "blu.matmul"  # what the body gives is stored as it is
    assert blu.jit(program)(x).__class__ is tuple


def test_composites_in_bodies_are_decomposed_before_the_body_is_copied() -> None:
    def program(x: Any) -> Any:
        return OPS["repeat"]([x], body=lambda state: blu.softmax(state), count=4)

    assert "softmax" not in names(after(traced(program, X), Decompose()))


def test_calls_in_bodies_are_inlined() -> None:
    text = text_of("%v = func.call @f(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n" + ENDS)
    callee = """func.func private @f(%p: tensor<4xf32>, %q: tensor<4xf32>) -> tensor<4xf32> {
      %r = "blu.multiply"(%p, %q) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      return %r : tensor<4xf32>
    }"""
    assert names(after(text + callee, Inline())) == ["func.func", "exp", "repeat", "multiply", "yield", "func.return"]


def test_products_in_bodies_are_cut_into_rows_there() -> None:
    def program(x: Any, w: Any) -> Any:
        def body(state: Any, wide: Any) -> Any:
            product = state @ w
            return blu.sum(product, axis=1, keepdims=True), product

        return OPS["repeat"]([x, x @ w], body=body, count=2)

    text = traced(program, np.ones((8, 1), np.float32), np.ones((1, 64), np.float32))
    module = after(text, ChunkRows(largest_bytes=1024))
    loop = loop_of(module)
    assert names(loop).count("matmul") == 2


def gradient_in(text: str) -> str:
    """The text of the gradient of `loss`."""
    return text.partition("func.func private @loss_gradient(")[2].partition("func.func")[0]


def test_gradients_compute_what_a_body_gives_again() -> None:
    def loss(x: Any, w: Any) -> Any:
        with blu.checkpoint():
            return blu.sum(blu.sin(blu.exp(OPS["repeat_back"]([x], body=lambda state: state * w, count=2)[0])))

    program = blu.jit(blu.grad(loss))
    text = program.trace(X, W).lower(stop="blu-remat").text
    assert gradient_in(text).count('"blu.repeat_back"') == 2
    np.testing.assert_allclose(program(X, W), np.cos(np.exp(X * W * W)) * np.exp(X * W * W) * W * W, rtol=1e-5)


@pytest.mark.parametrize("name", ["repeat", "repeat_back"])
def test_gradients_go_through_bodies(name: str) -> None:
    def loss(x: Any, w: Any) -> Any:
        return blu.sum(repeated(name)(x, w) * w)

    def expected(x: Any, w: Any) -> Any:
        value = x
        for _ in range(3):
            value = blu.tanh(value * w) + 1
        return blu.sum(value * w)

    found = blu.jit(blu.grad(loss, argnums=(0, 1)))(X, W)
    for one, other in zip(found, blu.jit(blu.grad(expected, argnums=(0, 1)))(X, W), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    second = blu.grad(lambda x, w: blu.sum(blu.grad(loss)(x, w)))
    wanted = blu.grad(lambda x, w: blu.sum(blu.grad(expected)(x, w)))
    np.testing.assert_allclose(blu.jit(second)(X, W), blu.jit(wanted)(X, W), rtol=1e-4, atol=1e-6)


def test_parts_of_a_body_that_is_written_out_are_told_apart() -> None:
    def loss(x: Any) -> Any:
        def body(state: Any) -> Any:
            with blu.checkpoint():
                return blu.sin(blu.exp(state))

        return blu.sum(OPS["repeat"]([x], body=body, count=3)[0])

    text = blu.jit(blu.grad(loss)).trace(X).lower(stop="blu-differentiate").text
    parts = re.findall(r'"blu.exp".*region = (\d+)', gradient_in(text))
    assert len(parts) == len(set(parts)) == 3


def test_an_op_with_a_body_and_no_gradient_is_refused() -> None:
    with pytest.raises(BluError, match=r"blu\.repeat_lowered has no gradient") as raised:
        blu.jit(blu.grad(lambda x, w: blu.sum(repeated("repeat_lowered")(x, w))))(X, W)
    assert re.search(r"(region_ops|test_bodies)\.py:\d", str(raised.value.location))


@pytest.mark.parametrize("target", ["x86-64-v3", "sm_80", "sm_90a"])
def test_an_op_with_a_body_that_nothing_lowers_is_refused(target: str) -> None:
    told = lambda x, w: OPS["repeat_bare"]([x], body=lambda state: OPS["tell"](state), count=2)  # noqa: E731
    for function in (repeated("repeat_bare"), told):
        with pytest.raises(BluError, match=r"no rule lowers blu\.repeat_bare, which has regions, to linalg") as raised:
            blu.jit(function).trace(X, W).lower(target)
        assert re.search(r"(region_ops|test_bodies)\.py:\d", str(raised.value.location))


def test_effects_in_a_body_that_gradients_write_out_are_refused_by_vjp() -> None:
    def program(x: Any) -> Any:
        function = lambda x: OPS["repeat"]([x], body=lambda state: OPS["tell"](state) * 2, count=2)[0]  # noqa: E731
        result, pull_back = blu.vjp(function, x)
        return result, pull_back(x)

    with pytest.raises(BluError, match=r"blu\.tell has effects, which blu\.vjp would have happen twice") as raised:
        blu.jit(program).trace(X).lower(stop="blu")
    assert "test_bodies.py:" in str(raised.value.location)
