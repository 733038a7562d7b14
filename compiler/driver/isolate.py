"""`DriverOptions(isolate=True)`: the passes run in a child process; its crash or hang is a PassError here."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from blu.compiler.driver.observer import PassRun
from blu.compiler.driver.position import PipelinePosition
from blu.compiler.driver.source import parse_source, read_source
from blu.compiler.driver.supervise import Outcome, Victim, death_error, run_child
from blu.compiler.pipelines import Step
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import module_text
from blu.errors import PassError, UnsupportedError
from blu.passes.framework import registry
from blu.passes.framework.base import MlirPass
from blu.passes.framework.pipeline_text import parse_pipeline

if TYPE_CHECKING:
    from blu.compiler.driver.driver import DriverOptions, Report


def run_isolated(module: ir.Module, steps: Sequence[Step], options: DriverOptions) -> Report:
    """Run the steps in a child and read its result back into the module's context."""
    from blu.compiler.driver.driver import Report

    if options.compare is not None:
        raise UnsupportedError("compare= cannot be used with isolate=True: the modules exist in the child process only")
    for step in steps:
        _check_known(step)
    victim = Victim("the module", module_text(module).encode(), load_pass=tuple(map(str, registry.loaded_files())))
    with tempfile.TemporaryDirectory(prefix="blu-") as folder:
        source, result, listed = (Path(folder, name) for name in ("input.mlir", "result.mlir", "steps.json"))
        source.write_bytes(victim.data)
        listed.write_text(json.dumps([step_record(step) for step in steps]))
        plugins = [f"--load-pass={path}" for path in victim.load_pass]
        flags = [f"--steps={listed}", "--mlir-print-debuginfo", "-o", str(result), *_flags(options), *plugins]
        outcome = run_child([str(source), *flags], pass_timeout=options.pass_timeout)
        _raise_failure(outcome, victim, options)
        with module.context:
            runs = tuple(PassRun(**run) for run in outcome.runs)
            return Report(parse_source(replace(read_source(str(result)), name="the result"), module.context), runs)


def _check_known(step: Step) -> None:
    """The child builds its passes from their text: it has to know their classes."""
    pass_class = type(step.pass_)
    plugin = pass_class.__module__.startswith("blu_plugin_")
    if not (plugin or issubclass(pass_class, MlirPass) or registry.is_ours(pass_class)):
        raise UnsupportedError(
            f"pass '{step.name}' is defined in {pass_class.__module__}, which a child process does not import",
            advice="put it in a file of its own and load that with blu.passes.framework.registry.load_pass_file",
        )


def _flags(options: DriverOptions) -> list[str]:
    flags = ["--no-verify-each"] if options.verify_each is False else []
    flags += [f"--dump-ir={options.dump_dir}"] if options.dump_dir else []
    flags += [f"--reproducer-dir={options.reproducer_dir}"] if options.reproducer_dir else []
    return flags + options.printing.flags()


def _raise_failure(outcome: Outcome, victim: Victim, options: DriverOptions) -> None:
    if outcome.death:
        raise death_error(outcome, victim, options.reproducer_dir, options.pass_timeout)
    if outcome.error is not None:
        raise PassError(**outcome.error)
    assert outcome.returncode == 0, f"blu-opt ended with {outcome.returncode} and gave no reason"


def step_record(step: Step) -> dict[str, object]:
    """A step as JSON."""
    record = {"number": step.number, "name": step.name, "level": step.level, "text": str(step.pass_)}
    return {**record, "position": asdict(step.position)}


def step_from_record(record: dict[str, object]) -> Step:
    """The step that `step_record` described."""
    (pass_,) = parse_pipeline(str(record["text"]))
    return Step(int(str(record["number"])), pass_, PipelinePosition(**record["position"]))  # type: ignore[arg-type]
