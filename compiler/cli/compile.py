"""`blu-compile`: compile a model, a function or a file of IR; look at the IR on the way; run a model.

Nothing here imports MLIR before it is known that something has to be compiled: a warm start does without.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from blu.compiler.cache import default_cache
from blu.compiler.cli.compile_flags import EMITS, check_policy, make_parser
from blu.compiler.cli.generate_text import Session, prepare_session, run_session, sampling_of
from blu.compiler.cli.messages import UsageError
from blu.compiler.cli.outcome import run_command
from blu.compiler.cli.progress import ProgressDisplay
from blu.compiler.cli.ranks.mesh_flags import check_mesh
from blu.compiler.cli.subjects.subject import Gpt2Subject, IrSubject, Subject, find_subject
from blu.compiler.cli.supervised import run_supervised
from blu.compiler.generation.gpt2_programs import Gpt2Request
from blu.compiler.requests import compile_request
from blu.compiler.target import NAMES, resolve_target_name, runs_here
from blu.dataclass import dataclass, field
from blu.errors import BluError, UnsupportedError, suggestion
from blu.runtime.host import set_threads
from blu.runtime.load import load_program
from blu.runtime.runnable import Runnable

PROGRAM = "blu-compile"
# Flags that ask to see the compilation itself, so that the cache cannot answer.
_LOOKING = (
    "dump_ir",
    "load_pass",
    "mlir_timing",
    "mlir_pass_statistics",
    "explain_fusion",
    "mlir_print_ir_before",
    "mlir_print_ir_after",
    "mlir_print_ir_before_all",
    "mlir_print_ir_after_all",
    "mlir_print_ir_after_change",
    "mlir_print_ir_after_failure",
)
_WRITING = ("schedules", "emit", "output", "compile_to", "compile_from", "pass_pipeline")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        return run_command(PROGRAM, lambda: _run(_parse(words), words), partial(_show_traceback, words))


def _show_traceback(words: Sequence[str], error: BluError) -> None:
    """All of an error's traceback, where --verbose asks for it."""
    if {"-v", "--verbose"} & set(words):
        traceback.print_exception(error)


def _show_warning(message: Warning | str, *place: Any) -> None:
    sys.stderr.write(f"{PROGRAM}: warning: {message}\n")


def _parse(words: list[str]) -> argparse.Namespace:
    parser = make_parser()
    arguments, rest = parser.parse_known_args(words)
    if rest:
        known = [flag for action in parser._actions for flag in action.option_strings]
        guess = suggestion(rest[0].partition("=")[0], known)
        raise UsageError(f"unexpected argument '{rest[0]}'", advice=guess or f"`{PROGRAM} --help` lists all flags")
    if arguments.emit is not None and arguments.emit not in EMITS:
        guess = suggestion(arguments.emit, EMITS) or f"one of {', '.join(EMITS)}"
        raise UsageError(f"--emit={arguments.emit} is nothing that Blu writes", advice=guess)
    check_policy(arguments.autocast)
    sampling_of(arguments)
    return arguments


def _run(arguments: argparse.Namespace, words: list[str]) -> int:
    if arguments.list_passes:
        from blu.compiler.cli.ir_flags import load_passes, pass_list

        load_passes(arguments)
        print(pass_list())
        return 0
    if arguments.replay is not None:
        from blu.compiler.cli import opt

        return opt.main(["--replay", arguments.replay, *(f"--load-pass={path}" for path in arguments.load_pass)])
    if arguments.threads is not None:
        set_threads(arguments.threads)
    job = CompileJob(arguments, [_target(name) for name in dict.fromkeys(arguments.target.split(","))])
    if arguments.print_pipeline:
        from blu.compiler.cli.emit import print_pipeline

        return print_pipeline(arguments, job.target)
    if arguments.compile_from is not None and Path(arguments.compile_from).is_file():
        # The dump of a model stands for the model: `gpt2 --compile-from ir/016-blu-fuse.mlir`.
        arguments.model, arguments.compile_from = arguments.compile_from, None
    if arguments.model is None:
        raise UsageError("which model?", advice=f"for example `{PROGRAM} gpt2`; `{PROGRAM} --help` says more")
    subject = find_subject(arguments.model)
    if isinstance(subject, IrSubject) and arguments.isolate is not False:
        return run_supervised(
            "compile",
            words,
            subject.name,
            pass_timeout=arguments.pass_timeout or None,
            reproducer_dir=arguments.reproducer_dir,
            load_pass=arguments.load_pass,
        )
    return job.run(subject)


