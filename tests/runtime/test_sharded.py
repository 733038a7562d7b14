"""Programs over whole tensors that ranks run on parts of them: losses and gradients are those of one rank."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import blu
from blu.dialects.core.dtypes import TensorType, f32
from blu.dialects.sharding import Sharding
from blu.errors import PassError, ShapeError
from tests.support.programs.rank_programs import run_ranks

PROGRAMS = Path(__file__).parent / "sharded_programs.py"
# Modes of `sharded_programs.py` by the number of ranks that they are for.
ONE_LAYER = {
    2: ["data", "tensor", "full", "balanced", "sequence", "batches between"],
    4: ["data x tensor", "data x tensor, full", "data x balanced", "tensor x positions", "sequence x positions"],
}
TWELVE_LAYERS = [
    *("data x tensor", "data x balanced", "tensor x positions"),
    *("four, data", "four, tensor", "four, full", "four balanced"),
    *("four, sequence", "data x sequence, full", "sequence x positions"),
]


def check(found: list[dict], modes: list[str], gradients: int = 16) -> None:
    for item in found:
        for mode in modes:
            assert item[mode]["error"] < 1e-13, (item["rank"], mode)
            assert item[mode]["same"], mode
            assert item[mode]["count"] == 1 + gradients, mode


def found_twice(ranks: int) -> list[dict]:
    """What ranks find of a model of one layer in each of their modes: processes of two runs find the same bits."""
    modes = ONE_LAYER[ranks]
    runs = [run_ranks(PROGRAMS, ranks, "1", *modes) for _ in range(2)]
    for found in runs:
        check(found, modes)
    digests = [[{mode: item[mode]["digest"] for mode in modes} for item in found] for found in runs]
    assert digests[0] == digests[1]
    assert len({digest for item in digests[0] for digest in item.values()}) > len(modes), "ranks have other parts"
    return runs[0]


@pytest.mark.slow
def test_two_ranks_find_the_loss_and_all_gradients_of_one_and_the_same_bits_again() -> None:
    found = found_twice(2)
    kinds = found[0]["full"]["kinds"]
    assert kinds["all_gather"] > 10 and kinds["reduce_scatter"] > 10
    assert set(found[0]["data"]["kinds"]) <= {"all_reduce", "axis_index"}
    # The embedding, two products of the layer, and the gradients of three inputs of products.
    assert found[0]["sequence"]["kinds"]["reduce_scatter"] == 6


@pytest.mark.slow
def test_four_ranks_find_the_loss_and_all_gradients_of_one_and_the_same_bits_again() -> None:
    assert [item["rank"] for item in found_twice(4)] == [0, 1, 2, 3]


@pytest.mark.slow
def test_four_ranks_find_all_148_gradients_of_twelve_layers() -> None:
    """Along two axes, along one, and with rows of sequences between products."""
    check(run_ranks(PROGRAMS, 4, "12", *TWELVE_LAYERS, timeout=280), TWELVE_LAYERS, 148)


def test_a_value_goes_from_every_sharding_to_every_other_one() -> None:
    """Also where a split that goes lies outside of one that comes: ranks once had rows of others."""
    for item in run_ranks(PROGRAMS.with_name("moved_programs.py"), 4):
        assert not item["wrong"], item


def test_a_program_is_that_of_one_rank() -> None:
    program = blu.jit(lambda x, w: blu.sum(x @ w), mesh=blu.Mesh(dp=4), shard={"x": "dp, *"})
    plan = program.trace(blu.spec((8, 6)), blu.spec((6, 5))).compile().program.plan
    assert [spec.shape for spec in plan.inputs] == [(2, 6), (6, 5)]
    assert [item.kind for item in plan.collectives] == ["all_reduce"]


def test_results_lie_as_the_arguments_of_their_names() -> None:
    program = blu.jit(lambda w, g: {"w": w - g}, mesh=blu.Mesh(tp=2), shard={"w": "*, tp"})
    plan = program.trace(blu.spec((4, 6)), blu.spec((4, 6))).compile().program.plan
    assert plan.outputs[0].shape == (4, 3)
    assert not [item for item in plan.collectives if item.kind != "axis_index"]


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "cummin"])
def test_running_numbers_of_rows_stay_where_the_rows_are(name: str) -> None:
    """Of columns that are split, rows come together first. Gradients of extremes go to places among all elements."""
    running = lambda x: getattr(blu, name)(x, 1)  # noqa: E731
    slope = blu.grad(lambda x: (running(x) ** 2).sum())
    for function in (running,) if name in ("cummax", "cummin") else (running, slope):
        for shard, gathered in (("dp, *", set()), ("*, dp", {"all_gather"})):
            program = blu.jit(lambda x, f=function: {"x": f(x)}, mesh=blu.Mesh(dp=2), shard={"x": shard})
            plan = program.trace(blu.spec((8, 6))).compile().program.plan
            assert {item.kind for item in plan.collectives} - {"axis_index"} == gathered


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ({"x": "dp, *"}, r"argument 'x': a dimension of 7 elements cannot be split over 2 ranks of dp"),
        ({"w": "tp, *"}, r"has the axis 'tp'; those of the mesh: dp"),
        ({"w": "dp"}, r"'dp' has 1 dimensions, and f32\[6, 5\] has 2"),
        ({"w": "*, dp/2"}, r"a dimension of 5 elements cannot be split over 2 ranks of dp in 2 groups"),
    ],
)
def test_a_sharding_that_does_not_fit_names_the_argument(shard: dict, message: str) -> None:
    program = blu.jit(lambda x, w: x @ w, mesh=blu.Mesh(dp=2), shard=shard)
    with pytest.raises(PassError, match=message):
        program.trace(blu.spec((7, 6)), blu.spec((6, 5))).lower()


@pytest.mark.parametrize("text", ["dp", "*, dp/0", "*, dp~/3", "dp dp, *", "dp,", "*, * + 1", "d-p, *"])
def test_text_that_is_no_sharding_is_refused(text: str) -> None:
    with pytest.raises((ShapeError, PassError)):
        blu.jit(lambda x: x, mesh=blu.Mesh(dp=2), shard={"x": text}).trace(blu.spec((4, 6))).lower()


def test_a_pattern_that_fits_nothing_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"no argument or result is called 'y\.\*'"):
        blu.jit(lambda x: x, mesh=blu.Mesh(dp=2), shard={"y.*": "dp"}).trace(blu.spec((4,)))


def test_numbers_of_ranks_that_would_fit_are_named() -> None:
    with pytest.raises(ShapeError) as caught:
        Sharding.parse("dp").local(TensorType((12,), f32), blu.Mesh(dp=5))
    assert "1, 2, 3, 4, 6, 12" in str(caught.value)


def test_collectives_that_users_write_and_shardings_do_not_mix() -> None:
    program = blu.jit(lambda x: blu.all_reduce(x, "dp"), mesh=blu.Mesh(dp=2), shard={"x": "dp"})
    with pytest.raises(PassError, match=r"blu\.all_reduce is in a program that Blu shards"):
        program.trace(blu.spec((4,))).lower()


@pytest.mark.parametrize("text", ["dp, *", "*, tp/3", "* + dp", "dp tp, *", "*, dp cp/4 + tp", "*, cp~", "cp~/4"])
def test_shardings_are_written_as_they_are_read(text: str) -> None:
    assert str(Sharding.parse(text)) == text


def test_of_a_mirrored_dimension_a_rank_has_a_part_of_each_half() -> None:
    program = blu.jit(lambda x: {"y": x}, mesh=blu.Mesh(cp=2), shard={"x": "cp~"}).trace(blu.spec((8,)))
    plan = program.compile().program.plan
    assert plan.inputs[0].shape == (4,)
    with pytest.raises(ShapeError, match="6 elements cannot be split over 2 ranks of cp in 2 groups"):
        Sharding.parse("cp~").local(TensorType((6,), f32), blu.Mesh(cp=2))


def test_of_nested_splits_the_inner_one_counts_what_is_left() -> None:
    mesh = blu.Mesh(dp=2, cp=2)
    assert Sharding.parse("dp cp/4").local(TensorType((32,), f32), mesh).shape == (8,)
    with pytest.raises(ShapeError, match="3 elements"):
        Sharding.parse("dp cp/4").local(TensorType((6,), f32), mesh)
    assert np.prod(Sharding.parse("dp, cp").local(TensorType((4, 8), f32), mesh).shape) == 8


def test_products_for_gradients_of_weights_run_beside_sums_over_ranks() -> None:
    def net(w: dict, x: object) -> object:
        for _ in range(2):
            x = x + blu.tanh(blu.tanh(x) @ w["up"]) @ w["down"]
        return blu.sum(blu.square(x))

    def step(w: dict, x: object) -> dict:
        loss, gradients = blu.value_and_grad(net)(w, x)
        return {"loss": loss, "w": gradients}

    program = blu.jit(step, mesh=blu.Mesh(tp=2), shard={"w.up": "*, tp", "w.down": "tp, *"})
    weights = {"up": blu.spec((16, 64)), "down": blu.spec((64, 16))}
    lowered = program.trace(weights, blu.spec((32, 16))).lower(stop="blu-overlap-collectives")
    beside = re.findall(r'"plan\.start"[^\n]*"sum"[^\n]*\n(.*?)"plan\.wait"', str(lowered.module), re.DOTALL)
    assert any("@gemm" in text for text in beside), beside
