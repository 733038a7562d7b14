"""All kernels of GPT-2 for three GPUs: ptxas takes them, nothing is spilled, and they take no more than they did."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from tests.support.folders import ROOT
from tests.support.gpu_budgets import (
    BUDGETS,
    PROGRAMS,
    Kernels,
    cases,
    excesses,
    proof_of_budget,
    ptxas_release,
)

SMALL = {"n_layer": 1, "n_head": 2, "n_embd": 32, "vocab_size": 97, "n_positions": 16}
CHILD = """
from tests.support.gpu_budgets import Kernels, training_step
from tests.kernels.gpu.test_budgets import SMALL
print(Kernels.of(training_step(SMALL, 2, 16), "sm_90a").digest())
"""


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize(("program", "target"), cases())
def test_kernels_of_gpt2_stay_within_their_budgets(program: str, target: str) -> None:
    """Budgets are lowered, or raised for a reason, by `python -m tests.support.gpu_budgets`."""
    module, recorded = PROGRAMS[program]().lower(target).module, json.loads(BUDGETS.read_text())
    allowed = recorded["programs"][program][target]
    if recorded["proofs"].get(f"{program} | {target}") == proof_of_budget(module, target, allowed):
        return
    kernels = Kernels.made_of(module, target)
    assert not excesses(kernels.measure(), allowed, recorded["ptxas"] == ptxas_release())
    assert kernels.are_different, "two kernels are equal: blu-share-kernels should have made one of them"


def test_the_same_program_is_compiled_to_the_same_bytes_by_every_process() -> None:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
        )
        for seed in ("1", "2")
    ]
    found = [process.communicate()[0].strip() for process in processes]
    assert found[0] == found[1] != ""


@pytest.mark.skipif(find_ptxas() is None, reason="a proof names the release of ptxas")
def test_a_proof_is_one_of_this_program_and_this_budget() -> None:
    allowed = {"kernels": 1, "launches": 1, "families": {}}
    first, second = (
        blu.jit(lambda x, scale=scale: blu.exp(x) * scale).trace(blu.spec((40,))).lower("sm_80").module
        for scale in (2.0, 3.0)
    )
    known = proof_of_budget(first, "sm_80", allowed)
    assert known == proof_of_budget(first, "sm_80", dict(allowed))
    others = [(second, "sm_80", allowed), (first, "sm_90a", allowed), (first, "sm_80", {**allowed, "launches": 2})]
    assert known not in [proof_of_budget(*other) for other in others]


def test_budgets_may_only_fall() -> None:
    gemm = {"registers": 100, "local_bytes": 0}
    allowed = {"kernels": 4, "launches": 9, "arena_bytes": 64, "families": {"gemm": gemm}}
    less = {**allowed, "kernels": 3, "arena_bytes": 48, "families": {"gemm": {"registers": 90, "local_bytes": 0}}}
    assert excesses(allowed, allowed, True) == excesses(less, allowed, True) == []
    assert excesses(allowed, less, True) == ["kernels: 4 > 3", "arena_bytes: 64 > 48", "registers of gemm: 100 > 90"]
    assert excesses(allowed, less, False) == ["kernels: 4 > 3", "arena_bytes: 64 > 48"]
    other = {**less, "families": {"rows": {"registers": 8, "local_bytes": 4}}}
    assert excesses(other, allowed, True) == ["registers of rows: 8 > none", "local_bytes of rows: 4 > none"]