def _target(name: str) -> str:
    try:
        return resolve_target_name(name)
    except UnsupportedError as error:
        if name.partition(":")[0] == "cuda":
            raise
        guess = suggestion(name, ["cpu", *NAMES])
        raise UsageError(error.message, advice=f"{guess} {error.advice}".strip()) from None


@dataclass
class CompileJob:
    """One run of the command: what was asked, for which targets, and how long compiling took."""

    arguments: argparse.Namespace
    targets: Sequence[str]
    progress: ProgressDisplay = field(init=False)
    compile_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.progress = ProgressDisplay(PROGRAM, self.arguments.verbose - self.arguments.quiet)

    @property
    def target(self) -> str:
        """The first target, which is the only one but for artifacts."""
        return self.targets[0]

    def run(self, subject: Subject) -> int:
        """Do what the flags ask for; the exit code."""
        arguments = self.arguments
        runs = arguments.run or arguments.logits is not None
        writes = [name for name in _WRITING if getattr(arguments, name) is not None]
        if runs and writes:
            flag = "-o" if writes[0] == "output" else f"--{writes[0].replace('_', '-')}"
            raise UsageError(f"--run (or --logits) and {flag} do not go together", advice="use two commands")
        if not isinstance(subject, Gpt2Subject) and runs:
            advice = f"write it with --emit=artifact -o FILE.blu, then `blu run FILE.blu`, not {arguments.model} --run"
            raise UsageError("only language models generate text", advice=advice)
        if runs and len(self.targets) > 1:
            raise UsageError("a program runs on one target", advice="leave out --target to run here")
        if arguments.mesh is not None or arguments.gpus is not None:
            check_mesh(subject, arguments)
        elif arguments.shard is not None:
            raise UsageError("--shard without --mesh", advice="say among how many: --mesh dp=4, or --gpus 4")
        elif arguments.sequence_parallel:
            raise UsageError("--sequence-parallel without --mesh", advice="say among how many: --mesh tp=2")
        elif isinstance(subject, Gpt2Subject) and (runs or not (writes or self._looks())):
            session = Session(subject, arguments, self.progress, self.target, self.load, lambda: self.compile_seconds)
            return run_session(session) if runs else prepare_session(session)
        from blu.compiler.cli.emit import emit

        return emit(subject, arguments, self.targets, self.progress)

    def load(self, request: Gpt2Request) -> Runnable:
        """The program of a request, from the cache or compiled now."""
        start = time.perf_counter()
        request = replace(request, autocast=self.arguments.autocast or "")
        if not runs_here(request.target):
            advice = "leave out --target to run here; --emit=artifact -o FILE.blu compiles for elsewhere"
            raise UnsupportedError(f"this machine cannot run programs for {request.target}", advice=advice)
        with self.progress.step(f"compiling {request.name} for {request.target}"):
            looks = self._looks() or self.arguments.no_cache
            members = (
                self._compile(request) if looks else compile_request(request, default_cache(), self.progress.detail)
            )
            program = load_program(members)
        self.compile_seconds += time.perf_counter() - start
        return program

    def _looks(self) -> bool:
        return any(getattr(self.arguments, name) for name in _LOOKING)

    def _compile(self, request: Gpt2Request) -> dict[str, bytes]:
        """Compile without the cache, with passes and printing as the flags say; dumps go into a folder per program."""
        from blu.compiler.cli.compile_options import compile_options, print_report
        from blu.compiler.cli.ir_flags import load_passes

        load_passes(self.arguments)
        options = compile_options(self.arguments, self.progress, f"{request.entry}-{request.length}")
        lowered = request.trace().lower(options=options)
        if lowered.report is not None:
            print_report(self.arguments, lowered.report)
        return lowered.executable()


if __name__ == "__main__":
    sys.exit(main())
