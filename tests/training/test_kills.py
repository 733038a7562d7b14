"""A run that is killed at random moments, fifty times, ends with the same bits as one that nobody disturbs."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.folders import TESTS
from tests.support.training.training_kills import KILLS
from tests.support.training.training_runs import BATCH, MODEL, Trial


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_as_if_nothing_had_been(trial: Trial) -> None:
    words = [*MODEL, *BATCH, "--data", "tokens.bin", "--warmup", "5", "--decay-steps", "500", "--validate-every", "0"]
    assert trial.train("--steps", "1", "--out", "compiled", *words[len(MODEL) :], flags=MODEL).code == 0
    script = TESTS / "support" / "training" / "training_kills.py"
    command = [sys.executable, str(script), str(trial.folder), *words, "--checkpoint-every", "7", "--threads", "1"]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    found = json.loads(ran.stdout)
    assert len(found["steps"]) == KILLS and found["steps"] == sorted(found["steps"])
    assert len(set(found["steps"])) > 3, "the run was hardly ever killed while it learnt"
    assert found["same"] and found["same losses"]
