"""`blu-opt` and `blu` as commands."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import blu
from blu.compiler.cli import main as blu_main
from blu.compiler.cli import opt

MODULE = """module {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "blu.negative"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "blu.negative"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "blu.add"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
}
"""

PASSES = '''
import ctypes
from dataclasses import dataclass
from blu.passes.framework.base import Pass, find

@dataclass(frozen=True)
class CliComplain(Pass):
    """Complains.

    IR -> error
    """

    level = "blu"
    limit: int = 1

    def run(self, module):
        for number, operation in enumerate(find(module, "blu.negative"), start=1):
            if number > self.limit:
                self.fail(operation, f"more than {self.limit} negations")

class CliRaise(Pass):
    """Raises.

    IR -> error
    """

    def run(self, module):
        raise LookupError("from the depths")

class CliCrash(Pass):
    """Reads address 0.

    IR -> end of the process
    """

    def run(self, module):
        ctypes.string_at(0)

class CliHang(Pass):
    """Never ends.

    IR -> nothing
    """

    def run(self, module):
        while True:
            pass
'''


@pytest.fixture
def model(tmp_path) -> Path:
    path = tmp_path / "model.mlir"
    path.write_text(MODULE)
    return path


@pytest.fixture
def passes(tmp_path) -> Path:
    path = tmp_path / "cli_passes.py"
    path.write_text(PASSES)
    return path


@pytest.fixture
def blu_opt(capfd, tmp_path):
    """Run the command here, without a child; exit code, stdout, stderr."""

    def run(*words: object) -> tuple[int, str, str]:
        capfd.readouterr()
        where = [] if "--help" in words else ["--no-isolate", f"--reproducer-dir={tmp_path / 'repro'}"]
        code = opt.main([*map(str, words), *where])
        return (code, *capfd.readouterr())

    return run


def run_command(*words: object, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command as the user does, child included."""
    command = [sys.executable, "-m", "blu.compiler.cli.opt", *map(str, words)]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=200)


def test_passes_as_flags_and_as_text_are_the_same(blu_opt, model):
    as_flags = blu_opt(model, "--cse", "--canonicalize=top-down=false max-iterations=3")
    as_text = blu_opt(model, "--pass-pipeline=cse,canonicalize{top-down=false max-iterations=3}")
    assert as_flags == as_text
    assert as_flags[0] == 0 and as_flags[1].count("blu.negative") == 1


def test_the_result_can_go_to_a_file(blu_opt, model, tmp_path):
    assert blu_opt(model, "-o", tmp_path / "result.mlir")[:2] == (0, "")
    assert "blu.add" in (tmp_path / "result.mlir").read_text()
    code, _, message = blu_opt(model, "-o", tmp_path / "no" / "result.mlir")
    assert code == 1 and "cannot write" in message


def test_bytecode_goes_out_and_comes_in(blu_opt, model, tmp_path):
    code = tmp_path / "model.mlirbc"
    assert blu_opt(model, "--emit-bytecode", "-o", code)[0] == 0
    assert code.read_bytes().startswith(b"ML\xefR")
    assert blu_opt(code) == blu_opt(model)
    code.write_bytes(code.read_bytes()[:100])
    status, _, message = blu_opt(code)
    assert status == 1 and f"{code}:1:1: error: attempting to parse" in message


@pytest.mark.parametrize(
    ("words", "message", "advice"),
    [
        (["--canonicalise"], "there is no flag or pass '--canonicalise'", "did you mean '--canonicalize'"),
        (["--verify-diagnostic"], "there is no flag or pass", "did you mean '--verify-diagnostics'"),
        (["--pass-pipeline=cse,blu-check-levle"], "column 5: there is no pass", "did you mean 'blu-check-level'"),
        (["--blu-check-level=two=llvm"], "has no option 'two'", "to=<str>"),
        (["--blu-check-level=to=lvm"], "there is no level 'lvm'", "did you mean 'llvm'"),
        (["--canonicalize=speed=9"], "no such option speed", "max-iterations=10"),
        (["--cse", "--pass-pipeline=cse"], "both say which passes to run", "use one of them"),
        (["--replay=x.mlir"], "--replay brings its own input", "leave out"),
        (["another.mlir"], "unexpected argument 'another.mlir'", "one input FILE"),
        (["--load-pass=missing.py"], "there is no pass file", "--load-pass takes a Python file"),
    ],
)
def test_wrong_usage_is_exit_code_2(blu_opt, model, words, message, advice):
    code, output, error = blu_opt(model, *words)
    assert (code, output) == (2, "")
    assert message in error and advice in error


