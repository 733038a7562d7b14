"""Arrays that a function reads from outside are in the `.blu` file that is written of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import blu
from blu.compiler.cli.compile import main as compile_main
from blu.compiler.cli.run import main as run_main
from blu.runtime import Artifact

# Of more than 16 KiB, so that it is an input of the program; a smaller array is a constant in its code.
WEIGHT, SHIFT = np.linspace(-1, 1, 64 * 96, dtype=np.float32).reshape(64, 96), np.arange(96, dtype=np.float64)
X = np.linspace(0, 2, 3 * 64, dtype=np.float32).reshape(3, 64)
# Not contiguous, so that what is written is not the memory as it lies.
TURNED = np.asfortranarray(WEIGHT)


def shifted(x):
    return x @ WEIGHT + x @ TURNED + SHIFT


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with x.npy."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    return tmp_path


def test_a_saved_program_runs_with_what_it_has_captured(here: Path, capsys: pytest.CaptureFixture[str]):
    compiled = blu.jit(shifted).trace(blu.spec(X.shape)).compile()
    compiled.save("shifted.blu")
    assert any(name.startswith("weights/captured.") for name in Artifact.open("shifted.blu").names())
    assert run_main(["shifted.blu", "--input", "x=x.npy", "--output-dir", "out"]) == 0
    np.testing.assert_array_equal(np.load("out/result_0.npy"), compiled(X))
    capsys.readouterr()
    assert run_main(["shifted.blu"]) == 0
    shown = capsys.readouterr().out
    assert "x: f32[3, 64]" in shown and "captured" not in shown


def test_a_compiled_file_runs_with_what_its_function_has_captured(here: Path):
    (here / "scale.py").write_text(
        "import blu\nimport numpy as np\n\nWEIGHT = np.ones((64, 96), np.float32)\n\n\n"
        "def scale(x: blu.spec((3, 64))):\n    return x @ WEIGHT\n"
    )
    assert compile_main(["scale.py::scale", "-o", "scale.blu"]) == 0
    assert run_main(["scale.blu", "--input", "x=x.npy", "--output-dir", "out"]) == 0
    np.testing.assert_allclose(np.load("out/result_0.npy"), np.repeat(X.sum(1, keepdims=True), 96, 1), rtol=1e-5)
