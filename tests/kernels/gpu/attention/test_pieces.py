"""Kernels of pieces of attention in the interpreter of PTX: results, and sums of weights."""

from __future__ import annotations

import numpy as np
import pytest

from blu.dialects.ops.attention import AttentionPiece
from tests.support.kernels.gpu_program import DTYPES, compile_program

CASES = {
    "warpgroups": ("bf16", (1, 2, 100, 64), (1, 1, 80, 64), False, None),
    "warpgroups, causal": ("bf16", (2, 130, 64), (2, 130, 64), True, None),
    "warpgroups, nothing seen": ("f16", (1, 64, 64), (1, 64, 64), True, -64),
    "warpgroups that share keys": ("bf16", (2, 130, 16), (2, 70, 16), True, 7),
    "tiles": ("f32", (2, 5, 8), (1, 33, 8), False, None),
    "tiles, some see nothing": ("bf16", (1, 2, 9, 24), (1, 2, 17, 24), True, -4),
}


@pytest.mark.parametrize("name", CASES)
def test_a_piece_is_the_result_with_its_sums(name: str) -> None:
    dtype, query, key, causal, start = CASES[name]
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=shape).astype(DTYPES[dtype]) for shape in (query, key, key)]
    arrays += [] if start is None else [np.array(start, np.int32)]
    attributes = {"causal": causal, "scale": 0.3, "precision": "highest"}

    def piece(query, key, value, offset=None):
        return AttentionPiece(query, key, value, offset, **attributes)

    wished = {"attention_piece_0": {"kind": "wgmma_shared"}} if name == "warpgroups that share keys" else None
    program = compile_program(piece, *arrays, target="sm_90a", schedules=wished)
    assert any("wgmma" in text for text in program.ptx.values()) == name.startswith("warpgroups")
    assert any("setmaxnreg" in text for text in program.ptx.values()) == ("share" in name)
    result, sums = program.interpret(*arrays)
    wide = [np.asarray(item, np.float64) for item in arrays[:3]]
    expected, of_weights = AttentionPiece.reference(*wide, None if start is None else arrays[3], **attributes)
    rounding = 2**-8 if dtype == "bf16" else 2**-10 if dtype == "f16" else 2**-20
    np.testing.assert_allclose(np.asarray(result, np.float64), expected, rtol=0, atol=2 * rounding)
    as_scores = np.array([attributes["scale"], 1])
    np.testing.assert_allclose(sums * as_scores, of_weights * as_scores, rtol=0, atol=2e-6)