def test_argparse_mistakes_are_exit_code_2(blu_opt, model):
    with pytest.raises(SystemExit) as caught:
        blu_opt(model, "--verify-each=perhaps")
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("module {\n  nonsense\n}", "2:3", "custom op 'nonsense' is unknown"),
        ('module {\n  "blu.nothing"() : () -> ()\n}', "2:3", "unregistered operation 'blu.nothing'"),
        (MODULE.replace("4xf32> {", "5xf32> {"), "6:5", "doesn't match function result type"),
        ('module { "', "1:11", "expected"),
        ("module {" * 600 + "}" * 600, "1:4008", "nesting deeper than 500"),
        ("#m = affine_map<(d0) -> (" + "-" * 2000 + "d0)>\nmodule {}", "1:26", "nesting deeper than 500"),
        ("".join(f"!t{i + 1} = tuple<!t{i}>\n" for i in range(900)) + "module {}", "501:1", "nesting deeper than 500"),
        ("".join(f"#a{i + 1} = [#a{i}, #a{i}]\n" for i in range(40)) + "module {}", "24:1", "expand to more than"),
        ("module attributes {x.y = " + "9" * 6000 + "} {}", "1:26", "a number of more than 5000 digits"),
    ],
)
def test_malformed_text_is_placed(blu_opt, tmp_path, text, place, message):
    path = tmp_path / "bad.mlir"
    path.write_text(text)
    code, output, error = blu_opt(path)
    assert (code, output) == (1, "")
    assert error.startswith(f"{path}:{place}: error: ") and message in error


def test_deep_brackets_in_strings_and_comments_do_not_count(blu_opt, tmp_path):
    path = tmp_path / "fine.mlir"
    path.write_text(f'// {"(" * 600} {"-" * 600}\nmodule attributes {{x.y = "{"[" * 600}{"7" * 6000}"}} {{}}\n')
    assert blu_opt(path)[0] == 0


def test_strings_with_names_are_no_cycle(blu_opt, tmp_path):
    """The names are used in the lines after their definitions, which are strings and nothing else."""
    path = tmp_path / "fine.mlir"
    path.write_text('#x = "one [two"\n#y = "two"\nmodule attributes {\n  a.x = #x,\n  a.y = #y\n} {\n}\n')
    code, output, error = blu_opt(path)
    assert (code, error) == (0, "") and 'a.x = "one [two", a.y = "two"' in output


def test_aliases_of_a_dump_are_not_a_cycle(blu_opt, model, tmp_path):
    assert blu_opt(model, "--dump-ir", tmp_path / "ir", "--cse")[0] == 0
    code, text, error = blu_opt(tmp_path / "ir" / "001-cse.mlir")
    version = f' attributes {{blu.version = "{blu.__version__}"}}'  # who wrote the dump
    assert (code, text.replace(version, ""), error) == blu_opt(model, "--cse")


def test_files_that_cannot_be_read(blu_opt, tmp_path):
    code, _, error = blu_opt(tmp_path / "missing.mlir")
    assert code == 1 and "cannot read" in error and "No such file" in error
    (tmp_path / "latin.mlir").write_bytes(b"module {}\n// \xff")
    code, _, error = blu_opt(tmp_path / "latin.mlir")
    assert code == 1 and "latin.mlir:2:1: error: byte 0xff is no UTF-8 text" in error


def test_a_failing_pass_shows_line_advice_and_reproducer(blu_opt, model, passes):
    code, _, error = blu_opt(model, f"--load-pass={passes}", "--cli-complain")
    assert code == 2 and "did you mean '--blu-cli-complain'" in error
    code, _, error = blu_opt(model, f"--load-pass={passes}", "--blu-cli-complain")
    assert code == 1
    assert f"{model}:4:10: error: pass 'blu-cli-complain' failed at level 'blu' on 'blu.negative': more than" in error
    assert '%1 = "blu.negative"(%x)' in error and "\n         ^\n" in error
    reproducer = next(word for word in error.split() if word.endswith("001-blu-cli-complain.mlir"))
    code, _, replayed = blu_opt("--replay", reproducer)
    assert code == 2 and f"add --load-pass {passes}" in replayed
    code, _, replayed = blu_opt("--replay", reproducer, f"--load-pass={passes}")
    assert code == 1 and "more than 1 negations" in replayed


