"""Automatic mixed precision: what it changes, what it leaves, and that it is no worse than PyTorch's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import blu
from blu import nn, optim
from blu.compiler.driver.driver import run_pipeline
from blu.compiler.driver.source import IrSource, parse_source
from blu.compiler.generation.gpt2_programs import Gpt2Request
from blu.compiler.pipelines import loose_steps
from blu.dialects.core.context import make_context
from blu.errors import ArgumentError, PassError
from blu.frontend.nn import GPT2Config
from blu.passes.graph.autocast import Autocast
from tests.training.test_step import BATCH, CONFIG, reference, torch_loss

HALVES = {"bf16": (ml_dtypes.bfloat16, torch.bfloat16), "f16": (np.float16, torch.float16)}
# Relative to the norm of each gradient in float64.
GRADIENT_LIMIT = {"bf16": 2e-2, "f16": 2.5e-3}
# Of PyTorch's own error under autocast: of each parameter, and of all in the mean.
PEER_LIMIT = 1.1
MEAN_PEER_LIMIT = 0.85


@pytest.fixture
def operands() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((33, 40), np.float32), rng.standard_normal((40, 21), np.float32)


def rounded(array: np.ndarray, policy: str) -> np.ndarray:
    return array.astype(HALVES[policy][0]).astype(np.float32)


@pytest.mark.parametrize("policy", HALVES)
def test_operands_are_rounded_and_sums_are_not(policy: str, operands: tuple) -> None:
    x, w = operands
    with blu.autocast(policy):
        product, summed = blu.jit(lambda x, w: (x @ w, blu.einsum("ij,jk->ki", x, w)))(x, w)
        eager = blu.matmul(x, w)
    exact = rounded(x, policy).astype(np.float64) @ rounded(w, policy).astype(np.float64)
    assert product.dtype == eager.dtype == np.float32
    for found in (product, np.asarray(summed).T, eager):
        np.testing.assert_allclose(found, exact, rtol=0, atol=2e-5)
    assert np.abs(exact - x @ w).max() > 1e-3


CONVOLUTIONS = [{"stride": 2, "padding": 1}, {"padding": 2, "dilation": 2, "groups": 5}, {"padding": (0, 2)}]


@pytest.mark.parametrize("options", CONVOLUTIONS, ids=["strides", "groups", "plain"])
@pytest.mark.parametrize("policy", HALVES)
def test_operands_of_convolutions_and_their_gradients_are_rounded(policy: str, options: dict[str, Any]) -> None:
    """What comes back is rounded too, and sums are not: all is torch's in f64 on the rounded operands.

    Channels are last: a result that is turned around is stored in half. So is the gradient of what strides go over.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5, 7, 6), np.float32)
    w = rng.standard_normal((10, 5 // options.get("groups", 1), 3, 3), np.float32)
    leaves = [torch.tensor(rounded(item, policy), dtype=torch.float64, requires_grad=True) for item in (x, w)]
    expected = torch.nn.functional.conv2d(*leaves, **options)
    g = rng.standard_normal(expected.shape).astype(np.float32)
    expected.backward(torch.tensor(rounded(g, policy), dtype=torch.float64))

    @blu.autocast(policy)
    def convolved(x: Any, w: Any) -> Any:
        return blu.conv2d(x, w, channels_last=True, **options)

    last = (0, 2, 3, 1)
    x, g = x.transpose(last), g.transpose(last)
    result = blu.jit(convolved)(x, w)
    gradients = blu.jit(blu.grad(lambda x, w: (convolved(x, w) * g).sum(), argnums=(0, 1)))(x, w)
    of_x, of_w = (leaf.grad for leaf in leaves)
    exacts = [item.detach().numpy() for item in (expected.permute(last), of_x.permute(last), of_w)]
    for place, (found, exact) in enumerate(zip(map(np.asarray, (result, *gradients)), exacts, strict=True)):
        is_stored = place == 1 and options.get("stride", 1) > 1
        assert found.dtype == np.float32 and np.array_equal(found, rounded(found, policy)) == is_stored
        rounding = float(ml_dtypes.finfo(HALVES[policy][0]).eps) / 2 if is_stored else 0
        np.testing.assert_allclose(found, exact, rtol=rounding, atol=2e-5)
    plain = blu.jit(lambda x, w: blu.conv2d(x, w, channels_last=True, **options))(x, w)
    assert np.abs(np.asarray(result) - np.asarray(plain)).max() > 1e-3


@pytest.mark.parametrize("policy", HALVES)
def test_the_precision_of_one_product_rounds_the_same(policy: str, operands: tuple) -> None:
    with blu.autocast(policy):
        expected = blu.matmul(*operands)
    assert np.array_equal(blu.matmul(*operands, precision=policy), expected)


@pytest.mark.parametrize("policy", ["tf32", "f32"])
def test_the_precision_survives_to_linalg(policy: str, operands: tuple) -> None:
    """The processor multiplies f32 in full whatever the precision; what counts is that kernels can read it."""

    def f(x: Any, w: Any) -> Any:
        with blu.autocast(policy):
            return blu.matmul(x, w) + blu.matmul(x, w, precision="tf32")

    traced = blu.jit(f).trace(*operands)
    for stop in ("blu", "linalg", "memref"):
        text = traced.lower(stop=stop).text
        assert ('"tf32"' in text) == (policy == "tf32") and ('"highest"' in text) == (policy == "f32")
    np.testing.assert_allclose(traced.compile()(*operands), 2 * (operands[0] @ operands[1]), rtol=1e-5, atol=1e-5)


def test_the_innermost_policy_counts_and_ends(operands: tuple) -> None:
    @blu.autocast("bf16")
    def f(x: Any, w: Any) -> Any:
        with blu.autocast("f32"):
            inner = x @ w
        return inner, x @ w

    @blu.jit
    def g(x: Any, w: Any) -> Any:
        return *f(x, w), x @ w

    inner, cast, outer = map(np.asarray, g(*operands))
    assert np.array_equal(inner, outer) and not np.array_equal(inner, cast)


def test_one_function_under_two_policies_is_two_programs(operands: tuple) -> None:
    f = blu.jit(lambda x, w: x @ w)
    plain = np.asarray(f(*operands))
    with blu.autocast("bf16"):
        cast = np.asarray(f(*operands))
        assert np.array_equal(cast, f(*operands))
    assert not np.array_equal(plain, cast) and np.array_equal(plain, f(*operands))


def test_errors_are_said() -> None:
    for wrong in ("fp16", "", None, 16):
        with pytest.raises(ArgumentError, match="does not know the policy"):
            blu.autocast(wrong)
    with pytest.raises(ArgumentError, match="does not know the policy 'half'"):
        Autocast(policy="half")


def test_other_dtypes_and_ops_are_left_alone() -> None:
    @blu.jit
    @blu.autocast("bf16")
    def f(x: Any, n: Any) -> Any:
        return x @ x, n @ n, blu.softmax(x.astype("f32")), blu.layer_norm(x.astype("f32"), None, None)

    x, n = np.random.default_rng(0).standard_normal((8, 8)), np.arange(64).reshape(8, 8)
    text = f.trace(x, n).lower(stop="blu").text
    assert "bf16" not in text.replace('precision = "bf16"', "") and "blu.autocast" not in text
    np.testing.assert_allclose(f(x, n)[0], x @ x)


def test_what_is_stored_between_kernels_is_half() -> None:
    """Weights are read as f32 once; activations and their gradients between products, and attention, are bf16."""
    specs = [blu.spec(shape) for shape in ((64, 32), (32,), (32, 32), (64, 32))]

    @blu.autocast("bf16")
    def loss(w: Any, b: Any, v: Any, x: Any) -> Any:
        return blu.mean(blu.square(blu.relu(x @ w[:32] + b) @ v))

    text = blu.jit(lambda *a: blu.grad(loss, argnums=(0, 1, 2))(*a)).trace(*specs).lower(stop="blu-fuse").text
    main = text[text.index("func.func @main") : text.index("func.func private")]
    products = [line for line in main.splitlines() if "@gemm" in line]
    assert len(products) == 5
    for line in products:
        operands, _ = line.split(" : ")[1].split(" -> ")
        assert all("bf16" in operand for operand in operands.split(", ")[:2])
    assert "extf" not in main


@pytest.mark.parametrize(("policy", "asked", "found"), [("tf32", "highest", "tf32"), ("f32", "tf32", "highest")])
def test_attention_has_the_precision_of_the_policy(policy: str, asked: str, found: str) -> None:
    """As have its gradients."""

    @blu.autocast(policy)
    def function(x):
        return blu.attention(x, x, x, precision=asked).sum()

    text = str(blu.jit(blu.grad(function)).trace(blu.spec((2, 5, 8), "f32")).lower("sm_90a", stop="blu").module)
    lines = [line for line in text.splitlines() if '"blu.attention' in line]
    assert len(lines) == 2 and all(f'precision = "{found}"' in line for line in lines)


def test_attention_takes_halves() -> None:
    shape = (1, 2, 5, 8)

    @blu.autocast("bf16")
    def f(qkv: Any, w: Any) -> Any:
        q, k, v = ((qkv @ w[i]).reshape(shape) for i in range(3))
        return blu.attention(q, k, v, causal=True).reshape((5, 16)) @ w[0]

    text = blu.jit(f).trace(blu.spec((5, 16)), blu.spec((3, 16, 16))).lower(stop="blu").text
    line = next(line for line in text.splitlines() if "blu.attention" in line)
    assert line.count("xbf16>") == 4 and "f32>" not in line
    # The products are stored as bf16, so nothing stands between them and attention but views.
    assert text.count('"blu.convert"') == text.count("dtype = bf16") + text.count("dtype = f32")
    assert text.count("dtype = f32") <= 5


DRAWS = range(3)


@pytest.fixture(scope="module")
def draws() -> list[tuple[nn.GPT2, tuple[np.ndarray, np.ndarray], dict[str, np.ndarray]]]:
    """Models, batches (i32 [batch, position] twice) and the gradients of them in float64."""
    shape = (2, BATCH, CONFIG["n_positions"])
    drawn = []
    for seed in DRAWS:
        model = nn.GPT2(CONFIG).initialize(seed)
        tokens, targets = np.random.default_rng(seed).integers(0, CONFIG["vocab_size"], shape).astype(np.int32)
        peer = reference(model, torch.float64)
        torch_loss(peer, (tokens, targets)).backward()
        exact = {name: item.grad.numpy() for name, item in peer.transformer.named_parameters()}
        drawn.append((model, (tokens, targets), exact))
    return drawn


def errors(gradients: dict[str, Any], exact: dict[str, np.ndarray]) -> dict[str, float]:
    return {
        name: float(np.linalg.norm(np.asarray(gradients[name]) - value) / np.linalg.norm(value))
        for name, value in exact.items()
    }


def over_draws(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.sqrt(np.mean([item[name] ** 2 for item in found]))) for name in found[0]}


@pytest.mark.parametrize("policy", HALVES)
def test_no_gradient_of_gpt2_is_further_off_than_torchs(policy: str, draws: list) -> None:
    """Over several draws: on one, the errors of a bias of 80 elements differ by a quarter between processors."""
    scaling = optim.LossScale(initial=1024.0)

    @blu.jit
    @blu.autocast(policy)
    def step(model: Any, tokens: Any, targets: Any, scale: Any) -> Any:
        return scaling.value_and_grad(nn.gpt2_loss, scale)(model, tokens, targets)

    ours, theirs = [], []
    for model, batch, exact in draws:
        value, gradients = step(model, *batch, scaling.init())
        assert all(np.asarray(item).dtype == np.float32 for item in gradients.state_dict().values())
        peer = reference(model, torch.float32)
        with torch.autocast("cpu", dtype=HALVES[policy][1]):
            expected = torch_loss(peer, batch)
        (expected * 1024).backward()
        assert float(value) == pytest.approx(float(expected.detach()), abs=1e-3)
        ours.append(errors(gradients.state_dict(), exact))
        theirs.append(errors({n: item.grad.numpy() / 1024 for n, item in peer.transformer.named_parameters()}, exact))
        for name, error in ours[-1].items():
            assert error <= GRADIENT_LIMIT[policy], f"{name}: relative error {error:.1e}"
    ratios = {name: error / over_draws(theirs)[name] for name, error in over_draws(ours).items()}
    for name, ratio in ratios.items():
        assert ratio <= PEER_LIMIT, f"{name}: {ratio:.2f} of torch's relative error"
    assert np.exp(np.mean(np.log(list(ratios.values())))) <= MEAN_PEER_LIMIT


def test_a_policy_is_what_the_pipeline_does_where_nothing_is_marked(operands: tuple) -> None:
    traced = blu.jit(lambda x, w: blu.exp(x @ w)).trace(*operands)
    report = run_pipeline(traced.traced.module, loose_steps([Autocast("f16")]))
    text = str(report.module)
    assert text.count('"blu.reduce_precision"') == 3 and 'precision = "f16"' in text
    marked = traced.text.replace('precision = "highest"', 'blu.autocast = "half", precision = "highest"')
    module = parse_source(IrSource("x", marked), make_context())
    with pytest.raises(PassError, match="is no policy"):
        run_pipeline(module, loose_steps([Autocast()]))


def test_a_request_for_gpt2_says_its_policy() -> None:
    config = GPT2Config.of(CONFIG).to_dict()
    plain, cast = (Gpt2Request.of("decode", config, "x86-64-v3", autocast=policy) for policy in ("", "f16"))
    assert plain.key() != cast.key()
    assert 'blu.autocast = "f16"' in cast.trace().text and "autocast" not in plain.trace().text
