"""Run passes over a module: verify, time, print and dump after each, and turn any failure into one good error.

    report = run_pipeline(module, PIPELINE, DriverOptions(dump_dir=Path("ir")))
    report.module                       # the result; the module that was given stays as it is

A failing pass leaves nothing half done: the error's reproducer holds the IR before it. Passes of ours work on one copy
up to where IR is verified, and are run again if one fails, each on a copy of its own; others have that at once.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from blu.compiler.driver.diagnostics import Diagnostic, capture_diagnostics
from blu.compiler.driver.failure import Failure, explain
from blu.compiler.driver.observer import Observer, PassRun
from blu.compiler.driver.position import positioned, write_position
from blu.compiler.driver.printing import IrPrinter, PrintOptions
from blu.compiler.driver.reproducer import Reproducer, attach_reproducer
from blu.compiler.fingerprint import is_extended
from blu.compiler.pipelines import Pipeline, Step, pipeline_text
from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import copy_module, module_text
from blu.dialects.core.remembering import remembering
from blu.errors import PassError, warn
from blu.passes.framework import registry
from blu.passes.framework.base import watching
from blu.passes.framework.handles import invalidating_kept_operations


@dataclass(frozen=True)
class DriverOptions:
    """How passes are run.

    `verify_each`     whether IR is verified after each pass. None: passes of ours are verified together where a level
                      ends, and run again one by one where anything is wrong then, so that errors are the same
    `dump_dir`        a file per pass that changed something, with diffs and a manifest
    `printing`        MLIR's --mlir-print-ir-* flags
    `compare`         called with the module and the step after each pass; what it raises counts as the pass's failure
    `on_pass`         called before each pass (progress)
    `reproduce`       whether a failure leaves a reproducer, in `reproducer_dir`; without that, in a temporary folder,
                      and only where the pass does not say itself what is wrong with the program
    `warn`            told what passes warn the user of, and the class of the warning
    `isolate`         run in a child process, of which a crash or hang is an error here; `pass_timeout` in seconds
    """

    verify_each: bool | None = None
    dump_dir: Path | None = None
    printing: PrintOptions = field(default_factory=PrintOptions)
    compare: Callable[[ir.Module, Step], None] | None = None
    on_pass: Callable[[Step], None] | None = None
    reproduce: bool = True
    reproducer_dir: Path | None = None
    warn: Callable[[str, type[Warning]], None] = warn
    isolate: bool = False
    pass_timeout: float | None = None


@dataclass(frozen=True)
class Report:
    """The result of a run: the module, what each pass took, and warnings and remarks on the way."""

    module: ir.Module
    runs: tuple[PassRun, ...]
    diagnostics: tuple[Diagnostic, ...] = ()

    def timing(self) -> str:
        """A table of seconds per pass, the slowest first."""
        total = sum(run.seconds + run.verify_seconds for run in self.runs)
        rows = sorted(self.runs, key=lambda run: -run.seconds)
        lines = [f"{run.seconds:9.4f} s  {run.verify_seconds:9.4f} s  {run.name}" for run in rows]
        return "\n".join([f"{total:9.4f} s in total", f"{'pass':>11}  {'verify':>11}", *lines])

    def statistics(self) -> str:
        """What the passes counted, a line each."""
        lines = [f"{run.name}: {count} {what}" for run in self.runs for what, count in sorted(run.statistics.items())]
        return "\n".join(lines)

    def explanation(self) -> str:
        """Why passes did what they did, in lines: which kernels stay apart, what is copied."""
        return "".join(f"{line}\n" for run in self.runs for line in run.reasons)


def run_pipeline(
    module: ir.Module, pipeline: Pipeline | Sequence[Step], options: DriverOptions | None = None
) -> Report:
    """Run the passes on a copy of `module`. PassError names pass, level, operation and the user's line."""
    options = options or DriverOptions()
    steps = tuple(pipeline.steps() if isinstance(pipeline, Pipeline) else pipeline)
    if options.isolate:
        from blu.compiler.driver.isolate import run_isolated

        return run_isolated(module, steps, options)
    return _Run(module, steps, options).run()