def test_replay_wants_a_reproducer(blu_opt, model):
    code, _, error = blu_opt("--replay", model)
    assert code == 2 and "is no reproducer" in error


def test_a_python_exception_shows_the_traceback_of_the_pass(blu_opt, model, passes):
    code, _, error = blu_opt(model, f"--load-pass={passes}", "--blu-cli-raise")
    assert code == 1
    assert "LookupError: from the depths" in error and f'File "{passes}", line' in error
    assert "driver.py" not in error


def test_a_plugin_that_fails_shows_its_own_line(blu_opt, model, tmp_path):
    path = tmp_path / "bad_plugin.py"
    path.write_text("import no_such_module\n")
    code, _, error = blu_opt(model, f"--load-pass={path}")
    assert code == 2 and f"{path}:1: error: ModuleNotFoundError" in error and "importlib" not in error


def test_listing(blu_opt, passes):
    code, listed, _ = blu_opt("--list-passes", f"--load-pass={passes}")
    assert code == 0
    assert "blu-cli-complain" in listed and "[blu] Complains." in listed and "limit=<int> (default 1)" in listed
    assert "convert-func-to-llvm" in listed


def test_printing_the_pipeline(blu_opt, passes):
    words = [f"--load-pass={passes}", "--cse", "--blu-cli-complain=limit=1", "--print-pipeline"]
    assert blu_opt(*words)[:2] == (0, "cse,blu-cli-complain\n")


def test_split_files_go_through_one_by_one(blu_opt, tmp_path):
    path = tmp_path / "split.mlir"
    path.write_text(f"{MODULE}// -----\n{MODULE}")
    code, output, _ = blu_opt(path, "--split-input-file", "--cse")
    assert code == 0 and output.count("// -----\n") == 1 and output.count("blu.negative") == 2
    path.write_text(f"{MODULE}// -----\nnonsense\n")
    code, output, error = blu_opt(path, "--split-input-file")
    assert (code, output) == (1, "") and f"{path}:10:1: error: custom op 'nonsense'" in error


@pytest.mark.parametrize(
    ("comment", "complaint"),
    [
        ("// expected-error@+1 {{custom op 'nonsense'}}", ""),
        ("// expected-error@below {{is unknown}}", ""),
        ("// expected-error-re@+1 {{custom op '{{n.*e}}' is}}", ""),
        ("// expected-error {{custom op}}", 'expected error "custom op" was not produced'),
        ("// expected-error@+1 {{something else}}", "unexpected error: custom op 'nonsense'"),
        ("// expected-warning@+1 {{custom op}}", "expected warning"),
        ("// expected-error@+1 custom op", "needs a text in {{double braces}}"),
        ("", "unexpected error"),
    ],
)
def test_verify_diagnostics(blu_opt, tmp_path, comment, complaint):
    path = tmp_path / "bad.mlir"
    path.write_text(f"{comment}\nnonsense\n")
    code, _, error = blu_opt(path, "--verify-diagnostics")
    assert code == (1 if complaint else 0)
    assert complaint in error


def test_verify_diagnostics_sees_errors_of_passes(blu_opt, tmp_path, passes):
    path = tmp_path / "model.mlir"
    path.write_text(MODULE.replace("%1 =", "// expected-error@+1 {{more than 1 negations}}\n    %1 ="))
    words = [path, "--verify-diagnostics", f"--load-pass={passes}", "--blu-cli-complain"]
    assert blu_opt(*words) == (0, "", "")
    assert not (tmp_path / "repro").exists()


def test_timing_and_statistics(blu_opt, model):
    _, _, error = blu_opt(model, "--cse", "--mlir-timing")
    assert "s in total" in error and "cse" in error


