"""What `blu-opt` does in its child process: read, run passes, write."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from blu.compiler.cli.ir_flags import driver_options, load_passes, pass_list, print_options
from blu.compiler.cli.messages import UsageError, as_usage, print_error
from blu.compiler.driver.diagnostics import Diagnostic
from blu.compiler.driver.driver import DriverOptions, Report, run_pipeline
from blu.compiler.driver.expectations import check_expectations, read_expectations
from blu.compiler.driver.isolate import step_from_record, step_record
from blu.compiler.driver.reproducer import read_reproducer
from blu.compiler.driver.source import IrSource, MalformedError, parse_source, read_source
from blu.compiler.driver.supervise import ProgressPipe
from blu.compiler.driver.written_by import telling_who_wrote, version_in
from blu.compiler.pipelines import Step, loose_steps, pipeline_text
from blu.dataclass import dataclass
from blu.dialects.core.context import kept_context
from blu.dialects.core.locations import SourcePlace
from blu.dialects.core.mlir import ir
from blu.errors import BluError, ParseError, PassError, suggestion
from blu.passes.framework.pipeline_text import make_pass, parse_pipeline, split_elements, unknown_pass
from blu.passes.framework.registry import all_passes
from blu.passes.framework.upstream import UPSTREAM_PASSES

SEPARATOR = "// -----"


@dataclass(frozen=True)
class OptJob:
    """Everything about one run of the command."""

    arguments: argparse.Namespace
    steps: tuple[Step, ...]
    options: DriverOptions
    progress: ProgressPipe


def run(arguments: argparse.Namespace, flags: Sequence[str]) -> int:
    """Run the command in this process; its exit code. `flags` are the passes given as --flags."""
    load_passes(arguments)
    if arguments.list_passes:
        print(pass_list())
        return 0
    source = read_source(arguments.replay or arguments.input) if not arguments.print_pipeline else None
    steps = _steps(arguments, flags, source)
    if source is None:
        print(pipeline_text(steps))
        return 0
    progress = ProgressPipe(arguments.progress_fd)
    options = replace(
        driver_options(arguments),
        on_pass=lambda step: progress.tell(start=1),
        reproduce=not arguments.verify_diagnostics,
    )
    return _run_all(OptJob(arguments, steps, options, progress), source)


def _steps(arguments: argparse.Namespace, flags: Sequence[str], source: IrSource | None) -> tuple[Step, ...]:
    """The passes to run. What the user got wrong in asking for them is a UsageError."""
    if arguments.steps is not None:
        return tuple(step_from_record(record) for record in json.loads(arguments.steps.read_text()))
    try:
        if arguments.replay is not None:
            with telling_who_wrote(arguments.replay, version_in(source.data) if source else None):
                return loose_steps(_replayed(arguments, source))
        if flags:
            return loose_steps([_flag_pass(flag) for flag in flags])
        return loose_steps(parse_pipeline(arguments.pass_pipeline or ""))
    except ParseError as error:
        raise as_usage(error) from None


def _replayed(arguments: argparse.Namespace, source: IrSource | None):
    if source is None:
        source = read_source(arguments.replay)
    if isinstance(source.data, bytes):
        raise ParseError(f"{source.name} is MLIR bytecode, and no reproducer")
    reproducer = read_reproducer(source.data, source.name)
    missing = [path for path in reproducer.load_pass if Path(path) not in map(_absolute, arguments.load_pass)]
    if missing:
        raise ParseError(
            f"{source.name} was written with passes of {missing[0]}",
            advice=f"add --load-pass {missing[0]} to run that file",
        )
    return parse_pipeline(reproducer.pipeline)


def _absolute(path: str) -> Path:
    return Path(path).resolve()


def _flag_pass(flag: str):
    """The pass of `--name` or `--name=options`."""
    name, _, options = flag.lstrip("-").partition("=")
    if not re.fullmatch(r"[A-Za-z][\w.-]*", name):
        raise UsageError(f"there is no flag '{flag}'")
    (element,) = split_elements(f"{name}{{{options}}}" if options else name)
    try:
        return make_pass(element, ir.Context())
    except ParseError as error:
        if error.message != unknown_pass(name).message:
            raise
        from blu.compiler.cli.opt import make_parser

        known = [word for action in make_parser()._actions for word in action.option_strings]
        guess = suggestion(f"--{name}", [*known, *(f"--{item}" for item in [*all_passes(), *UPSTREAM_PASSES])])
        raise UsageError(f"there is no flag or pass '--{name}'", advice=guess or error.advice) from None


def _run_all(job: OptJob, source: IrSource) -> int:
    results: list[str | bytes] = []
    status = 0
    for chunk in _chunks(source) if job.arguments.split_input_file else [source]:
        job.progress.tell(steps=[step_record(step) for step in job.steps])
        if job.arguments.verify_diagnostics:
            status |= _verify_chunk(job, chunk)
        else:
            status |= _run_chunk(job, chunk, results)
    if status == 0 and not job.arguments.verify_diagnostics:
        _write(job.arguments.output, results)
    return status


def _chunks(source: IrSource) -> Iterator[IrSource]:
    """The parts between separators, each with empty lines in front so that line numbers stay those of the file."""
    if isinstance(source.data, bytes):
        raise UsageError("bytecode cannot be split", advice="leave out --split-input-file")
    start = 0
    lines = source.data.splitlines(keepends=True)
    for index in [*(i for i, line in enumerate(lines) if line.strip() == SEPARATOR), len(lines)]:
        yield IrSource(source.name, "\n" * start + "".join(lines[start:index]))
        start = index + 1


def _run_chunk(job: OptJob, source: IrSource, results: list[str | bytes]) -> int:
    """Run the passes over one module and keep its text; 1 if that failed."""
    text = source.data if isinstance(source.data, str) else ""
    try:
        report = _process(job, source)
    except PassError as error:
        fields = ("message", "location", "advice", "pass_name", "level", "operation", "reproducer")
        job.progress.tell(error={name: getattr(error, name) for name in fields})
        print_error(error, "blu-opt", text, source.name)
        return 1
    except ParseError as error:
        print_error(error, "blu-opt", text, source.name)
        return 1
    for diagnostic in report.diagnostics:
        sys.stderr.write(f"{diagnostic}\n")
    results.append(_result(job, report.module))
    return 0


def _process(job: OptJob, source: IrSource) -> Report:
    context = kept_context()
    context.allow_unregistered_dialects = job.arguments.allow_unregistered_dialect
    module = parse_source(source, context)
    with telling_who_wrote(source.name, version_in(source.data)):
        report = run_pipeline(module, job.steps, job.options)
    for run in report.runs:
        job.progress.tell(run=asdict(run))
    job.progress.tell(finished=True)
    if job.arguments.mlir_timing:
        sys.stderr.write(report.timing() + "\n")
    if job.arguments.mlir_pass_statistics:
        sys.stderr.write(report.statistics() + "\n")
    if job.arguments.explain_fusion:
        sys.stderr.write(report.explanation())
    return report


def _result(job: OptJob, module: ir.Module) -> str | bytes:
    if not job.arguments.emit_bytecode:
        return print_options(job.arguments).text(module)
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _write(output: str, results: list[str | bytes]) -> None:
    encoded = [item.encode() if isinstance(item, str) else item for item in results]
    data = f"{SEPARATOR}\n".encode().join(encoded)
    if output == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    try:
        Path(output).write_bytes(data)
    except OSError as error:
        raise BluError(f"cannot write {output}: {error.strerror}") from error


def _verify_chunk(job: OptJob, source: IrSource) -> int:
    """Compare what MLIR and the passes report with the comments in the text; 1 if they differ."""
    text = source.data if isinstance(source.data, str) else ""
    expected = read_expectations(text, source.name)
    try:
        found: Sequence[Diagnostic] = _process(job, source).diagnostics
    except MalformedError as error:
        found = error.diagnostics
    except BluError as error:
        found = _as_diagnostics(error)
    complaints = list(check_expectations(expected, found, source.name))
    for complaint in complaints:
        sys.stderr.write(complaint + "\n")
    return 1 if complaints else 0


def _as_diagnostics(error: BluError) -> list[Diagnostic]:
    """What MLIR reported during a pass; for an error of the pass's own, that one as well."""
    reported: list[Diagnostic] = list(getattr(error, "diagnostics", ()))
    if any(item.severity == "error" for item in reported):
        return reported
    match = re.match(r"(.*?):(\d+)(?::(\d+))?", error.location or "")
    place = SourcePlace(match[1], int(match[2]), int(match[3] or 0)) if match else SourcePlace()
    return [*reported, Diagnostic("error", error.message, place)]
