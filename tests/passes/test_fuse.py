"""How ops are grouped into kernels: what it takes grows with the layers, and no kernel waits for itself."""

from __future__ import annotations

import random

import numpy as np
import pytest

import blu
from blu import nn
from blu.compiler.lowered import Lowered
from blu.passes.loops.fuse.waiting import Waiting


class Layer(nn.Module):
    def __init__(self) -> None:
        self.up = nn.Linear(4, 4)
        self.down = nn.Linear(4, 4)

    def forward(self, x: blu.Tensor) -> blu.Tensor:
        return x + self.down(blu.tanh(self.up(x)))


class Layers(nn.Module):
    def __init__(self, count: int) -> None:
        self.layers = [Layer() for _ in range(count)]

    def forward(self, x: blu.Tensor) -> blu.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def gradients(model: Layers, x: blu.Tensor) -> tuple:
    """Gradients of all parameters, each of which needs what its layer had on the way there."""
    return blu.value_and_grad(lambda model, x: blu.mean(model(x) * x))(model, x)


def steps_of_fusion(lowered: Lowered) -> int:
    assert lowered.report is not None
    (fuse,) = (run for run in lowered.report.runs if run.name == "blu-fuse")
    return fuse.statistics["steps to find groups"]


def test_steps_to_find_groups_are_as_many_for_each_layer_of_a_deep_network() -> None:
    traced = {count: blu.jit(gradients).trace(Layers(count), blu.spec((2, 4))) for count in (4, 8, 16)}
    steps = {count: steps_of_fusion(item.lower("x86-64-v3", stop="blu-fuse")) for count, item in traced.items()}
    first, later = (steps[8] - steps[4]) / 4, (steps[16] - steps[8]) / 8
    assert later <= 1.1 * first, steps


def masked_beside_product(x: blu.Tensor, y: blu.Tensor) -> blu.Tensor:
    """A choice of what a product was made from, or of the product, by a mask that needs neither."""
    high = blu.exp(y)
    return blu.where(x > 0.5, high, blu.transpose(blu.matmul(high, high), (1, 0)))


def masked_beside_two_products(x: blu.Tensor, y: blu.Tensor) -> blu.Tensor:
    """What the last choice reads waits for what it reads too, through one product and through two."""
    high, low = blu.exp(y), blu.tanh(y)
    product = blu.transpose(blu.matmul(high, low), (1, 0))
    return blu.where(x > 0.5, blu.where(y > 0.5, high, low), blu.transpose(blu.matmul(product, high), (1, 0)))


@pytest.mark.parametrize("program", [masked_beside_product, masked_beside_two_products])
def test_groups_are_not_merged_where_the_whole_would_wait_for_itself(program) -> None:
    x, y = np.random.default_rng(0).uniform(-1, 1, (2, 8, 8)).astype(np.float32)
    traced = blu.jit(program).trace(x, y)
    traced.lower("sm_90a", stop="blu-fuse")
    np.testing.assert_allclose(np.asarray(traced.lower("cpu").compile()(x, y)), program(x, y), rtol=1e-5)


def reached(needs: dict[int, set[int]], start: int) -> set[int]:
    """All that can be come to from a group, by a search."""
    found, waiting = set(), [start]
    while waiting:
        new = needs[waiting.pop()] - found
        found |= new
        waiting.extend(new)
    return found


def merge(needs: dict[int, set[int]], one: int, other: int) -> None:
    """Let `one` take the place of `other` in a graph."""
    needs[one] = (needs[one] | needs.pop(other)) - {one, other}
    for item, others in needs.items():
        if item != one and other in others:
            others.discard(other)
            others.add(one)


@pytest.mark.parametrize("seed", range(20))
def test_who_waits_for_whom_is_what_a_search_finds(seed: int) -> None:
    draw, waiting, needs = random.Random(seed), Waiting(), {}
    for _ in range(60):
        new = waiting.begin()
        needs[new] = set(draw.sample(sorted(needs), min(len(needs), draw.randrange(3))))
        waiting.let_wait(new, needs[new])
        one, other = draw.choices(sorted(needs), k=2)
        if one not in reached(needs, other):
            waiting.let_wait(one, [other])
            needs[one] |= {other} - {one}
        one, other = draw.choices(sorted(needs), k=2)
        if one != other and not waiting.waits_through_third(one, other):
            waiting.merge(one, other)
            merge(needs, one, other)
        for one in needs:
            found = {other for other in needs if waiting.waits(one, other)}
            assert found == reached(needs, one) | {one}
            assert waiting.needs(one) == needs[one]


@pytest.mark.parametrize("target", ["sm_90a", "x86-64-v3"])
def test_a_gate_that_is_kept_anyway_is_opened_by_the_product_that_it_gates(target: str) -> None:
    """As its gradient needs it. Before, its own product wrote it a second time, opened."""

    def gated(x: blu.Tensor, gate: blu.Tensor, up: blu.Tensor) -> tuple:
        kept = blu.matmul(x, gate)
        return blu.silu(kept) * blu.matmul(x, up), blu.transpose(kept, (1, 0))

    traced = blu.jit(gated).trace(*(blu.spec(shape, "f32") for shape in ((96, 64), (64, 128), (64, 128))))
    text = str(traced.lower(target, stop="blu-fuse").module)
    calls = [line.rpartition("->")[2].partition(" loc")[0] for line in text.splitlines() if "call @gemm" in line]
    assert [call.strip() for call in calls] == ["tensor<96x128xf32>"] * 2
