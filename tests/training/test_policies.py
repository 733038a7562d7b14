"""What a training step does besides learning: skipped steps, the scale of the loss, micro-batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu
from blu import nn, optim
from blu.errors import ArgumentError

CONFIG = {"n_layer": 1, "n_head": 2, "n_embd": 24, "vocab_size": 101, "n_positions": 9}
OPTIMIZERS = [optim.AdamW(), optim.SGD(), optim.SGD(momentum=0.9)]


def tokens_of(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    tokens, targets = rng.integers(0, CONFIG["vocab_size"], (2, rows, CONFIG["n_positions"])).astype(np.int32)
    return tokens, targets


def arrays_of(*trees: Any) -> list[np.ndarray]:
    return [np.array(leaf) for tree in trees for leaf in blu.frontend.tracing.tree.flatten(tree)[0]]


def bits_of(*trees: Any) -> list[bytes]:
    return [array.tobytes() for array in arrays_of(*trees)]


def squares(parameters: dict[str, Any], x: Any) -> Any:
    return blu.sum(blu.square(parameters["w"] * x))


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["adamw", "sgd", "momentum"])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 1e30])
def test_row_46_a_step_whose_gradients_are_not_finite_changes_no_bit(optimizer: Any, poison: float) -> None:
    @blu.jit(donate=("parameters", "state"))
    def step(parameters: Any, state: Any, x: Any) -> Any:
        loss, gradients = blu.value_and_grad(squares)(parameters, x)
        gradients, norm = optim.clip_by_global_norm(gradients, 1.0)
        finite = optim.is_finite(norm)
        return *optimizer.update(parameters, gradients, state, 0.1, apply=finite), loss, finite

    parameters = {"w": np.array([1, -2, -0.0, 3], np.float32)}
    state = optimizer.init(parameters)
    good = np.ones(4, np.float32)
    parameters, state, _, finite = step(parameters, state, good)
    assert bool(finite)
    before = bits_of(parameters, state)
    parameters, state, _, finite = step(parameters, state, np.array([1, poison, 1, 1], np.float32))
    assert not bool(finite)
    assert bits_of(parameters, state) == before
    parameters, state, _, finite = step(parameters, state, good)
    assert bool(finite) and bits_of(parameters, state) != before


def test_is_finite_reads_every_leaf() -> None:
    fine = {"a": np.ones(3, np.float32), "b": np.float32(3e38)}
    check = blu.jit(lambda tree: optim.is_finite(tree))
    assert bool(check(fine))
    for bad in (np.nan, np.inf, -np.inf):
        assert not bool(check({**fine, "a": np.array([0, bad, 0], np.float32)}))
    with pytest.raises(ArgumentError, match="nothing of which to say"):
        blu.jit(lambda x: optim.is_finite({}))(1.0)


SCALING = optim.LossScale(initial=2.0**15, interval=3, maximum=2.0**16)


def scaled_sgd(parameters: Any, scale: Any, x: Any) -> Any:
    """A step on a loss whose gradients are f16, and overflow above 65504; also those gradients."""

    def loss(parameters: Any) -> Any:
        return blu.sum((parameters["w"].astype("f16") * x.astype("f16")).astype("f32"))

    value, gradients = SCALING.value_and_grad(loss, scale)(parameters)
    finite = optim.is_finite(gradients)
    parameters, _ = optim.SGD().update(parameters, gradients, {"step": blu.zeros((), "i32")}, 0.5, apply=finite)
    return parameters, SCALING.update(scale, finite), value, gradients


def test_row_08_an_overflow_in_f16_skips_the_step_and_halves_the_scale() -> None:
    parameters, scale = {"w": np.zeros(2, np.float32)}, SCALING.init()
    step = blu.jit(scaled_sgd, donate=("parameters", "scale"))
    seen, signature = [], [array.dtype for array in arrays_of(scale)]
    for x in (3.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, np.nan):
        before = bits_of(parameters)
        parameters, scale, _, gradients = step(parameters, scale, np.full(2, x, np.float32))
        overflows = not np.isfinite(np.asarray(gradients["w"])).all()
        assert (bits_of(parameters) == before) == overflows
        if not overflows:
            assert np.array_equal(np.asarray(gradients["w"]), [x, x])
        seen.append((float(scale["scale"]), int(scale["good_steps"]), int(scale["skipped_steps"])))
        assert signature == [array.dtype for array in arrays_of(scale)], "the next step would be compiled again"
    # 3 * 2^15 and 3 * 2^14 differ: only the first is above 65504.
    assert seen == [
        (2.0**14, 0, 1),
        (2.0**14, 1, 1),
        (2.0**14, 2, 1),
        (2.0**15, 0, 1),
        (2.0**15, 1, 1),
        (2.0**15, 2, 1),
        (2.0**16, 0, 1),
        (2.0**15, 0, 2),
        (2.0**14, 0, 3),
    ]


def test_the_scale_saves_gradients_that_f16_cannot_hold() -> None:
    tiny = np.full(2, 2.0**-27, np.float32)

    def loss(parameters: Any, x: Any) -> Any:
        y = parameters["w"].astype("f16").astype("f32") * x
        return blu.sum(y)

    plain = blu.jit(blu.grad(loss))({"w": tiny}, tiny)
    assert not np.asarray(plain["w"]).any()
    scaled = blu.jit(lambda p, x, s: SCALING.value_and_grad(loss, s)(p, x))({"w": tiny}, tiny, SCALING.init())[1]
    assert np.array_equal(np.asarray(scaled["w"]), tiny)


def test_loss_scales_that_make_no_sense_are_refused() -> None:
    for wrong in ({"initial": 0.0}, {"growth": 1.0}, {"backoff": 1.0}, {"interval": 0}, {"maximum": 1.0}):
        with pytest.raises(ArgumentError):
            optim.LossScale(**wrong)


ACCUMULATION, ADAMW = optim.Accumulation(), optim.AdamW()


@blu.jit(donate=("sums",))
def micro_step(model: Any, sums: Any, tokens: Any, targets: Any, weight: Any) -> Any:
    loss, gradients = blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)
    return ACCUMULATION.add(sums, loss, gradients, weight)


@blu.jit(donate=("model", "state", "sums"))
def update_step(model: Any, state: Any, sums: Any, rate: Any) -> Any:
    loss, gradients, sums = ACCUMULATION.mean(sums)
    gradients, norm = optim.clip_by_global_norm(gradients, 1.0)
    return *ADAMW.update(model, gradients, state, rate), sums, loss, norm


@blu.jit(donate=("model", "state"))
def plain_step(model: Any, state: Any, tokens: Any, targets: Any, rate: Any) -> Any:
    loss, gradients = blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)
    gradients, norm = optim.clip_by_global_norm(gradients, 1.0)
    return *ADAMW.update(model, gradients, state, rate), loss, norm


@blu.jit(donate=("model", "state", "scale"))
def scaled_step(model: Any, state: Any, scale: Any, tokens: Any, targets: Any, rate: Any) -> Any:
    loss, gradients = SCALING.value_and_grad(nn.gpt2_loss, scale)(model, tokens, targets)
    gradients, norm = optim.clip_by_global_norm(gradients, 1.0)
    finite = optim.is_finite(norm)
    return *ADAMW.update(model, gradients, state, rate, apply=finite), SCALING.update(scale, finite), loss, norm


def start() -> tuple[nn.GPT2, Any]:
    model = nn.GPT2(CONFIG).initialize(0)
    return model, ADAMW.init(model)


@pytest.mark.parametrize("count", [1, 4])
def test_micro_batches_learn_what_one_batch_does(count: int) -> None:
    model, state = start()
    whole, whole_state = start()
    sums = ACCUMULATION.init(model)
    for number in range(3):
        tokens, targets = tokens_of(4, number)
        for rows in np.split(np.arange(4), count):
            sums = micro_step(model, sums, tokens[rows], targets[rows], 1.0)
        model, state, sums, loss, norm = update_step(model, state, sums, 1e-3)
        whole, whole_state, expected, expected_norm = plain_step(whole, whole_state, tokens, targets, 1e-3)
        assert float(loss) == pytest.approx(float(expected), rel=1e-6)
        assert float(norm) == pytest.approx(float(expected_norm), rel=1e-5)
        assert float(sums["weight"]) == 0
    # Adam divides by the root of v: where gradients are near zero, their rounding moves a weight by up to the rate.
    for found, wanted in zip(
        arrays_of(state["m"], state["v"]), arrays_of(whole_state["m"], whole_state["v"]), strict=True
    ):
        assert np.linalg.norm(found - wanted) <= 3e-5 * np.linalg.norm(wanted)


def test_micro_batches_of_unequal_size_count_by_weight() -> None:
    tokens, targets = tokens_of(4)
    (model, state), (whole, whole_state) = start(), start()
    sums = ACCUMULATION.init(model)
    for rows in (slice(0, 1), slice(1, 4)):
        weight = float(targets[rows].size)
        sums = micro_step(model, sums, tokens[rows], targets[rows], weight)
    *_, loss, norm = update_step(model, state, sums, 1e-3)
    *_, expected, expected_norm = plain_step(whole, whole_state, tokens, targets, 1e-3)
    assert float(loss) == pytest.approx(float(expected), rel=1e-6)
    assert float(norm) == pytest.approx(float(expected_norm), rel=1e-5)


def test_sums_and_scales_are_updated_in_place() -> None:
    model, state = start()
    sums = ACCUMULATION.init(model)
    traced = [
        micro_step.trace(model, sums, *tokens_of(4), 1.0),
        update_step.trace(model, state, sums, 1e-3),
        scaled_step.trace(model, state, SCALING.init(), *tokens_of(2), 1e-3),
    ]
    for item in traced:
        outputs = item.compile().program.outputs
        copied = [spec for spec in outputs if spec.input is None and spec.nbytes > 512]
        assert not copied, f"{len(copied)} results are not updated in place"
