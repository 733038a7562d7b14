"""Equal calls in one launch on GPUs: what they compute, what is merged, where memory may be shared."""

from __future__ import annotations

import json
import re

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.compiler.pipelines import sm90
from blu.passes.host.batch_calls import BatchCalls
from tests.support.gpu_budgets import training_step
from tests.support.kernels.gpu_program import GpuProgram, compile_program


def array(*shape: int, dtype: type = np.float32, seed: int = 0) -> np.ndarray:
    """Numbers of a normal distribution."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32).astype(dtype)


def launches(program: GpuProgram) -> list[tuple[str, int]]:
    """Each launch's kernel, and for how many calls it runs."""
    return [(launch["kernel"], launch["grid"][2]) for launch in program.plan["launches"]]


@pytest.fixture
def without_batches(monkeypatch):
    """Compile every call to a launch of its own."""
    monkeypatch.setattr(sm90, "PIPELINE", sm90.PIPELINE.replacing(BatchCalls(call_bytes=0)))


def layers(x, *weights):
    """Products with weights that are cast one by one."""
    for weight in weights:
        x = blu.tanh(x @ blu.astype(weight, "bf16"))
    return x


WEIGHTS = [array(16, 16, seed=seed) for seed in range(3)]


def test_casts_of_weights_are_one_launch():
    program = compile_program(layers, array(8, 16, dtype=ml_dtypes.bfloat16), *WEIGHTS)
    assert launches(program)[0] == ("rows_0_batch", 3)
    assert sum(kernel.startswith("rows_0") for kernel, _ in launches(program)) == 1
    assert program.plan["tables"] == [
        [["input", 1, 0], ["arena", 0], ["input", 2, 0], ["arena", 512], ["input", 3, 0], ["arena", 1024]]
    ]
    assert re.fullmatch(r".*test_batches.py:\d+ and 2 more", program.plan["launches"][0]["location"])
    assert "rows_0" not in program.ptx, "the kernel of single calls, which there are none of"


def test_results_are_the_same(without_batches):
    arguments = array(8, 16, dtype=ml_dtypes.bfloat16), *WEIGHTS
    alone = compile_program(layers, *arguments)
    assert [count for kernel, count in launches(alone) if kernel == "rows_0"] == [1, 1, 1]
    sm90.PIPELINE = sm90.PIPELINE.replacing(BatchCalls())
    (expected,), (found,) = alone.interpret(*arguments), compile_program(layers, *arguments).interpret(*arguments)
    assert np.array_equal(found.view(np.uint16), expected.view(np.uint16)) and np.isfinite(expected).all()


def test_kernels_of_several_launches_and_strided_arguments():
    """Sums over columns, in two launches each, of parts of larger arrays."""
    x, y = array(600, 16), array(600, 16, seed=1)

    def sums(x, y):
        return blu.sum(x[:, :8], axis=0), blu.sum(y[:, :8], axis=0)

    program = compile_program(sums, x, y)
    assert launches(program) == [("rows_0_batch", 2), ("loops_0_batch", 2)]
    for found, source in zip(program.interpret(x, y), (x, y), strict=True):
        np.testing.assert_allclose(found, source[:, :8].sum(0), rtol=2e-5, atol=2e-5)


def test_parts_of_several_products_are_added_in_one_launch():
    """Products of few long rows are split; what they leave in parts is added for all of them at the end."""
    x, y, g = array(2100, 24), array(2100, 24, seed=1), array(2100, 40, seed=2)

    def gradients(x, y, g):
        with blu.autocast("tf32"):
            return x.T @ g, y.T @ g

    program = compile_program(gradients, x, y, g, target="sm_80")
    assert launches(program) == [("gemm_0", 1), ("gemm_0", 1), ("rows_0_batch", 2)]
    (table,) = program.plan["tables"]
    each = len(table) // 2
    first, second = ([offset for *_, offset in table[call : call + each - 1]] for call in (0, each))
    parts = [4 * 24 * 40 * number for number in range(each - 1)]
    assert [offset - first[0] for offset in first] == [offset - second[0] for offset in second] == parts
    assert first[0] != second[0]
    for found, left in zip(program.interpret(x, y, g), (x, y), strict=True):
        wide, other = left.astype(np.float64), g.astype(np.float64)
        # Factors have 10 bits of fraction, whose errors add up as independent ones do.
        rounding = 2.0**-11 * np.sqrt((wide**2).T @ other**2)
        assert (np.abs(found - wide.T @ other) < 3 * rounding).all()


def test_a_norm_is_few_launches():
    """The squares of all gradients are summed at once, and then added up in order."""
    gradients = [array(3, 40), *(array(4, 40, seed=seed) for seed in range(1, 5))]
    program = compile_program(lambda *all_: blu.optim.clip_by_global_norm(list(all_), 1.0)[1], *gradients)
    assert sorted(count for _, count in launches(program)) == [1, 1, 1, 4, 4]
    (norm,) = program.interpret(*gradients)
    assert norm == pytest.approx(np.sqrt(sum((item**2).sum() for item in gradients)), rel=1e-6)


@pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas on this machine")
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_tables_cost_no_local_memory(target: str):
    """Pointers come from global memory by loads that may be cached; what they point to is known to be global."""
    weights = [np.broadcast_to(np.zeros((), np.float32), (768, 768))] * 4
    program = compile_program(lambda *all_: [weight * 2.0 for weight in all_], *weights, target=target)
    assert launches(program) == [("rows_0_batch", 4)]
    ptx = program.ptx["rows_0_batch"]
    assert len(re.findall(r"ld\.global\.nc\.[bu]64", ptx)) == 2
    assert re.search(r"ld\.global\.v4", ptx) and re.search(r"st\.global\.v4", ptx)
    assert not re.search(r"\b(ld|st)\.(local|v4|b32|f32)", ptx)
    assert len(re.findall(r"\.param", ptx)) == 2, "the table: declared and read"
    assert not program.spills()


def test_launches_of_a_training_step_grow_by_the_layer_only_where_layers_wait_for_each_other():
    """Twelve layers take 330 launches at most; casts, sums of parts, norms and updates are the same for all layers."""

    def count(layers: int) -> int:
        config = {"n_layer": layers, "n_head": 2, "n_embd": 32, "vocab_size": 97, "n_positions": 16}
        lowered = training_step(config, 2, 16).lower("sm_90a")
        plan = json.loads(lowered.report.module.operation.attributes["blu.plan"].value)
        return len(plan["launches"])

    two, three = count(2), count(3)
    each = three - two
    assert each <= 24 and two + 10 * each <= 330
