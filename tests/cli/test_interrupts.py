"""Ctrl-C during compilation: exit code 130, one line, and nothing left behind, whenever it comes."""

from __future__ import annotations

import importlib.machinery
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blu.compiler.cli.outcome import run_command
from blu.compiler.driver.diagnostics import capture_diagnostics
from blu.compiler.driver.driver import run_pipeline
from blu.compiler.pipelines import loose_steps
from blu.dialects.core.context import make_context
from blu.dialects.core.dtypes import TensorType
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import operations_in
from blu.dialects.ops.pointwise_unary import Exp
from blu.passes.graph.simplify import Simplify

MODEL = """
import blu

def deep(x: blu.spec((8, 16), "f32")):
    for _ in range(40):
        x = blu.softmax(x * 2, axis=-1) @ blu.transpose(x) @ x
    return x
"""
TEXT = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "blu.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


def interrupted(code: int, said: str) -> bool:
    return code == 130 and said == "toy: interrupted\n"


def test_ctrl_c_inside_of_a_pass_is_no_failure_of_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("blu.passes.framework.base.operations_in", interrupt)
    module = ir.Module.parse(TEXT, make_context())
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(module, loose_steps([Simplify()]))


def test_ctrl_c_while_operations_are_collected_is_ctrl_c() -> None:
    """MLIR's walk gives another error in its place: a timer interrupts many of them, wherever they are."""
    lines = "\n".join(f"%{number} = arith.addf %x, %x : f32" for number in range(3000))
    module = ir.Module.parse(f"func.func @f(%x: f32) {{\n{lines}\nreturn }}", make_context())
    before = signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    try:
        for number in range(20):
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_VIRTUAL, 0.001 + number * 0.0003)
                while True:
                    assert len(list(operations_in(module.operation))) == 3002
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_ctrl_c_in_mlirs_handler_of_diagnostics_comes_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def convert(diagnostic: ir.Diagnostic) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return diagnostic.message

    monkeypatch.setattr("blu.compiler.driver.diagnostics._convert", convert)

    def run() -> int:
        context = make_context()
        with capture_diagnostics(context) as found, pytest.raises(ir.MLIRError):
            ir.Module.parse("nonsense", context)
        assert found
        time.sleep(10)
        return 0

    assert interrupted(run_command("toy", run), capfd.readouterr().err)


VERIFYING = {
    "reading": lambda module: ir.Module.parse(TEXT, module.context),
    "printing": str,
    "verifying": lambda module: module.operation.verify(),
}


@pytest.mark.parametrize("doing", VERIFYING)
def test_ctrl_c_in_a_verifier_comes_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], doing: str
) -> None:
    """MLIR comes to the end of what it does: its C++ knows no exceptions, and would not clean up after one."""
    module = ir.Module.parse(TEXT, make_context())
    done = []

    def infer(operand: TensorType) -> TensorType:
        os.kill(os.getpid(), signal.SIGINT)
        return operand

    monkeypatch.setattr(Exp, "infer", staticmethod(infer))

    def run() -> int:
        done.append(VERIFYING[doing](module))
        time.sleep(10)
        return 0

    assert interrupted(run_command("toy", run), capfd.readouterr().err) and done


