"""The lit tests, run as part of pytest: each must pass, none may be skipped."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from blu.passes.framework.registry import all_passes, is_ours
from tests.support import lit_in_process
from tests.support.lit_in_process import FOLDER, failure_of

NAMES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.mlir") if "inputs" not in path.parts)


@pytest.mark.filterwarnings("ignore::blu.errors.DonationWarning")
@pytest.mark.parametrize("name", NAMES)
def test_lit(name: str) -> None:
    failure = failure_of(name)
    assert failure is None, failure


def test_lit_finds_every_file_and_every_command_checks_something() -> None:
    assert sorted(lit_in_process.tests()) == NAMES
    for name, test in lit_in_process.tests().items():
        for line in lit_in_process.commands_of(test):
            assert "filecheck" in line or "--verify-diagnostics" in line, f"{name}: {line}"


def test_every_pass_has_a_file_that_runs_it() -> None:
    """A reader finds what a pass does by its name: blu-fuse in fuse.mlir of the folder of passes."""
    wrong = []
    for name in (name for name, pass_class in all_passes().items() if is_ours(pass_class)):
        file = f"passes/{name.removeprefix('blu-')}.mlir"
        words = {word for line in _commands(file) for word in re.split(r"[ ,'={}]|--", line)}
        if name not in words:
            wrong.append(f"{file} runs no {name}")
    assert not wrong, "\n".join(wrong)


def _commands(file: str) -> list[str]:
    test = lit_in_process.tests().get(file)
    return list(lit_in_process.commands_of(test)) if test else []


def test_the_command_lit_runs_them_too(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from lit.main import main; main()", "-v", str(FOLDER / "ops" / "scan.mlir")]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert finished.returncode == 0 and "Passed: 1" in finished.stdout, finished.stdout + finished.stderr


WRONG = {
    "what is written": ("cse", "CHECK: blu.negate_twice"),
    "a command before the last one": ("no-such-pass", "CHECK-NOT: func"),
    "no checks": ("cse", "nothing is checked"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_mistake_fails(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flag, check = WRONG[wrong]
    file = tmp_path / "wrong.mlir"
    file.write_text(
        f"// {check}\nfunc.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{ return %x : tensor<2xf32> }}\n"
    )
    opt = f"{sys.executable} -m blu.compiler.cli.opt --no-isolate {file} --{flag}"
    monkeypatch.setattr(lit_in_process, "tests", lambda: {"wrong": None})
    line = f"{opt} | {sys.executable} -m filecheck {file} --allow-empty"
    monkeypatch.setattr(lit_in_process, "commands_of", lambda test: [line])
    failure = failure_of("wrong")
    assert failure is not None and "exit code" in failure
