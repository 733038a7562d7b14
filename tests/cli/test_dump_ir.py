"""`--dump-ir` on a small GPT-2: every file is complete, is read back, and leads to the same program."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from blu.compiler.cli import compile as compile_command
from blu.compiler.cli import opt
from blu.compiler.codegen.executable import build_executable
from blu.compiler.driver.driver import DriverOptions, run_pipeline
from blu.compiler.driver.position import read_position
from blu.compiler.driver.source import parse_source, read_source
from blu.compiler.generation.gpt2_programs import Gpt2Request
from blu.compiler.pipelines.cpu import PIPELINE
from blu.compiler.target import host_target_name
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import module_text
from blu.frontend.io import gpt2_state_dict, load_config, random_state_dict, save_pretrained
from blu.frontend.io.gpt2 import complete_config
from blu.runtime.program import Program
from tests.support.folders import DATA

CONFIG = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 61, "n_positions": 16}
LENGTH = 8
USER_PASS = DATA / "double_constants.py"


def blu_compile(*words: object) -> None:
    assert compile_command.main([*map(str, words), "-q"]) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A GPT-2 in `model`, its dumps in `ir`, and the program as gpt2.blu."""
    folder = tmp_path_factory.mktemp("gpt2")
    config = complete_config(CONFIG)
    save_pretrained(folder / "model", config, random_state_dict(config, seed=0))
    blu_compile(folder / "model", "--seq-len", LENGTH, "--dump-ir", folder / "ir", "-o", folder / "gpt2.blu")
    return folder


@pytest.fixture(scope="module")
def manifest(folder: Path) -> list[dict]:
    return json.loads((folder / "ir" / "manifest.json").read_text())["passes"]


@pytest.fixture(scope="module")
def dumps(folder: Path) -> list[Path]:
    return sorted((folder / "ir").glob("*.mlir"))


def logits_of(folder: Path, program: Program) -> np.ndarray:
    """The logits of a program for fixed tokens."""
    state = {f"model.{name}": array for name, array in gpt2_state_dict(folder / "model").items()}
    tokens = np.arange(LENGTH, dtype=np.int32)[None] * 5
    [logits] = program.run([tokens if spec.name == "tokens" else state[spec.name] for spec in program.inputs])
    return logits


@pytest.fixture(scope="module")
def logits(folder: Path) -> np.ndarray:
    return logits_of(folder, Program.load(folder / "gpt2.blu"))


