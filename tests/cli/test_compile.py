"""Tests of the commands `blu-compile`, `blu run`, `blu cache` and `blu doctor`, run as users run them."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import blu
from blu.passes.framework import registry
from blu.runtime import Artifact

Run = Callable[..., "Found"]

MODEL = """
import blu
from blu import nn

def scores(x: blu.spec((4, 8), "f32"), w: blu.spec((8, 16), "f32")):
    y = x @ w
    return blu.softmax(y, axis=-1)

@blu.jit
def doubled(x=blu.spec((3,))):
    return x * 2

class Layer(nn.Module):
    def __init__(self):
        self.linear = nn.Linear(4, 2)
    def forward(self, x):
        return {"y": self.linear(x)}

def nested(layer, x):
    return layer(x)

def nested_example():
    return Layer(), blu.spec((5, 4))

def unknown(x):
    return x

def branching(x: blu.spec((3,))):
    if x[0] > 0:
        return x
    return -x

def failing(x: blu.spec((3,))):
    return {}["nothing"]

def mismatched(x: blu.spec((3,)), y: blu.spec((4,))):
    return x + y
"""


@dataclass
class Found:
    """What a command said, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command in a fresh folder with model.py in it, with a cache of its own and no network."""
    from huggingface_hub import constants

    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    registry.all_passes()
    for name in ("_passes", "_placements", "_files"):  # what --load-pass registers is forgotten after the test
        monkeypatch.setattr(registry, name, dict(getattr(registry, name)))
    monkeypatch.setenv("BLU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))

    def run(command: str, *words: str) -> Found:
        try:
            code = importlib.import_module(f"blu.compiler.cli.{command}").main(list(words))
        except SystemExit as end:  # argparse
            code = end.code
        said = capfd.readouterr()
        return Found(code, said.out, said.err)

    return run


def check_error(found: Found, code: int, *parts: str) -> None:
    assert found.returncode == code, found.stderr
    for part in parts:
        assert part in found.stderr, found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ([], ["which model?", "blu-compile gpt2"]),
        (["gpt2", "--targt=x"], ["unexpected argument '--targt=x'", "did you mean '--target'?"]),
        (["gpt2", "--emit=objct"], ["--emit=objct is nothing that Blu writes", "did you mean 'object'?"]),
        (["gpt2", "--target=x86-64-v5"], ["there is no target 'x86-64-v5'", "did you mean 'x86-64-v4'"]),
        (["gpt2", "--greedy", "--top-k=3"], ["--greedy and --top-k contradict each other"]),
        (["gpt2", "--temperature=0"], ["temperature=0.0 must be above 0"]),
        (["gpt2", "--top-p=2"], ["top_p=2.0 must be above 0 and at most 1"]),
        (["gpt2", "--run", "--emit=asm"], ["--run (or --logits) and --emit do not go together"]),
        (["gpt2", "--prompt-tokens=1,x"], ["'x' is no token id"]),
        (["gpt2", "--max-tokens=-1"], ["'-1' is not an integer of at least 0"]),
        (["gpt2", "--weights=random:x", "--run"], ["'x' is no seed"]),
        (["gpt2", "--seq-len=2000", "--emit=blu"], ["--seq-len 2000 is more than the model's 1024 positions"]),
        (["gpt2", "--compile-to=linag"], ["no level or pass 'linag'", "'linalg'"]),
        (["gpt2", "--pass-pipeline=blu-fuze"], ["blu-fuze", "blu-fuse"]),
        (["gpt2", "--autocast=bf61"], ["--autocast=bf61 is no policy", "did you mean 'bf16'?"]),
        (["gpt2", "--autocast=bf16", "--pass-pipeline=blu-fuse"], ["no effect on these passes", "blu-autocast"]),
        (["gpt2", "--emit=object"], ["--emit=object needs a file", "-o FILE"]),
        (["gpt2", "-o", "x.y"], ["-o x.y: written as what?"]),
        (["model.py"], ["model.py: which function?", "model.py::FUNCTION"]),
        (["model.py::score", "--emit=blu"], ["has no function 'score'", "did you mean 'scores'?"]),
        (["absent.py::f"], ["there is no file absent.py"]),
        (["model.py::scores", "--run"], ["only language models generate text"]),
    ],
)
def test_wrong_usage_is_said_in_a_line(run: Run, words: list[str], parts: list[str]) -> None:
    check_error(run("compile", *words), 2, *parts)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["gpt2", "--target=cuda:sm_90a"], ["there is no target 'cuda:sm_90a'", "Targets: cpu, cuda"]),
        (["gpt2", "--run"], ["cannot get the weights of 'gpt2'", "--weights random:SEED"]),
        (["gpt2"], ["cannot get the weights of 'gpt2'", "--weights random:SEED"]),
        (["gtp2"], ["did you mean 'gpt2'"]),
        (["model.py::unknown"], ["nothing says what shape x has", "unknown_example()"]),
        (["model.py::branching"], ["model.py:29: error: a Python condition needs the numbers", "blu.where"]),
        (["model.py::mismatched"], ["model.py:37: error: add: shapes [3] and [4]"]),
        (["absent.mlir"], ["cannot read absent.mlir"]),
    ],
)
def test_errors_name_what_to_do(run: Run, words: list[str], parts: list[str]) -> None:
    check_error(run("compile", *words), 1, *parts)


def test_a_users_own_error_keeps_its_traceback(run: Run) -> None:
    found = run("compile", "model.py::failing")
    assert found.returncode == 1
    assert "model.py::failing fails: KeyError: 'nothing'" in found.stderr
    assert 'return {}["nothing"]' in found.stderr
    assert "trace.py" not in found.stderr.splitlines()[1]


def test_lists_and_pipelines_are_printed(run: Run) -> None:
    listed = run("compile", "--list-passes")
    assert listed.returncode == 0
    assert "blu-fuse" in listed.stdout
    pipeline = run("compile", "--print-pipeline", "--compile-to=linalg")
    assert pipeline.returncode == 0
    assert "blu-decompose," in pipeline.stdout
    assert "blu-bufferize" not in pipeline.stdout


def test_autocast_is_an_option_of_the_pipeline(run: Run) -> None:
    pipeline = run("compile", "--print-pipeline", "--autocast=bf16")
    assert pipeline.stdout.startswith("blu-autocast{policy=bf16},")
    text = run("compile", "model.py::scores", "--autocast=bf16", "--compile-to=linalg").stdout
    assert 'blu.precision = "bf16"' in text and "xbf16>" in text


def test_ir_assembly_and_llvm_ir_are_written(run: Run, tmp_path: Path) -> None:
    assert "linalg." in run("compile", "model.py::scores", "--compile-to=linalg").stdout
    assert "blu.softmax" in run("compile", "model.py::scores", "--pass-pipeline=").stdout
    assert "vector." in run("compile", "model.py::scores", "--emit=kernel").stdout
    found = run("compile", "model.py::scores", "-o", "scores.ll")
    assert found.returncode == 0, found.stderr
    assert "define void @" in (tmp_path / "scores.ll").read_text()
    assert ".globl" in run("compile", "model.py::scores", "--emit=asm").stdout


NEGATE = '''
from blu import Pass, register_pass
from blu.dialects.core.mlir import ir
from blu.passes.framework.base import find

@register_pass(after="blu-decompose")
class ExpToTanh(Pass, name="my-exp-to-tanh"):
    """blu.exp becomes blu.tanh."""

    def run(self, module):
        for item in list(find(module)):
            old = item.operation
            if old.name == "blu.exp":
                place = {"ip": ir.InsertionPoint(old), "loc": old.location}
                new = ir.Operation.create("blu.tanh", [old.results[0].type], list(old.operands), **place)
                old.results[0].replace_all_uses_with(new.results[0])
                old.erase()
'''


CRASH = '''
import os
from blu import Pass, register_pass

@register_pass(after="blu-fuse")
class Crash(Pass, name="my-crash"):
    """Ends the process."""

    def run(self, module):
        os.abort()
'''


def test_a_pass_of_the_users_runs_between_ours(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my_pass.py").write_text(NEGATE)
    arrays = save_inputs(tmp_path)
    found = run("compile", "model.py::scores", "--load-pass=my_pass.py", "--dump-ir=ir", "-o", "scores.blu", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout.splitlines()[-1])["output"] == "scores.blu"
    [dump] = (tmp_path / "ir").glob("*-my-exp-to-tanh.mlir")
    assert "blu.tanh" in dump.read_text()
    scores = arrays["x"] @ arrays["w"]
    weights = np.tanh(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(run_scores(run, tmp_path, "scores.blu"), expected, rtol=1e-4)


def test_a_pass_with_a_place_that_there_is_not_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my_pass.py").write_text(NEGATE.replace("blu-decompose", "blu-decompse"))
    found = run("compile", "model.py::scores", "--load-pass=my_pass.py", "--compile-to=linalg")
    sentence = "my_pass.py:6: error: pass 'my-exp-to-tanh' is to run after 'blu-decompse'"
    check_error(found, 2, sentence, "did you mean 'blu-decompose'")


def test_a_pass_that_crashes_leaves_the_command_alive(run: Run, tmp_path: Path) -> None:
    body = (
        'class Crash(Pass, name="my-crash"):\n    "Ends the process."\n    def run(self, module):\n        os.abort()\n'
    )
    text = f'import os\nfrom blu import Pass, register_pass\n@register_pass(after="blu-fuse")\n{body}'
    (tmp_path / "crash.py").write_text(text)
    found = run("compile", "model.py::scores", "--load-pass=crash.py", "--reproducer-dir=failed", "-o", "x.blu")
    check_error(found, 1, "pass 'my-crash' at level 'linalg' crashed with SIGABRT", "reproducer: failed")
    assert list((tmp_path / "failed").glob("*my-crash.mlir"))


def test_programs_for_other_machines_are_not_run(run: Run) -> None:
    found = run("compile", "gpt2", "--weights=random:0", "--run", "--prompt-tokens=1", "--target=aarch64")
    check_error(found, 1, "this machine cannot run programs for aarch64", "--emit=artifact")


def softmax(x: np.ndarray) -> np.ndarray:
    weights = np.exp(x - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def save_inputs(folder: Path) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    arrays = {"x": rng.standard_normal((4, 8), np.float32), "w": rng.standard_normal((8, 16), np.float32)}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return arrays


def run_scores(run: Run, folder: Path, program: str) -> np.ndarray:
    found = run("run", program, "--input", "x=x.npy", "--input", "w=w.npy", "--output-dir", "out")
    assert found.returncode == 0, found.stderr
    return np.load(folder / "out" / "result_0.npy")


def test_an_artifact_runs_from_any_dump(run: Run, tmp_path: Path) -> None:
    """Every file of --dump-ir compiles to a program that gives the same bits."""
    arrays = save_inputs(tmp_path)
    found = run("compile", "model.py::scores", "--dump-ir=ir", "-o", "scores.blu")
    assert found.returncode == 0, found.stderr
    expected = run_scores(run, tmp_path, "scores.blu")
    np.testing.assert_allclose(expected, softmax(arrays["x"] @ arrays["w"]), atol=1e-6)
    dumps = sorted((tmp_path / "ir").glob("*.mlir"))
    assert len(dumps) > 5
    for dump in (dumps[0], dumps[len(dumps) // 2], dumps[-1]):
        again = run("compile", str(dump), "--emit=artifact", "-o", "again.blu")
        assert again.returncode == 0, again.stderr
        np.testing.assert_array_equal(run_scores(run, tmp_path, "again.blu"), expected, err_msg=dump.name)


def test_an_artifact_holds_code_for_several_gpus(run: Run, tmp_path: Path) -> None:
    found = run("compile", "model.py::scores", "--target=sm_80,sm_90a", "-o", "scores.blu", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["target"] == "sm_80,sm_90a"
    artifact = Artifact.open("scores.blu")
    assert artifact.manifest["targets"] == ["sm_80", "sm_90a"]
    for target in ("sm_80", "sm_90a"):
        part = artifact.part(target)
        kernel = json.loads(part.read("plan.json"))["launches"][0]["kernel"]
        assert f".target {target}".encode() in part.read(f"{kernel}.ptx")


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--target=sm_80,sm_89", "--emit=asm"], ["only an artifact holds code for several targets"]),
        (["--target=sm_80,x86-64-v2", "-o", "x.blu"], ["x86-64-v2 is no GPU"]),
        (["--target=sm_80", "--emit=object", "-o", "x.o"], ["a GPU's code is no object file", "--emit=asm"]),
        (["--embed-weights", "-o", "x.blu"], ["--embed-weights puts a model's weights into its artifact"]),
    ],
)
def test_what_does_not_go_into_an_artifact(run: Run, words: list[str], parts: list[str]) -> None:
    check_error(run("compile", "model.py::scores", *words), 2, *parts)


def test_ir_and_code_for_gpus_are_written(run: Run) -> None:
    assert ".target sm_90a" in run("compile", "model.py::scores", "--target=sm_90a", "--emit=asm").stdout
    assert "nvvm.kernel" in run("compile", "model.py::scores", "--target=sm_90a", "--compile-to=llvm").stdout


def test_weights_travel_in_an_artifact(run: Run, tmp_path: Path) -> None:
    found = run("compile", "gpt2-demo", "--seq-len=4", "--embed-weights", "-o", "demo.blu")
    assert found.returncode == 0, found.stderr
    np.save(tmp_path / "t.npy", np.array([[1, 2, 3, 4]], np.int32))
    assert "parameters (in the file, or --weights)" in run("run", "demo.blu").stdout
    logits = []
    for weights in ([], ["--weights=gpt2-demo"], ["--weights=random:1"]):
        assert run("run", "demo.blu", "--input=tokens=t.npy", "--output-dir=out", *weights).returncode == 0
        logits.append(np.load(tmp_path / "out" / "result_0.npy"))
    np.testing.assert_array_equal(logits[0], logits[1])
    assert not np.array_equal(logits[0], logits[2])


def test_arguments_may_be_modules(run: Run, tmp_path: Path) -> None:
    assert run("compile", "model.py::nested", "-o", "nested.blu").returncode == 0
    shown = run("run", "nested.blu").stdout
    for line in ("layer.linear.weight: f32[2, 4]", "x: f32[5, 4]"):
        assert line in shown


def test_a_jitted_function_with_default_specs_is_compiled(run: Run, tmp_path: Path) -> None:
    assert run("compile", "model.py::doubled", "-o", "doubled.blu").returncode == 0
    np.save(tmp_path / "x.npy", np.array([1, 2, 3], np.float32))
    found = run("run", "doubled.blu", "--input=x=x.npy", "--json", "--repeat=3")
    assert json.loads(found.stdout)["runs"] == 3
    assert "[2. 4. 6.]" in run("run", "doubled.blu", "--input=x=x.npy").stdout


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["absent.blu"], 2, "there is no file absent.blu"),
        (["wide.npy"], 1, "not a .blu file"),
        (["doubled.blu", "--input=y=x.npy"], 2, "the program has no input 'y'"),
        (["doubled.blu", "--input=x=absent.npy"], 1, "cannot read absent.npy"),
        (["doubled.blu", "--input=x=model.py"], 1, "model.py is no .npy file"),
        (["doubled.blu", "--input=x=wide.npy"], 1, "argument 'x' is f32[4], the program takes f32[3]"),
        (["doubled.blu", "--weights=random:0"], 2, "takes no parameters of a model"),
    ],
)
def test_blu_run_says_what_is_wrong(run: Run, tmp_path: Path, words: list[str], code: int, part: str) -> None:
    assert run("compile", "model.py::doubled", "-o", "doubled.blu").returncode == 0
    np.save(tmp_path / "wide.npy", np.zeros(4, np.float32))
    check_error(run("run", *words), code, part)


def test_the_cache_is_listed_and_cleared(run: Run, tmp_path: Path) -> None:
    blu.jit(lambda x: x + 1, name="more")(np.zeros(3, np.float32))
    assert run("cache", "path").stdout.strip() == str(tmp_path / "cache")
    assert " more\n1 program and the code of 2 kernels, " in run("cache").stdout
    assert "1 program deleted" in run("cache", "clear").stdout
    assert "0 programs and the code of 0 kernels, " in run("cache", "list").stdout


def test_the_doctor_examines_this_machine(run: Run) -> None:
    found = run("doctor", "--json")
    report = json.loads(found.stdout)
    states = {item["subject"]: item["state"] for item in report["findings"]}
    assert report["healthy"], report
    assert (found.returncode, states["compiler"], states["processor"], states["gpu"]) == (0, "ok", "ok", "--")


def test_the_doctor_says_what_is_broken(tmp_path: Path) -> None:
    (tmp_path / "torch_mlir").mkdir()
    (tmp_path / "torch_mlir" / "__init__.py").write_text("raise ImportError('libfoo.so is missing')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-m", "blu.compiler.cli.doctor"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert found.returncode == 1, found.stdout
    assert "!! compiler" in found.stdout
    assert "Traceback" not in found.stdout + found.stderr


def test_the_installed_command_runs(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    command = [str(Path(sys.executable).with_name("blu-compile")), "model.py::scores", "--emit=blu"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    assert '"blu.exp"' in found.stdout