class _Run:
    def __init__(self, module: ir.Module, steps: tuple[Step, ...], options: DriverOptions):
        self.module = module
        self.steps = steps
        self.options = options
        self.observers: list[Observer] = [IrPrinter(options.printing)] if options.printing.is_active else []
        if options.dump_dir is not None:
            from blu.compiler.driver.dump import DumpWriter

            self.observers.append(DumpWriter(options.dump_dir))
        self.runs: list[PassRun] = []
        self.diagnostics: list[Diagnostic] = []
        self.is_after_run = False
        is_watched = bool(self.observers or options.compare or is_extended())
        self.verify_each = is_watched if options.verify_each is None else options.verify_each
        # The first step whose result was not verified yet, and what it was given, to begin with again after a failure.
        self.unverified: tuple[int, ir.Module] | None = None

    def run(self) -> Report:
        with self.module.context, ir.Location.unknown(), remembering():
            self.fingerprint = self._fingerprint(self.module)
            for observer in self.observers:
                observer.start(self.module)
            for index in range(len(self.steps)):
                self._run_step(index)
            if self.steps:
                write_position(self.module, self.steps[-1].position if self.steps[-1].position.level else None)
        return Report(self.module, tuple(self.runs), tuple(self.diagnostics))

    def _run_step(self, index: int) -> None:
        step, before = self.steps[index], self.module
        for observer in self.observers:
            observer.before(step, before)
        if self.options.on_pass:
            self.options.on_pass(step)
        after = before if self._only_looks(index) or self.unverified is not None else copy_module(before)
        write_position(after, None)
        with capture_diagnostics(before.context) as diagnostics, watching() as watch:
            try:
                seconds, verify_seconds = self._execute(index, after)
            except (Exception, SystemExit) as error:
                if self.unverified is None:
                    failure = Failure(step, error, diagnostics, watch, self.is_after_run, before)
                    raise self._failure(failure, index) from error
        if self.is_unfinished:
            self._run_again(index)
            return
        self.diagnostics += diagnostics
        self.module = after
        for message, category in watch.warnings:
            self.options.warn(message, category)
        counts, reasons = dict(watch.counts), list(watch.reasons)
        self._observe(PassRun(step.number, step.name, step.level, seconds, verify_seconds, counts, reasons), step)

    def _only_looks(self, index: int) -> bool:
        """Whether a step of ours changes nothing, in a module that is no longer the caller's."""
        pass_ = self.steps[index].pass_
        return index > 0 and pass_.only_looks and registry.is_ours(type(pass_))

    def _run_again(self, index: int) -> None:
        """Run passes again that were not verified, and this one, which fails on what one of them has left."""
        assert self.unverified is not None
        first, self.module = self.unverified
        self.unverified, self.verify_each = None, True
        for number in range(first, index + 1):
            self._run_step(number)

    def _execute(self, index: int, module: ir.Module) -> tuple[float, float]:
        """Run one pass, and verify what is to be verified by then; seconds of each."""
        step, self.is_unfinished = self.steps[index], True
        start, self.is_after_run = time.perf_counter(), False
        with _guarding_handles(step, module):
            step.pass_.run(module)
        middle, self.is_after_run = time.perf_counter(), True
        if is_verified := self._is_verified(index):
            module.operation.verify()
            self.unverified = None
        elif self.unverified is None and self.options.verify_each is None and not self._stays_verified(index):
            self.unverified = index, self.module
        if self.options.compare:
            self.options.compare(module, step)
        self.is_unfinished = False
        return middle - start, (time.perf_counter() - middle if is_verified else 0.0)

    def _is_verified(self, index: int) -> bool:
        """Whether the module is verified after a step: around passes of users, and where a level ends."""
        pass_ = self.steps[index].pass_
        if pass_.only_looks or self.verify_each or self.options.verify_each is False:
            return self.verify_each and not pass_.only_looks
        if self._stays_verified(index):
            return False
        following = self.steps[index + 1].pass_ if index + 1 < len(self.steps) else None
        if following is None or following.only_looks:
            return True
        return not (registry.is_ours(type(pass_)) and registry.is_ours(type(following)))

    def _stays_verified(self, index: int) -> bool:
        """Whether a step leaves what was verified: kernels are most of a module, and the last pass only leaves them."""
        pass_ = self.steps[index].pass_
        if pass_.only_looks:
            return True
        return index > 0 and pass_.only_removes and registry.is_ours(type(pass_)) and self.unverified is None

    def _observe(self, run: PassRun, step: Step) -> None:
        if self.observers:
            fingerprint = self._fingerprint(self.module)
            run = run.with_change(fingerprint != self.fingerprint)
            self.fingerprint = fingerprint
        self.runs.append(run)
        for observer in self.observers:
            observer.after(step, self.module, run)

    def _fingerprint(self, module: ir.Module) -> str:
        """A hash of the module's text, where somebody asks what has changed."""
        return hashlib.sha256(module_text(module).encode()).hexdigest() if self.observers else ""

    def _failure(self, failure: Failure, index: int) -> PassError:
        error = explain(failure)
        for observer in self.observers:
            observer.failed(failure.step, self.module)
        if not self.options.reproduce or (failure.is_said and self.options.reproducer_dir is None):
            return error
        text = reproducer_text(error, self.module, self.steps[index:])
        stem = f"{failure.step.number:03d}-{failure.step.name}"
        return attach_reproducer(error, text, stem, self.options.reproducer_dir)


def reproducer_text(error: PassError, module: ir.Module, steps: Sequence[Step]) -> str:
    """A reproducer: the module that the first of `steps` failed on, and the pipeline that is left."""
    plugins = tuple(map(str, registry.loaded_files()))
    header = Reproducer(pipeline_text(steps), error.message, plugins).header()
    with positioned(module, steps[0].position.before()):
        return header + module_text(module)


@contextmanager
def _guarding_handles(step: Step, module: ir.Module) -> Iterator[None]:
    """Operations that a pass of the user's keeps are dead afterwards; ours keep none."""
    guard = nullcontext() if registry.is_ours(type(step.pass_)) else invalidating_kept_operations(module.context)
    with guard:
        yield
