"""The stages of `jit`: each prints in a line, is saved, and goes on from the command line."""

from __future__ import annotations

import re

import numpy as np
import pytest

import blu
from blu.compiler.cli import compile as compile_command
from blu.runtime.artifact import Artifact
from blu.runtime.program import Program

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


@blu.jit
def double(x):
    return blu.exp(x) * 2


def blu_compile(*words):
    """The command, in this process: it is what IR says that counts here, and not who outlives it."""
    return compile_command.main([*map(str, words), "-q", "--no-isolate"])


@pytest.fixture(scope="module")
def traced():
    return double.trace(blu.spec((3, 4)))


def test_stages_print_in_a_line(traced):
    lowered = traced.lower(stop="linalg")
    assert str(traced) == "Traced(name='double', target='cpu')"
    assert str(lowered) == f"Lowered(source={traced})"
    assert len(str(traced.lower().compile())) < 300


@pytest.mark.parametrize("stop", [None, "blu", "memref"])
def test_saved_ir_goes_on_in_the_command(traced, tmp_path, stop):
    stage = traced if stop is None else traced.lower(stop=stop)
    stage.save(tmp_path / "double.mlir")
    assert blu_compile(tmp_path / "double.mlir", "-o", tmp_path / "double.blu") == 0
    [found] = Program.load(tmp_path / "double.blu").run([X])
    np.testing.assert_allclose(found, np.exp(X) * 2, rtol=1e-6)


@pytest.mark.parametrize("target", ["x86-64-v3", "sm_80", "sm_90a"])
@pytest.mark.parametrize("level", ["linalg", "memref", "kernel", "llvm", "plan"])
def test_a_dump_of_each_level_becomes_the_same_program(tmp_path, target, level):
    traced = blu.jit(lambda x, w: blu.softmax(x @ w)).trace(blu.spec((64, 32)), blu.spec((32, 64)))
    expected = traced.lower(target).executable()
    traced.lower(target, stop=level).save(tmp_path / "x.mlir")
    assert blu_compile(tmp_path / "x.mlir", "-o", tmp_path / "x.blu") == 0
    found = Artifact.open(tmp_path / "x.blu")
    for name in expected.keys() - {"ir.mlir"}:
        assert bytes(found.read(name)) == expected[name], name


def test_a_saved_program_runs(traced, tmp_path):
    compiled = traced.lower().compile()
    compiled.save(tmp_path / "double.blu")
    np.testing.assert_array_equal(Program.load(tmp_path / "double.blu").run([X])[0], np.asarray(compiled(X)))


def test_a_program_from_the_cache_can_be_saved(traced, tmp_path):
    for name in ("first", "second"):
        traced.compile().save(tmp_path / f"{name}.blu")
    assert (tmp_path / "first.blu").read_bytes() == (tmp_path / "second.blu").read_bytes()


def test_machine_code_can_be_read(traced):
    lowered = traced.lower(target="x86-64-v3")
    assert "define void @rows_0(" in lowered.llvm_ir
    assert "rows_0.entry:" in lowered.assembly and "ymm" in lowered.assembly


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ('blu.level = "linalg", blu.passes_done = "x"', "do not say where the module is"),
        ('blu.level = "plan", blu.passes_done = 99 : i64', "the module has no blu.plan"),
        ('blu.target = "fast"', 'blu.target = "fast" does not describe a target'),
    ],
)
def test_attributes_of_ours_that_are_wrong_are_said(tmp_path, capfd, attributes, sentence):
    body = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    (tmp_path / "x.mlir").write_text(f"module attributes {{{attributes}}} {{ {body} }}")
    assert blu_compile(tmp_path / "x.mlir", "-o", tmp_path / "x.blu") == 1
    assert sentence in capfd.readouterr().err


def test_ir_for_one_target_is_not_compiled_for_another(traced, tmp_path, capfd):
    traced.lower(target="x86-64-v3", stop="linalg").save(tmp_path / "x.mlir")
    words = [tmp_path / "x.mlir", "--emit=asm"]
    assert blu_compile(*words, "--target=x86-64-v2") == 2
    assert "x.mlir is IR for x86-64-v3, not for x86-64-v2" in capfd.readouterr().err
    assert blu_compile(*words, "--target=x86-64-v3") == 0


@pytest.fixture
def linalg_dump(traced, tmp_path):
    path = tmp_path / "x.mlir"
    traced.lower(target="x86-64-v3", stop="blu-fuse").save(path)
    return path


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--compile-from=memref", "-o", "x.o"], "x.mlir is at level 'linalg', not 'memref'"),
        (["--compile-from=blu", "--compile-to=linalg"], "x.mlir is at level 'linalg', not 'blu'"),
        (["--compile-to=blu"], "level 'blu' is behind: the module is at level 'linalg'"),
        (["--emit=blu"], "level 'blu' is behind: the module is at level 'linalg'"),
        (["--compile-to=lower-to-linalg"], "pass 'lower-to-linalg' is behind: the module is at level 'linalg'"),
        (["--compile-to=blu-fuze"], "has no level or pass 'blu-fuze' to stop at"),
    ],
)
def test_a_dump_does_not_go_back_or_skip_passes(linalg_dump, capfd, flags, sentence):
    assert blu_compile(linalg_dump, *flags) == 2
    assert sentence in capfd.readouterr().err


@pytest.mark.parametrize(
    ("level", "sentence"),
    [
        ("blu", "is not legal at level 'blu'"),
        ("memref", "functions take memory, not tensor<"),
        ("kernel", "not tensor<"),
    ],
)
def test_ir_that_is_not_at_the_level_it_is_said_to_be_at_is_refused(linalg_dump, capfd, level, sentence):
    text = re.sub(r"blu.level = .*?, blu.passes_done = \d+ : i64, ", "", linalg_dump.read_text())
    linalg_dump.write_text(text)
    assert blu_compile(linalg_dump, f"--compile-from={level}", "--compile-to=llvm") == 1
    assert sentence in capfd.readouterr().err
    assert blu_compile(linalg_dump, "--compile-from=linalg", "--compile-to=llvm") == 0


def test_a_dump_stops_at_the_level_it_is_at(linalg_dump, capfd):
    assert blu_compile(linalg_dump, "--compile-to=linalg") == 0
    assert "blu.kernel" in capfd.readouterr().out