def test_ctrl_c_while_an_extension_is_loaded_comes_again(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Code in C++ that loads Python modules on its way ends the process on an exception of theirs."""
    loaded = []

    class Loader(importlib.machinery.ExtensionFileLoader):
        def exec_module(self, module: object) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            loaded.append(module)

    Loader.exec_module.__code__ = Loader.exec_module.__code__.replace(co_qualname="ExtensionFileLoader.exec_module")

    def run() -> int:
        Loader("x", "x.so").exec_module(None)
        time.sleep(10)
        return 0

    assert interrupted(run_command("toy", run), capfd.readouterr().err) and loaded


LOADING = """
import os, sys

def watch(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "__setitem__":  # of an enumeration that C++ makes
        while frame := frame.f_back:
            if frame.f_code.co_qualname == "ExtensionFileLoader.exec_module":
                sys.setprofile(None)
                os.kill(os.getpid(), 2)
                return

import numpy, enum
sys.setprofile(watch)
import blu.dialects.core.mlir
"""


def test_ctrl_c_while_mlir_is_loaded_waits_until_it_is() -> None:
    """In a program of the user's, where no command hears it."""
    ended = subprocess.run([sys.executable, "-c", LOADING], stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == -signal.SIGINT, ended.stderr
    assert ended.stderr.rstrip().endswith("KeyboardInterrupt") and "raise_signal" in ended.stderr


class Destroyed:
    """Gets Ctrl-C in its destructor."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        sum(range(1000))


def test_ctrl_c_in_a_destructor_comes_again(capfd: pytest.CaptureFixture[str]) -> None:
    def run() -> int:
        Destroyed()
        time.sleep(10)
        return 0

    assert interrupted(run_command("toy", run), capfd.readouterr().err)


def test_ctrl_c_that_has_become_another_error_is_ctrl_c(capfd: pytest.CaptureFixture[str]) -> None:
    def run() -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(10)
        except KeyboardInterrupt as error:
            raise RuntimeError("Exception raised in callback") from error
        return 0

    assert interrupted(run_command("toy", run), capfd.readouterr().err)


TOY = """
import sys
from blu.compiler.cli.outcome import run_command
sys.exit(run_command("toy", lambda: exec("import os; os.kill(os.getpid(), 2)")))
"""


def test_ctrl_c_inside_of_exec_does_not_kill_the_process(tmp_path: Path) -> None:
    """CPython remembers it, and ends `python -m` by SIGINT however the program has ended."""
    (tmp_path / "toy.py").write_text(TOY)
    command = [sys.executable, "-m", "toy"]
    ended = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert interrupted(ended.returncode, ended.stderr)


EARLY = """
import os, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "blu.compiler.cli.outcome":
            print(*sys.modules)
            sys.stdout.flush()
            os.kill(os.getpid(), 2)

sys.meta_path.insert(0, Finder())
from blu.compiler.cli.main import main

sys.exit(main())
"""


def test_ctrl_c_is_heard_before_more_than_the_first_file_is_imported() -> None:
    ended = subprocess.run([sys.executable, "-c", EARLY, "--help"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "blu: interrupted\n")
    ours = ["blu", "blu.compiler", "blu.compiler.cli", "blu.compiler.cli.main"]
    assert [name for name in ended.stdout.split() if name.startswith("blu")] == ours
    assert "dataclasses" not in ended.stdout.split()


def wait_until_worked(process: subprocess.Popen[str], seconds: float) -> None:
    """Until the process has had a processor for so long, however many others want one, or has ended."""
    ticks = 0
    while process.poll() is None and ticks < seconds * os.sysconf("SC_CLK_TCK"):
        time.sleep(0.01)
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])


def interrupt_once(folder: Path, seconds: float, *words: str) -> tuple[int, str, list[str]]:
    """Compile cold, with Ctrl-C after so many seconds of work; exit code, stderr, and what is left in folders."""
    folder.mkdir()
    (folder / "model.py").write_text(MODEL)
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "BLU_CACHE_DIR": str(folder / "cache")}
    (folder / "tmp").mkdir()
    command = [sys.executable, "-m", "blu.compiler.cli.main", "compile", *words]
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    wait_until_worked(process, seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    left = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    kept = ("locks/", "__pycache__/", "model.py")
    return process.returncode, said, [path for path in left if not any(name in path for name in kept)]


def check_once(folder: Path, seconds: float, *words: str) -> None:
    code, said, left = interrupt_once(folder, seconds, *words)
    if code == 0:  # it was done before
        return
    lines = [line for line in said.splitlines() if not line.endswith(" ...")]  # progress
    assert code == 130 and len(lines) == 1 and "interrupted" in lines[0], (seconds, code, said)
    assert not left, (seconds, left)


def test_ctrl_c_during_a_compilation_is_one_line(tmp_path: Path) -> None:
    for number, seconds in enumerate((0.7, 1.5)):
        check_once(tmp_path / str(number), seconds, "model.py::deep", "-o", "x.blu")


def main() -> None:
    """`python -m tests.cli.test_interrupts FOLDER COUNT SECONDS`: so many interruptions at random times."""
    folder, count, most = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    generator = random.Random(0)
    for number in range(count):
        check_once(folder / str(number), generator.uniform(0.05, most), *sys.argv[4:])
    print(f"{count} interruptions, all with 130 and one line")


if __name__ == "__main__":
    main()
