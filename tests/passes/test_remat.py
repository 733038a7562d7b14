"""Values that gradients compute again: the same numbers from less memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import blu
from blu import nn
from blu.compiler.driver.driver import DriverOptions
from blu.compiler.pipelines import cpu, sm90
from blu.dialects.core.mlir import func, ir
from blu.errors import ArgumentError, BluError
from blu.frontend.tracing.tree import flatten
from blu.passes.framework.base import find
from blu.passes.graph.remat import Remat

SMALL = {"n_layer": 3, "n_embd": 36, "n_head": 3, "vocab_size": 131, "n_positions": 40}
WIDTH, DEPTH = 48, 8


def gradients(model: Any, tokens: Any, targets: Any) -> Any:
    return blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)


def small_gpt2() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    model = nn.GPT2(SMALL)
    model.initialize(1)
    return (model, *(rng.integers(0, 131, (2, 33)).astype(np.int32) for _ in range(2)))


def arena_of(program: Any) -> int:
    return program.plan.arena_bytes


def assert_same_but_for_rounding(found: Any, expected: Any) -> None:
    for one, other in zip(flatten(found)[0], flatten(expected)[0], strict=True):
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        assert np.linalg.norm(one - other) <= 5e-7 * np.linalg.norm(other) + 1e-12


@pytest.mark.parametrize("budget", [1, 40_000, 150_000])
def test_a_budget_changes_nothing_but_rounding(budget: int) -> None:
    arguments = small_gpt2()
    plain, less = (blu.jit(gradients, remat_budget=number).trace(*arguments).compile() for number in (0, budget))
    assert arena_of(less.program) < arena_of(plain.program)
    assert_same_but_for_rounding(less(*arguments), plain(*arguments))


def test_half_of_the_activations_of_gpt2() -> None:
    """GPT-2 124M at 4 sequences of 256 tokens; logits and their gradients alone take 412 MB of 1022."""
    tokens = blu.spec((4, 256), "i32")
    plain, less = (_planned(budget, nn.GPT2({}), tokens, tokens) for budget in (0, 50_000_000))
    assert less <= 0.6 * plain
    assert less <= 0.46 * plain


def _planned(budget: int, *arguments: Any) -> int:
    return planned_arena(blu.jit(gradients, remat_budget=budget).trace(*arguments))


def planned_arena(traced: Any) -> int:
    """The bytes of intermediate results, which are known before there is machine code."""
    lowered = traced.lower(stop="memref")
    with lowered.module.context:
        return ir.IntegerAttr(lowered.module.operation.attributes["blu.arena_bytes"]).value


def deep(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The loss of layers of a function of (x, weight)."""

    def loss(x: Any, weights: list[Any]) -> Any:
        for weight in weights:
            x = function(x, weight)
        return blu.mean(blu.square(x))

    def both(x: Any, weights: list[Any]) -> Any:
        return blu.value_and_grad(loss, argnums=1)(x, weights)

    return both


def layer(x: Any, weight: Any) -> Any:
    wide = blu.gelu(x @ weight)
    return x + blu.tanh(wide @ weight.swapaxes(0, 1)) * blu.sigmoid(x)


