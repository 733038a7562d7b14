"""How `blu-compile` runs passes: as its flags say, with progress, and in a process of their own if they may crash."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from blu.compiler.cli.ir_flags import driver_options
from blu.compiler.cli.progress import Progress
from blu.compiler.driver.driver import DriverOptions, Report
from blu.compiler.driver.supervise import Progress as Telling
from blu.compiler.pipelines import Step


def compile_options(arguments: argparse.Namespace, progress: Progress, folder: str = "") -> DriverOptions:
    """The driver's options; dumps go into a `folder` of --dump-ir, where several programs are compiled."""
    options = driver_options(arguments)
    told = Telling(arguments.progress_fd)

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
