"""Sums over ranks in bf16: no further from the exact one than roundings of the terms and of the sum."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import blu
from blu.compiler.training.programs import TrainingRequest
from blu.compiler.training.recipe import Recipe
from blu.errors import ArgumentError
from blu.frontend.io.gpt2 import complete_config
from tests.support.programs.rank_programs import run_ranks

SIZES = {"n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 32, "n_positions": 8}


def test_gradients_in_bf16_are_within_their_bound_and_losses_are_f32() -> None:
    found = run_ranks(Path(__file__).parent / "narrow_programs.py", 2)
    for item in found:
        assert 0.05 < item["share"] <= 1, item
        assert item["bits"] == 0, "a sum in bf16 has no lower bits"
        assert item["f32"] < 1e-5 and item["loss"] < 1e-6, item
        assert 0.05 < item["activations"] <= 1 and item["statistics"] < 1e-5, item
    assert found[0]["share"] == found[1]["share"]


@pytest.mark.parametrize("sharded", ["", "optimizer"])
def test_gradients_of_a_training_step_travel_in_half_the_bytes(sharded: str) -> None:
    config = complete_config({"model_type": "gpt2", **SIZES})
    request = TrainingRequest.of(
        "step", config, "x86-64-v3", batch=4, length=8, mesh="dp=2", sharded=sharded, reduce_dtype="bf16"
    )
    text = request.trace().lower(stop="blu-bucket-collectives").text
    sums = [line for line in text.splitlines() if '"blu.all_reduce"' in line or '"blu.reduce_scatter"' in line]
    types = [line.partition("(tensor<")[2].partition(">")[0] for line in sums]
    assert [item for item in types if item.endswith("f32") and item not in ("f32", "2xf32")] == [], types
    assert len(types) < 5 or sharded, "gradients travel together"
    assert sum(item.endswith("bf16") for item in types) >= 1


@pytest.mark.parametrize(("dtype", "narrow"), [("bf16", True), ("f32", False)])
def test_activations_are_added_up_in_the_dtype_of_the_policy_and_statistics_in_f32(dtype: str, narrow: bool) -> None:
    config = complete_config({"model_type": "gpt2", **SIZES})
    request = TrainingRequest.of("step", config, "x86-64-v3", batch=4, length=8, mesh="tp=2", dtype=dtype)
    text = request.trace().lower(stop="blu-narrow-sums").text
    types = re.findall(r'"blu.all_reduce".*reduction = "sum".*: \(tensor<(\S+)>\)', text)
    activations = [item for item in types if item.rpartition("x")[0].endswith("x16")]
    assert len(activations) >= 4 and all(item.endswith("xbf16") == narrow for item in activations), types
    assert "32x1xf32" in types and not any(item.endswith("x1xbf16") for item in types), types
    assert "32xf32" in types and "32xbf16" not in types, "sums of exponentials are statistics in whatever shape"


def test_no_rank_keeps_exponentials_of_its_classes_until_their_sum_is_known() -> None:
    """What is written between products has the bytes of logits in bf16, not those of f32 beside them."""
    config = complete_config({"model_type": "gpt2", **SIZES, "vocab_size": 4096})
    request = TrainingRequest.of("step", config, "sm_90a", batch=64, length=8, mesh="tp=2", dtype="bf16")
    text = request.trace().lower("sm_90a", stop="blu-plan-memory").text
    buffers = re.findall(r'"plan.buffer"\(\) \{.*space = "arena"\} : \(\) -> memref<(512x2048x\w+)>', text)
    assert buffers and set(buffers) == {"512x2048xbf16"}, buffers


def test_dtypes_that_sums_cannot_have_are_refused() -> None:
    with pytest.raises(ArgumentError, match="sums over dp cannot be made in 'i8'"):
        blu.jit(lambda x: x, mesh=blu.Mesh(dp=2), reduce={"dp": "i8"}).trace(blu.spec((4,)))
    with pytest.raises(ArgumentError, match="reduce_dtype is 'f64', expected one of f32, bf16"):
        Recipe(reduce_dtype="f64")