def deep_arguments(depth: int = DEPTH) -> tuple[np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(2)
    weights = [rng.standard_normal((WIDTH, 4 * WIDTH)).astype(np.float32) / 16 for _ in range(depth)]
    return rng.standard_normal((256, WIDTH)).astype(np.float32), weights


@pytest.fixture(scope="module")
def plain() -> Any:
    return blu.jit(deep(layer)).trace(*deep_arguments()).compile()


def products_in(traced: Any) -> int:
    return traced.lower(stop="blu").text.count('"blu.matmul"')


@pytest.mark.parametrize(("policy", "products", "share"), [("nothing", 6, 0.25), ("contractions", 5, 0.8)])
def test_a_checkpoint_keeps_what_its_policy_says(plain: Any, policy: str, products: int, share: float) -> None:
    """Without one 6 products a layer: 2 forward, 4 for the gradients; the second is never needed to go back."""
    arguments = deep_arguments()
    traced = blu.jit(deep(blu.checkpoint(policy)(layer))).trace(*arguments)
    assert products_in(traced) == _expected_products(policy)
    less = traced.compile()
    assert arena_of(less.program) <= share * arena_of(plain.program)
    assert_same_but_for_rounding(less(*arguments), plain(*arguments))
    assert "checkpoint" not in traced.lower(stop="blu").text


def _expected_products(policy: str, depth: int = DEPTH) -> int:
    """The gradient of the first layer's input is not asked for."""
    forward, backward = 2 * depth, 4 * depth - 1
    return forward + backward + (2 * depth if policy == "nothing" else 0)


def test_what_leaves_a_checkpoint_is_kept() -> None:
    """What is read after it, in another part or by the caller, is there: only what is inside is computed again."""

    def loss(weight: Any, x: Any) -> Any:
        with blu.checkpoint():
            inside = blu.sin(x @ weight)
            returned = blu.exp(inside)
            read = blu.tanh(blu.sigmoid(returned))
        with blu.checkpoint():
            after = blu.square(read)
        return blu.sum(after), returned

    arguments = np.ones((4, 5), np.float32) / 5, np.ones((3, 4), np.float32) / 4
    text = blu.jit(blu.value_and_grad(loss, has_aux=True)).trace(*arguments).lower(stop="blu").text
    counts = {name: text.count(f'"blu.{name}"') for name in ("matmul", "exp", "sigmoid", "tanh")}
    assert counts == {"matmul": 3, "exp": 1, "sigmoid": 2, "tanh": 1}


def test_everything_is_kept_whatever_the_budget() -> None:
    traced = blu.jit(deep(blu.checkpoint("everything")(layer)), remat_budget=1).trace(*deep_arguments())
    assert products_in(traced) == _expected_products("everything")


def test_what_is_computed_again_does_not_reach_back_through_all_layers() -> None:
    """However small the budget, some values are kept on the way, and no op is computed a third time."""
    arguments = deep_arguments(3 * DEPTH)
    traced = blu.jit(deep(layer), remat_budget=1).trace(*arguments)
    assert products_in(traced) <= _expected_products("nothing", 3 * DEPTH)
    assert planned_arena(traced) <= 0.4 * planned_arena(blu.jit(deep(layer)).trace(*arguments))


def test_of_nested_checkpoints_the_outermost_counts() -> None:
    def inner(x: Any, weight: Any) -> Any:
        with blu.checkpoint("everything"):
            return layer(x, weight)

    traced = blu.jit(deep(blu.checkpoint("nothing")(inner))).trace(*deep_arguments())
    assert products_in(traced) == _expected_products("nothing")


def test_a_checkpoint_is_a_block_too_and_takes_autocast() -> None:
    def half(x: Any, weight: Any) -> Any:
        with blu.autocast("bf16"), blu.checkpoint():
            return layer(x, weight)

    def kept(x: Any, weight: Any) -> Any:
        with blu.autocast("bf16"):
            return layer(x, weight)

    arguments = deep_arguments()
    less, more = (blu.jit(deep(function)).trace(*arguments).compile() for function in (half, kept))
    assert arena_of(less.program) <= 0.4 * arena_of(more.program)
    assert_same_but_for_rounding(less(*arguments), more(*arguments))


def test_second_order_gradients_of_a_checkpoint() -> None:
    def cube(x: Any) -> Any:
        with blu.checkpoint():
            return blu.sum(blu.exp(blu.sin(x)))

    x = np.linspace(-1, 1, 7).astype(np.float32)
    second = blu.jit(blu.grad(lambda x: blu.sum(blu.grad(cube)(x))))(x)
    expected = np.exp(np.sin(x)) * (np.cos(x) ** 2 - np.sin(x))
    np.testing.assert_allclose(np.asarray(second), expected, rtol=2e-6, atol=1e-6)


def test_without_a_trace_or_a_gradient_a_checkpoint_does_nothing() -> None:
    x = np.arange(4, dtype=np.float32)
    with blu.checkpoint():
        np.testing.assert_array_equal(np.asarray(blu.square(x)), x * x)
    function = blu.checkpoint()(lambda x: blu.exp(x) + 1)
    text = blu.jit(function).trace(x).lower(stop="blu").text
    assert "barrier" not in text and "checkpoint" not in text


def test_the_pass_counts_what_it_does() -> None:
    report = blu.jit(gradients, remat_budget=1).trace(*small_gpt2()).lower(stop="blu-remat", options=DriverOptions())
    assert report.report is not None and '"blu.barrier"' in report.text


@pytest.mark.parametrize("policy", ["bf16", "f32"])
def test_what_is_cheap_to_compute_again_gives_the_same_bits(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """GPUs do it by default; here the processor does the same."""

    def half(model: Any, tokens: Any, targets: Any) -> Any:
        with blu.autocast(policy):
            return gradients(model, tokens, targets)

    arguments = small_gpt2()
    plain = blu.jit(half).trace(*arguments).compile()
    monkeypatch.setattr(cpu, "PIPELINE", cpu.PIPELINE.replacing(Remat(isolate=True, cheap=True)))
    # The cache of programs does not know that a test changes the passes; that of kernels need not.
    less = blu.jit(half).trace(*arguments).lower().compile()
    assert arena_of(less.program) < 0.9 * arena_of(plain.program)
    for one, other in zip(flatten(less(*arguments))[0], flatten(plain(*arguments))[0], strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def test_gpus_keep_neither_activations_nor_normalizations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a layer of GPT-2 there are in bf16 x and x2, standardized, q, k and v, attention, and GELU; and its slope.

    What is computed again is so on the way, in the gradient of a normalization: there is no launch for it.
    """
    width, layers = 128, 8
    launches, arena = _gpu_program(width, layers)
    kept = 8 * 512 * width * layers * (2 * (1 + 1 + 3 + 1 + 4) + 4)
    weights = 2 * 12 * width * width * layers
    assert arena <= 1.25 * (kept + weights)
    monkeypatch.setattr(sm90, "PIPELINE", sm90.PIPELINE.replacing(Remat(isolate=True)))
    more_launches, more_arena = _gpu_program(width, layers)
    assert launches == more_launches
    assert arena <= 0.9 * more_arena


def _gpu_program(width: int, layers: int) -> tuple[int, int]:
    """Launches of GPT-2's gradients in bf16 and the bytes of their intermediate results, for 8 times 512 tokens."""
    tokens = blu.spec((8, 512), "i32")
    model = nn.GPT2({"n_layer": layers, "n_embd": width, "n_head": 2, "vocab_size": 256, "n_positions": 512})

    def half(model: Any, tokens: Any, targets: Any) -> Any:
        with blu.autocast("bf16"):
            return gradients(model, tokens, targets)

    module = blu.jit(half).trace(model, tokens, tokens).lower("sm_90a", stop="memref").module
    with module.context:
        arena = ir.IntegerAttr(module.operation.attributes["blu.arena_bytes"]).value
        return sum(1 for _ in find(module, func.CallOp)), arena


@pytest.mark.parametrize("policy", ["some", "", 3, None])
def test_an_unknown_policy_is_refused(policy: Any) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)does not know the policy .* nothing, contractions, everything"):
        blu.checkpoint(policy)


@pytest.mark.parametrize("budget", [-1, 1.5, "1G", True, 1 << 63])
def test_a_budget_is_a_number_of_bytes(budget: Any) -> None:
    with pytest.raises(ArgumentError, match="a remat budget is a number of bytes"):
        blu.jit(gradients, remat_budget=budget)
    with pytest.raises(BluError):
        Remat.from_options(f"budget={budget}")
