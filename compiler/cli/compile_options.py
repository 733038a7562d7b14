"""How `blu-compile` runs passes: as its flags say, with progress, and in a process of their own if they may crash."""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from blu.compiler.cli.ir_flags import driver_options
from blu.compiler.cli.messages import UsageError
from blu.compiler.cli.progress import ProgressDisplay
from blu.compiler.driver.driver import DriverOptions, Report
from blu.compiler.driver.supervise import ProgressPipe
from blu.compiler.pipelines import Step
from blu.dialects.core.mlir import ir
from blu.passes.cpu.lower.choose_schedules import ChooseCpuSchedules
from blu.passes.gpu.lower.choose_schedules import ChooseSchedules
from blu.passes.kernels.schedules import wish_for


def compile_options(arguments: argparse.Namespace, progress: ProgressDisplay, folder: str = "") -> DriverOptions:
    """The driver's options; dumps go into a `folder` of --dump-ir, where several programs are compiled."""
    options = driver_options(arguments)
    told = ProgressPipe(arguments.progress_fd)

    def on_pass(step: Step) -> None:
        told.tell(start=1)
        progress.detail(step.name)

    isolate = bool(arguments.load_pass) if arguments.isolate is None else arguments.isolate
    return replace(
        options,
        dump_dir=options.dump_dir / folder if options.dump_dir is not None else None,
        on_pass=on_pass,
        isolate=isolate,
        pass_timeout=arguments.pass_timeout or None,
    )


def put_schedules(file: str, module: ir.Module, steps: Sequence[Step]) -> None:
    """--schedules: write what a file says of kernels on the module. UsageError for a file of another form."""
    if not any(isinstance(step.pass_, ChooseSchedules | ChooseCpuSchedules) for step in steps):
        advice = f"{ChooseSchedules.name} and {ChooseCpuSchedules.name} read them, from 'linalg' to 'memref'"
        raise UsageError(f"--schedules={file} has no effect on these passes", advice=advice)
    try:
        data = Path(file).read_bytes()
        schedules = json.loads(data) if Path(file).suffix == ".json" else tomllib.loads(data.decode())
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{file} is neither JSON (as its name ends in .json) nor TOML: {error}") from None
    if not isinstance(schedules, dict) or not all(map(_is_table, schedules.values())):
        advice = 'for example {"gemm_0": {"split": 4}}, or in TOML: [gemm_0] split = 4'
        raise UsageError(f"{file} does not say fields (strings and numbers) of kernels' schedules", advice=advice)
    wish_for(module, schedules)


def _is_table(fields: object) -> bool:
    return isinstance(fields, dict) and all(type(value) in (str, int) for value in fields.values())


def print_report(arguments: argparse.Namespace, report: Report) -> None:
    """What passes had to say, and what --mlir-timing, --mlir-pass-statistics and --explain-fusion ask for."""
    for diagnostic in report.diagnostics:
        sys.stderr.write(f"{diagnostic}\n")
    if arguments.mlir_timing:
        sys.stderr.write(report.timing() + "\n")
    if arguments.mlir_pass_statistics:
        sys.stderr.write(report.statistics() + "\n")
    if arguments.explain_fusion:
        sys.stderr.write(report.explanation())