def test_stdin_and_locations(model):
    finished = run_command("--cse", "--mlir-print-debuginfo", text=MODULE)
    assert finished.returncode == 0 and finished.stdout.count("blu.negative") == 1
    assert "loc(" in finished.stdout
    broken = run_command("-", text="module {\n nonsense }")
    assert broken.returncode == 1 and broken.stderr.startswith("<stdin>:2:2: error: custom op 'nonsense'")


def test_a_crash_names_the_pass_and_replays(model, passes, tmp_path):
    words = [f"--load-pass={passes}", "--pass-timeout=100", f"--reproducer-dir={tmp_path / 'repro'}"]
    finished = run_command(model, *words, "--cse", "--blu-cli-crash", "--canonicalize")
    assert finished.returncode == 1
    assert f"{model}:1:1: error: pass 'blu-cli-crash' crashed with SIGSEGV" in finished.stderr
    reproducer = (tmp_path / "repro" / "002-blu-cli-crash.mlir").read_text()
    assert "// pipeline: blu-cli-crash,canonicalize\n" in reproducer
    assert reproducer.count("blu.negative") == 1
    again = run_command("--replay", tmp_path / "repro" / "002-blu-cli-crash.mlir", *words)
    assert again.returncode == 1 and "pass 'blu-cli-crash' crashed with SIGSEGV" in again.stderr


def test_a_hang_is_ended(model, passes, tmp_path):
    words = [f"--load-pass={passes}", "--pass-timeout=0.5", f"--reproducer-dir={tmp_path / 'repro'}"]
    finished = run_command(model, *words, "--blu-cli-hang")
    assert finished.returncode == 1
    assert "pass 'blu-cli-hang' did not end within 0.5 s" in finished.stderr
    assert (tmp_path / "repro" / "001-blu-cli-hang.mlir").exists()


def test_interrupting_a_hang_names_the_pass(model, passes, tmp_path):
    marker = tmp_path / "started"
    passes.write_text(PASSES.replace("while True:", f"open({str(marker)!r}, 'w').close()\n        while True:"))
    words = [f"--load-pass={passes}", f"--reproducer-dir={tmp_path / 'repro'}", "--blu-cli-hang"]
    command = [sys.executable, "-m", "blu.compiler.cli.opt", str(model), *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 100
    while not marker.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=100)
    assert process.returncode == 130
    assert error == "blu-opt: interrupted in pass 'blu-cli-hang'\n"
    assert not (tmp_path / "repro").exists()


def test_blu_dispatches(capsys):
    assert blu_main.main(["--help"]) == 0
    assert "run passes over a file of IR" in capsys.readouterr().out
    assert blu_main.main(["otp"]) == 2
    assert "did you mean 'opt'" in capsys.readouterr().err
    assert blu_main.main([]) == 2
    assert blu_main.main(["opt", "--print-pipeline", "--cse"]) == 0
    assert "cse\n" in capsys.readouterr().out


def test_the_parent_imports_no_mlir():
    code = "import sys, blu.compiler.cli.opt; print(json := [n for n in sys.modules if 'mlir' in n.lower()])"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert json.loads(finished.stdout.replace("'", '"')) == []


def test_the_examples_of_the_help_run(blu_opt, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    body = '%0 = "blu.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32> return %0 : tensor<4xf32>'
    (tmp_path / "x.mlir").write_text(f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{ {body} }}")
    lines = [line.strip() for line in opt.EXAMPLES.splitlines() if line.startswith("  blu-opt x")]
    examples = [shlex.split(line.partition("   ")[0])[1:] for line in lines]
    for words in (item for item in examples if "--load-pass" not in item):
        code, _, error = blu_opt(*words)
        assert code == 0, error
    assert len(examples) == 3


@pytest.mark.parametrize("words", [["compile", "--version"], ["opt", "--version"], ["--version"]])
def test_every_command_says_its_version(words, capsys):
    with contextlib.suppress(SystemExit):  # argparse
        assert blu_main.main(words) == 0
    assert capsys.readouterr().out.split()[1] == blu.__version__


def test_what_a_pass_says_itself_leaves_nothing_in_the_temporary_folder(model, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    code = opt.main([str(model), "--no-isolate", "--blu-check-level=to=llvm"])
    error = capfd.readouterr().err
    assert code == 1 and "functions take memory, not tensor<" in error and "reproducer" not in error
    assert not list((tmp_path / "temporary").iterdir())
