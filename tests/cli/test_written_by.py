"""A file of IR says which Blu has written it, and an error about one of another Blu's says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import blu
from blu.compiler.cli import compile as compile_command
from blu.compiler.cli import opt
from blu.compiler.driver.reproducer import Reproducer
from blu.compiler.driver.written_by import this_version, version_in

OURS, THEIRS = this_version(), "0.0.9"
SENTENCE = re.compile(
    rf"was written by Blu {re.escape(THEIRS)}, and this is Blu {re.escape(OURS)}: write it anew with this one, or"
)
# What each of these is wrong with is found by MLIR's parser, by its verifier, and by a pass.
WRONG = {
    "an op of another time": """func.func @main(%x: tensor<4xf32>) {
      %0 = "blu.gone"(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return
    }""",
    "types of another time": """func.func @main(%x: tensor<4xf32>) {
      %0 = "blu.exp"(%x) : (tensor<4xf32>) -> tensor<5xf32>
      return
    }""",
    "what a pass refuses": "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }",
}
FINE = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
Run = Callable[[Path], int]


def module_of(body: str, version: str | None) -> str:
    attributes = "" if version is None else f' attributes {{blu.version = "{version}"}}'
    return f"module{attributes} {{\n{body}\n}}\n"


def by_opt(path: Path) -> int:
    return opt.main([str(path), "--no-isolate", "--blu-check-level=to=blu"])


def by_compile(path: Path) -> int:
    return compile_command.main([str(path), "--no-isolate", "-q", "--compile-from=blu", "--compile-to=linalg"])


def by_replay(path: Path) -> int:
    version = version_in(path.read_text())
    header = Reproducer("blu-check-level{to=blu}", versions=f"blu {version}, Python 3" if version else "Python 3")
    path.write_text(header.header() + re.sub(r" attributes \{blu.version.*?\}", "", path.read_text()))
    return opt.main(["--replay", str(path), "--no-isolate"])


@pytest.mark.parametrize("run", [by_opt, by_compile, by_replay])
@pytest.mark.parametrize("wrong", WRONG)
def test_an_error_about_a_file_of_another_blu_says_so(wrong: str, run: Run, tmp_path: Path, capfd) -> None:
    path = tmp_path / "x.mlir"
    for version in (THEIRS, OURS, None):
        path.write_text(module_of(WRONG[wrong], version))
        assert run(path) == 1
        said = capfd.readouterr().err
        assert said.count("written by") == (version == THEIRS), said
        assert version != THEIRS or SENTENCE.search(said), said


@pytest.mark.parametrize("run", [by_opt, by_compile, by_replay])
def test_a_file_of_another_blu_that_is_understood_is_read(run: Run, tmp_path: Path, capfd) -> None:
    path = tmp_path / "x.mlir"
    path.write_text(module_of(FINE, THEIRS))
    assert run(path) == 0
    said = capfd.readouterr()
    assert "written by" not in said.err and THEIRS not in said.out


def test_a_pass_that_is_no_more_is_told_of_in_a_reproducer(tmp_path: Path, capfd) -> None:
    path = tmp_path / "x.mlir"
    path.write_text(Reproducer("blu-gone", versions=f"blu {THEIRS}, Python 3").header() + module_of(FINE, None))
    assert opt.main(["--replay", str(path), "--no-isolate"]) == 2
    said = capfd.readouterr().err
    assert "there is no pass 'blu-gone'" in said and SENTENCE.search(said)


def test_what_is_written_says_who_wrote_it(tmp_path: Path, capfd) -> None:
    traced = blu.jit(lambda x: blu.exp(x) * 2).trace(blu.spec((3, 4)))
    traced.save(tmp_path / "x.mlir")
    words = [str(tmp_path / "x.mlir"), "--no-isolate", "-q", "--target=x86-64-v3", "--compile-to=memref"]
    assert compile_command.main([*words, "--dump-ir", str(tmp_path / "ir")]) == 0
    texts = {path.name: path.read_text() for path in (tmp_path / "ir").glob("*.mlir")}
    texts |= {"printed": capfd.readouterr().out, "saved": traced.lower("x86-64-v3", stop="linalg").text}
    assert len(texts) > 5
    for name, text in texts.items():
        assert version_in(text) == OURS, name
    opt.main([str(tmp_path / "x.mlir"), "--no-isolate", "--blu-simplify", "--dump-ir", str(tmp_path / "passes")])
    assert version_in((tmp_path / "passes" / "000-input.mlir").read_text()) == OURS


def test_a_difference_does_not_show_it(tmp_path: Path) -> None:
    traced = blu.jit(lambda x: blu.softmax(x)).trace(blu.spec((3, 4)))
    traced.save(tmp_path / "x.mlir")
    words = [str(tmp_path / "x.mlir"), "--no-isolate", "-q", "--compile-to=blu"]
    assert compile_command.main([*words, "--dump-ir", str(tmp_path / "ir")]) == 0
    differences = list((tmp_path / "ir").glob("*.diff"))
    assert differences and not any("blu.version" in path.read_text() for path in differences)