def test_there_is_a_file_for_each_pass_that_changed_something(folder: Path, manifest: list[dict], dumps: list[Path]):
    files = [entry for entry in manifest if "file" in entry]
    assert [entry["file"] for entry in files] == [path.name for path in dumps]
    assert [entry["number"] for entry in manifest] == list(range(len(manifest)))
    for entry in files:
        assert entry["file"] == f"{entry['number']:03d}-{entry['name']}.mlir"
        assert hashlib.sha256((folder / "ir" / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
    assert [entry["changed"] for entry in manifest[1:]] == ["file" in entry for entry in manifest[1:]]
    for entry in files[1:]:
        difference = (folder / "ir" / entry["diff"]).read_text()
        assert f"+++ {entry['file']}" in difference
        assert difference.count("\n") > 3
    names = {entry["name"] for entry in files}
    assert names >= {"input", "blu-decompose", "lower-to-linalg", "blu-fuse", "blu-bufferize", "blu-emit-kernels"}


def test_values_carry_the_names_of_arguments_and_modules(folder: Path):
    text = (folder / "ir" / "000-input.mlir").read_text()
    assert "%tokens: tensor<1x8xi32>" in text
    assert '%h.0.attn.c_attn.matmul = "blu.matmul"(%h.0.ln_1.' in text
    assert 'loc("h.0.mlp.c_fc"(' in text


def test_the_plan_is_the_programs(folder: Path, manifest: list[dict]):
    plan = json.loads((folder / "ir" / "plan.json").read_text())
    assert [entry["name"] for entry in manifest if "plan" in entry] == ["blu-export-plan"]
    program = Program.load(folder / "gpt2.blu")
    assert [item["name"] for item in plan["inputs"]] == [spec.name for spec in program.inputs]
    assert any("(h.0.attn.c_attn)" in launch["location"] for launch in plan["launches"])


def test_blu_opt_accepts_every_file(dumps: list[Path], tmp_path: Path):
    for dump in dumps:
        assert opt.main([str(dump), "--no-isolate", "-o", str(tmp_path / "same.mlir")]) == 0, dump.name


def finished(dump: Path) -> ir.Module:
    """The module of a dump with all passes that were still to come."""
    module = parse_source(read_source(str(dump)), make_context())
    return run_pipeline(module, PIPELINE.steps(start=read_position(module))).module


def test_every_file_leads_to_the_same_logits(folder: Path, dumps: list[Path], logits: np.ndarray):
    programs: dict[str, Program] = {}
    for dump in dumps:
        module = finished(dump)
        text = module_text(module, locations=False)
        if text not in programs:  # code generation is deterministic: equal kernels and plans are one program
            programs[text] = Program.load(build_executable(module, ""))
        np.testing.assert_array_equal(logits_of(folder, programs[text]), logits, err_msg=dump.name)


@pytest.mark.parametrize("name", ["input", "blu-fuse", "lower-to-llvm"])
def test_the_command_continues_from_a_file(folder: Path, tmp_path: Path, logits: np.ndarray, name: str):
    [dump] = (folder / "ir").glob(f"*-{name}.mlir")
    blu_compile("--compile-from", dump, "--no-isolate", "-o", tmp_path / "again.blu")
    np.testing.assert_array_equal(logits_of(folder, Program.load(tmp_path / "again.blu")), logits)


def test_python_dumps_what_the_command_dumps(folder: Path, dumps: list[Path], tmp_path: Path):
    config = load_config(folder / "model")
    traced = Gpt2Request.of("forward", config, host_target_name(), batch=1, length=LENGTH).trace()
    traced.lower(options=DriverOptions(dump_dir=tmp_path))
    assert [path.name for path in sorted(tmp_path.glob("*.mlir"))] == [path.name for path in dumps]
    for dump in dumps:
        assert (tmp_path / dump.name).read_text() == dump.read_text()


MODEL = """import blu

def f(x: blu.spec((4,))):
    y = blu.exp(x) * 3.0
    return y + 1.0
"""


def test_a_pass_of_a_user_runs_between_two_of_ours(tmp_path: Path):
    (tmp_path / "model.py").write_text(MODEL)
    flags = ["--load-pass", USER_PASS, "--dump-ir", tmp_path / "ir", "-o", tmp_path / "f.blu"]
    blu_compile(f"{tmp_path / 'model.py'}::f", *flags)
    entries = json.loads((tmp_path / "ir" / "manifest.json").read_text())["passes"]
    names = [entry["name"] for entry in entries]
    here = names.index("blu-double-constants")
    assert names[here - 1] == "blu-decompose" and names.index("lower-to-linalg") > here
    assert entries[here]["statistics"] == {"constants": 2}
    difference = (tmp_path / "ir" / entries[here]["diff"]).read_text()
    assert "dense<3.000000e+00>" in difference and "dense<6.000000e+00>" in difference
    x = np.array([-1, 0, 1, 2], np.float32)
    [found] = Program.load(tmp_path / "f.blu").run([x])
    np.testing.assert_allclose(found, np.exp(x) * 6 + 2, rtol=1e-6)


def test_the_users_lines_reach_llvm_ir(tmp_path: Path):
    (tmp_path / "model.py").write_text(MODEL)
    blu_compile(f"{tmp_path / 'model.py'}::f", "--emit=llvm", "-o", tmp_path / "f.ll")
    text = (tmp_path / "f.ll").read_text()
    assert f'!DIFile(filename: "model.py", directory: "{tmp_path}")' in text
    assert "!DILocation(line: 4," in text and "!DILocation(line: 5," in text
