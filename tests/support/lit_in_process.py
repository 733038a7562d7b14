"""Runs lit's tests in this process: lit reads them, and calls take the place of the commands that they start.

Each command of the lit tests is a Python module with a `main`, and starting Python with all that it imports takes more
time than what most tests do.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import lit.discovery
import lit.LitConfig
import lit.ShUtil
import lit.Test
import lit.TestRunner
from lit.ShCommands import Command, Pipeline

from tests.support.folders import ROOT

FOLDER = ROOT / "lit_tests"
# Where `python -m MODULE` has its `main`, which takes its name as the first word.
TOOLS = {"filecheck": "filecheck.main"}
ERRORS_TO_OUTPUT = ((">&", 2), "1")
"""2>&1, as lit reads it."""


@dataclass(frozen=True)
class Ran:
    """What a command did: its exit code, and what it wrote to either stream."""

    code: int
    output: bytes
    errors: str


@cache
def tests() -> dict[str, Any]:
    """The tests that lit finds, with lit's configuration, by their path from the folder."""
    options = {"path": [], "useValgrind": False, "valgrindLeakCheck": False, "valgrindArgs": [], "noExecute": False}
    options |= {"debug": False, "isWindows": False, "order": None, "params": {}, "diagnostic_level": "note"}
    config = lit.LitConfig.LitConfig(progname="lit", **options)
    found = lit.discovery.find_tests_for_inputs(config, [str(FOLDER)])
    return {"/".join(test.path_in_suite): test for test in found}


def failure_of(name: str) -> str | None:
    """What is wrong with a test, or None where it passes: all its commands do."""
    for line in commands_of(tests()[name]):
        pipeline = lit.ShUtil.ShParser(line, pipefail=True).parse()
        ran = _run_pipeline(pipeline)
        if ran.code != 0:
            return f"{line}\nexit code {ran.code}\n{ran.errors}\n{ran.output.decode()}"
    return None


def commands_of(test: Any) -> Iterator[str]:
    """The lines of a test after RUN:, with their substitutions."""
    script = lit.TestRunner.parseIntegratedTestScript(test)
    assert not isinstance(script, lit.Test.Result), script.output
    folder, base = lit.TestRunner.getTempPaths(test)
    Path(folder).mkdir(parents=True, exist_ok=True)
    substitutions = lit.TestRunner.getDefaultSubstitutions(test, folder, base)
    for line in lit.TestRunner.applySubstitutions(script, substitutions):
        match = re.fullmatch(lit.TestRunner.kPdbgRegex, line)
        yield (match[2] if match else line).strip()


def _run_pipeline(pipeline: Any) -> Ran:
    """As a shell does with pipefail: each command reads what the one before has written; the last failure counts."""
    assert isinstance(pipeline, Pipeline) and not pipeline.negate, f"not understood here: {pipeline}"
    code, output, errors = 0, b"", ""
    for command in pipeline.commands:
        ran = run_command(command, output)
        code, output, errors = ran.code or code, ran.output, errors + ran.errors
    return Ran(code, output, errors)


def run_command(command: Command, given: bytes) -> Ran:
    """Call the `main` of `python -m MODULE WORDS`, with `given` as standard input."""
    program, dash_m, module, *words = command.args
    assert (program, dash_m) == (sys.executable, "-m"), f"not understood here: {command}"
    assert command.redirects in ([], [ERRORS_TO_OUTPUT]), f"not understood here: {command}"
    main = importlib.import_module(TOOLS.get(module, module)).main
    output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    errors = output if command.redirects else errors
    with _standard_input(given), contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            code = main([module, *words] if module in TOOLS else words)
        except SystemExit as ended:
            code = ended.code
    return Ran(int(code or 0), _written(output), "" if command.redirects else _written(errors).decode())


@contextlib.contextmanager
def _standard_input(given: bytes) -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(given), "utf-8")
    try:
        yield
    finally:
        sys.stdin = before


def _written(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue()
