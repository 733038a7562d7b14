"""Ranks that go on while their parts of a checkpoint are written, and what stays of it where one of them dies."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from blu.frontend.io.checkpoints import checkpoint
from tests.support.ranks.starting import launch_ranks


def test_steps_are_taken_while_all_ranks_write(tmp_path: Path):
    outcome = launch_ranks(2, "saving", str(tmp_path), "well", BLU_RANK_TIMEOUT="30")
    assert (outcome.code, outcome.orphans) == (0, []), outcome.err
    found = json.loads(outcome.out.partition("RANK ")[2])
    assert min(found["steps"]) >= 10
    assert found["found"] == [20.0] * 3 + [21.0] * 3  # as after the twenty steps behind the first save


def test_a_rank_that_dies_while_all_write_leaves_the_checkpoint_before(tmp_path: Path):
    outcome = launch_ranks(2, "saving", str(tmp_path), "dies", BLU_RANK_TIMEOUT="5")
    assert (outcome.code, outcome.orphans) == (137, []), outcome.err
    assert "rank 1 (" in outcome.err and "died without a word" in outcome.err
    found = checkpoint.load(tmp_path)
    assert found.step == 1
    np.testing.assert_array_equal(np.asarray(found.model["w"]), [0, 0, 0, 1, 1, 1])
