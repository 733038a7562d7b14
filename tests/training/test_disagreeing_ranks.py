"""Ranks of `blu train` that were started with something else than the others end before they learn, and say what."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from blu.runtime.ranks.mpi import wheel_file
from tests.support.ranks.starting import Outcome, run_command

MODEL = "gpt2-demo-config --layers 1 --heads 2 --width 16 --positions 16 --length 16 --steps 2 --batch-size 2".split()
# A command whose version of Blu is another one.
OTHER_BLU = """
import blu.installed as installed, sys
version = installed.version_of
installed.version_of = lambda name: "9.9" if name == "blu" else version(name)
from blu.compiler.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
BLU = [sys.executable, "-m", "blu"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("texts")
    for name, factor in (("one", 1), ("other", 3)):
        text = " ".join(f"{factor * number * number % 977}" for number in range(3000))
        (folder / f"{name}.txt").write_text(text)
    return {path.stem: path for path in folder.iterdir()}


def trained(out: Path, *ranks: list[str]) -> Outcome:
    """Two ranks that MPI starts with commands of their own."""
    mpiexec = wheel_file("mpiexec") or shutil.which("mpiexec")
    assert mpiexec
    commands = [["-n", "1", *rank, "--out", str(out), "--checkpoint-every", "1"] for rank in ranks]
    words = [word for number, item in enumerate(commands) for word in ([":"] if number else []) + item]
    return run_command([mpiexec, *words], {"BLU_NUM_THREADS": "1", "BLU_RANK_TIMEOUT": "20"})


@pytest.mark.parametrize("change", ["config", "recipe", "data", "version"])
def test_ranks_that_were_started_with_other_things_end_and_say_which(
    change: str, texts: dict[str, Path], tmp_path: Path
) -> None:
    words = ["train", *MODEL, "--data", str(texts["one"])]
    other = [*BLU, *words]
    said = {
        "config": (["--layers", "2"], ['"n_layer": 1', '"n_layer": 2']),
        "recipe": (["--learning-rate", "0.01"], ['"final_learning_rate": 0.001']),
        "data": (["--data", str(texts["other"])], ["what is trained, from line"]),
        "version": ([], ["another version of Blu", "9.9"]),
    }
    more, expected = said[change]
    if change == "version":
        other = [sys.executable, "-c", OTHER_BLU, *words]
    outcome = trained(tmp_path / "run", [*BLU, *words], [*other, *more])
    assert outcome.code != 0 and not outcome.orphans, outcome
    assert all(text in outcome.err for text in ("rank 1 of 2 has another", *expected)), outcome.err
    assert not list((tmp_path / "run").glob("step-*")), "nothing is saved"
