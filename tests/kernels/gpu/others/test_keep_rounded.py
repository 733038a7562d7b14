"""What gradients need of layer norms and of GELU, kept in halves and in bytes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import blu
from blu import nn
from blu.compiler.pipelines import cpu, sm90
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.frontend.tracing.tree import flatten
from blu.passes.framework.base import find
from blu.passes.graph.differentiate import Differentiate
from blu.passes.graph.fold_scales import FoldScales
from blu.passes.graph.remat import KeepRounded, Remat
from tests.support.programs.interpret import interpret

SMALL = {"n_layer": 3, "n_embd": 36, "n_head": 3, "vocab_size": 131, "n_positions": 40}


def gradients_in(policy: str) -> Any:
    def gradients(model: Any, tokens: Any, targets: Any) -> Any:
        with blu.autocast(policy):
            return blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)

    return gradients


def small_gpt2(tokens: tuple[int, int] = (2, 33)) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    model = nn.GPT2(SMALL)
    model.initialize(1)
    state = model.state_dict()
    norms = {name: value + 0.3 * rng.standard_normal(value.shape) for name, value in state.items() if "ln_" in name}
    model.load_state_dict(state | {name: value.astype(np.float32) for name, value in norms.items()})
    return (model, *(rng.integers(0, 131, tokens).astype(np.int32) for _ in range(2)))


def run(policy: str, arguments: tuple[Any, ...]) -> list[np.ndarray]:
    # The cache of programs does not know that a test changes the passes.
    results = blu.jit(gradients_in(policy)).trace(*arguments).lower().compile()(*arguments)
    return [np.asarray(item, np.float64) for item in flatten(results)[0]]


@pytest.mark.parametrize(("folds", "tokens"), [(False, (2, 33)), (True, (18, 32))])
def test_gradients_are_as_near_as_those_of_halves(
    folds: bool, tokens: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPUs do it by default; here the processor does the same."""
    arguments = small_gpt2(tokens)
    exact, plain = (run(policy, arguments) for policy in ("f32", "bf16"))
    plain_remat = cpu.PIPELINE.replacing(Remat(isolate=True, cheap=True))
    pipeline = plain_remat.inserting(KeepRounded(least_bytes=0), before=Remat)
    folded = pipeline.inserting(FoldScales(least_bytes=0), before=Differentiate) if folds else pipeline
    monkeypatch.setattr(cpu, "PIPELINE", folded)
    less = run("bf16", arguments)
    assert any((one != other).any() for one, other in zip(less, plain, strict=True))
    for found, before, wanted in zip(less, plain, exact, strict=True):
        size = np.linalg.norm(wanted)
        assert np.linalg.norm(found - wanted) <= 1.2 * np.linalg.norm(before - wanted) + 2e-3 * size


def makers_of(module: ir.Module, names: tuple[str, ...]) -> int:
    """How many ops have such a maker of their first operand, which has one, and so on."""
    found = [item.operation for item in find(module, f"blu.{names[0]}")]
    for name in names[1:]:
        makers = [item.operands[0].owner for item in found]
        found = [item.operation for item in makers if not isinstance(item, ir.Block) and item.name == f"blu.{name}"]
    return len(found)


