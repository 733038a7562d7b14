"""All kernels of GPT-2 for three GPUs: ptxas takes them, nothing is spilled, and they take no more than they did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import product

import pytest

from blu.compiler.codegen.cubins import find_ptxas
from tests.support.folders import ROOT
from tests.support.gpu_budgets import BUDGETS, PROGRAMS, TARGETS, Kernels, excesses, ptxas_release, training_step

SMALL = {"n_layer": 1, "n_head": 2, "n_embd": 32, "vocab_size": 97, "n_positions": 16}
CHILD = """
from tests.support.gpu_budgets import Kernels, training_step
from tests.kernels.gpu.test_budgets import SMALL
print(Kernels.of(training_step(SMALL, 2, 16), "sm_90a").digest())
"""


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize(("program", "target"), list(product(PROGRAMS, TARGETS)))
def test_kernels_of_gpt2_stay_within_their_budgets(program: str, target: str) -> None:
    """Budgets are lowered, or raised for a reason, by `python -m tests.support.gpu_budgets`."""
    kernels, recorded = Kernels.of(PROGRAMS[program](), target), json.loads(BUDGETS.read_text())
    assert not excesses(kernels.measure(), recorded["programs"][program][target], recorded["ptxas"] == ptxas_release())
    texts = kernels.plain_texts()
    assert len(set(texts)) == len(texts), "two kernels are equal: blu-share-kernels should have made one of them"


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
    found = {process.communicate()[0].strip() for process in processes}
    assert found == {Kernels.of(training_step(SMALL, 2, 16), "sm_90a").digest()}


def test_budgets_may_only_fall() -> None:
    allowed = {"kernels": 4, "launches": 9, "families": {"gemm": {"registers": 100, "local_bytes": 0}}}
    less = {"kernels": 3, "launches": 9, "families": {"gemm": {"registers": 90, "local_bytes": 0}}}
    assert excesses(allowed, allowed, True) == excesses(less, allowed, True) == []
    assert excesses(allowed, less, True) == ["kernels: 4 > 3", "registers of gemm: 100 > 90"]
    assert excesses(allowed, less, False) == ["kernels: 4 > 3"]
    other = {**less, "families": {"rows": {"registers": 8, "local_bytes": 4}}}
    assert excesses(other, allowed, True) == ["registers of rows: 8 > none", "local_bytes of rows: 4 > none"]