@pytest.mark.parametrize(
    ("policy", "form", "budget", "norms", "slopes"),
    [
        ("bf16", "gelu_new", 0, 6, 3),
        ("bf16", "gelu", 0, 6, 3),
        ("f16", "gelu_new", 0, 6, 3),
        ("bf16", "gelu_new", 1, 6, 0),
        ("tf32", "gelu_new", 0, 0, 0),
    ],
)
def test_what_is_kept(
    policy: str, form: str, budget: int, norms: int, slopes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three layers; what is normalized last is read again at once."""
    monkeypatch.setattr(sm90, "PIPELINE", sm90.PIPELINE.replacing(KeepRounded(least_bytes=0)))
    tokens = blu.spec((2, 32), "i32")
    model = nn.GPT2(SMALL | {"activation_function": form})
    traced = blu.jit(gradients_in(policy), remat_budget=budget).trace(model, tokens, tokens)
    modules = [traced.lower("sm_90a", stop=stop).module for stop in ("blu-differentiate", "blu-keep-rounded")]
    before, after = ([item.operation.name for item in find(module, "blu.*")] for module in modules)
    scaled = [makers_of(module, ("matmul", "transpose", "reshape", "reduce_precision", "add")) for module in modules]
    assert scaled == [0, 0], "gradients of weights read what is standardized, not what is made of that again"
    assert makers_of(modules[1], ("add", "multiply", "matmul", "transpose", "reshape", "reduce_precision")) == norms
    assert after.count("blu.reduce_precision") - before.count("blu.reduce_precision") == 2 * norms
    assert after.count("blu.convert") - before.count("blu.convert") == slopes
    assert after.count("blu.nearest_byte") == slopes


def test_gpus_compute_neither_gelu_nor_its_slope_again() -> None:
    """What gradients read of it in memory are halves and bytes."""
    tokens = blu.spec((8, 512), "i32")
    model = nn.GPT2({"n_layer": 2, "n_embd": 128, "n_head": 2, "vocab_size": 256, "n_positions": 512})
    text = blu.jit(gradients_in("bf16")).trace(model, tokens, tokens).lower("sm_90a", stop="linalg").text
    kernels = [part for part in text.split("func.func private")[1:] if "4096x512xi8" in part.partition("\n")[0]]
    writers = [part for part in kernels if "4096x512xi8" in part.partition("->")[2].partition("attributes")[0]]
    assert len(writers) == 1 and "math.exp" in writers[0]
    readers = [part for part in kernels if part not in writers]
    assert len(readers) == 1 and "math.exp" not in readers[0]


def test_a_checkpoint_says_what_is_kept() -> None:
    def loss(x: blu.Tensor, w: blu.Tensor, gain: blu.Tensor) -> blu.Tensor:
        with blu.autocast("bf16"), blu.checkpoint("nothing"):
            inner = blu.gelu(blu.layer_norm(x @ w, gain, gain) @ w) @ w
        return inner.sum()

    x, w, gain = (blu.spec(shape) for shape in ((64, 32), (32, 32), (32,)))
    traced = blu.jit(blu.grad(loss)).trace(x, w, gain)
    texts = [str(traced.lower("sm_90a", stop=stop).module) for stop in ("blu-differentiate", "blu-keep-rounded")]
    before, after = (text.partition("\n")[2] for text in texts)
    assert before == after


MANY = 50
"""Ops between what is normalized and what reads it again: more than those of a layer."""


def program(backward: str) -> str:
    """The text of a program that normalizes %x, 8 rows of 4 numbers, and rounds that, and of a gradient much later, in
    which `backward` makes %p (4x8) of the columns of what was rounded, %q, and of %g (2x4x8). `!4x8` are such types."""
    wait = "\n".join(f'  %n{number + 1} = "blu.sin"(%n{number}) : (!4) -> !4' for number in range(MANY))
    norm = "{epsilon = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 1>}"
    text = f"""
func.func @main(%a: !8x4, %w: !4, %b: !4, %n0: !4, %k: !2x4x8) -> (!4x8, !8x4, !4)
    attributes {{blu.forward_ops = 3 : i64}} {{
  %x = "blu.negative"(%a) : (!8x4) -> !8x4
  %y = "blu.layer_norm"(%x, %w, %b) {norm} : (!8x4, !4, !4) -> !8x4
  %r = "blu.reduce_precision"(%y) {{dtype = bf16, rounds_gradient = false}} : (!8x4) -> !8x4
{wait}
  %quarter = "blu.constant"() {{value = dense<0.25> : !8x1}} : () -> !8x1
  %half = "blu.constant"() {{value = dense<0.5> : !8x1}} : () -> !8x1
  %sum = "blu.sum"(%x) {{axes = array<i64: 1>, keepdims = true}} : (!8x4) -> !8x1
  %mean = "blu.multiply"(%sum, %quarter) : (!8x1, !8x1) -> !8x1
  %c = "blu.subtract"(%x, %mean) : (!8x4, !8x1) -> !8x4
  %cc = "blu.multiply"(%c, %c) : (!8x4, !8x4) -> !8x4
  %squares = "blu.sum"(%cc) {{axes = array<i64: 1>, keepdims = true}} : (!8x4) -> !8x1
  %variance = "blu.multiply"(%squares, %quarter) : (!8x1, !8x1) -> !8x1
  %more = "blu.add"(%variance, %half) : (!8x1, !8x1) -> !8x1
  %i = "blu.rsqrt"(%more) : (!8x1) -> !8x1
  %s = "blu.multiply"(%c, %i) : (!8x4, !8x1) -> !8x4
  %z = "blu.multiply"(%s, %w) : (!8x4, !4) -> !8x4
  %g = "blu.negative"(%k) : (!2x4x8) -> !2x4x8
  %q = "blu.transpose"(%r) {{permutation = array<i64: 1, 0>}} : (!8x4) -> !4x8
{backward}
  return %p, %z, %n{MANY} : !4x8, !8x4, !4
}}
"""
    return re.sub(r"!((?:\d+x)*\d+)", r"tensor<\1xf32>", text)


ROWS = '  %h = "blu.reshape"(%g) {shape = array<i64: 8, 8>} : (!2x4x8) -> !8x8\n'
EXP = '  %h = "blu.exp"(%o) : (!8x8) -> !8x8\n'
PRODUCT = '  %p = "blu.matmul"(%q, %h) {precision = "bf16"} : (!4x8, !8x8) -> !4x8\n'


def summed(value: str, shape: str, axes: str, to: str = "!8", *, keepdims: bool = False) -> str:
    settings = f"{{axes = array<i64: {axes}>, keepdims = {str(keepdims).lower()}}}"
    return f'  %t = "blu.sum"({value}) {settings} : ({shape}) -> {to}\n'


BACKWARD = {
    "its rows": (ROWS + summed("%h", "!8x8", "0") + PRODUCT, True),
    "what its rows were": (summed("%g", "!2x4x8", "0, 1") + ROWS + PRODUCT, True),
    "its columns": (ROWS + summed("%h", "!8x8", "1") + PRODUCT, False),
    "one of its dimensions": (summed("%g", "!2x4x8", "0", "!4x8") + ROWS + PRODUCT, False),
    "its rows, kept": (summed("%g", "!2x4x8", "0, 1", "!1x1x8", keepdims=True) + ROWS + PRODUCT, False),
    "its rows, later": (ROWS + PRODUCT + summed("%h", "!8x8", "0"), False),
    "others": (ROWS.replace("%h", "%o") + summed("%o", "!8x8", "0") + EXP + PRODUCT, False),
    "nothing": (ROWS + PRODUCT, False),
}


@pytest.mark.parametrize("case", BACKWARD)
def test_a_weights_gradient_is_scaled_where_the_sum_of_its_other_factors_rows_is_there(case: str) -> None:
    """Else that would be another number, not be there yet, or have to be made."""
    backward, is_scaled = BACKWARD[case]
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal(shape).astype(np.float32) for shape in ((8, 4), (4,), (4,), (4,), (2, 4, 8))]
    with make_context() as context, ir.Location.unknown():
        module = ir.Module.parse(program(backward), context)
        wanted = interpret(module, arguments)
        KeepRounded(least_bytes=0).run(module)
        assert module.operation.verify()
        found = interpret(module, arguments)
        assert makers_of(module, ("add", "multiply", "matmul")) == is_scaled
        assert makers_of(module, ("matmul", "transpose", "reduce_precision", "add")) == (not is_scaled)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=0.02 * np.abs(other).max())
