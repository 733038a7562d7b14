"""`blu-compile` where something is written: the IR at a level, LLVM IR, assembly, an object file, or an artifact."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from blu.compiler.cli.compile_options import compile_options, print_report, put_schedules
from blu.compiler.cli.ir_flags import load_passes, print_options
from blu.compiler.cli.messages import UsageError, as_usage
from blu.compiler.cli.progress import ProgressDisplay
from blu.compiler.cli.ranks.mesh_flags import rank_request
from blu.compiler.cli.run import MODEL
from blu.compiler.cli.subjects.example_function import trace_function
from blu.compiler.cli.subjects.subject import FunctionSubject, Gpt2Subject, IrSubject, Subject, load_weights
from blu.compiler.codegen.ahead import begin
from blu.compiler.codegen.executable import assembly_of, build_executable, combined, details_of, llvm_ir_of, object_of
from blu.compiler.driver.driver import Report, run_pipeline
from blu.compiler.driver.isolate import step_record
from blu.compiler.driver.position import PipelinePosition, read_position
from blu.compiler.driver.source import parse_source, read_source
from blu.compiler.driver.supervise import ProgressPipe
from blu.compiler.driver.written_by import telling_who_wrote, version_in
from blu.compiler.generation.gpt2_programs import Gpt2Request
from blu.compiler.pipelines import Step, loose_steps, pipeline_of, pipeline_text
from blu.compiler.tuning.table import tuned_for
from blu.dataclass import dataclass, field
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import attribute_names
from blu.dialects.targets.cpu import ATTRIBUTE, CpuTarget
from blu.dialects.targets.nvidia import TARGETS, target_of
from blu.errors import BluError, ParseError
from blu.passes.framework.levels import LEVELS
from blu.passes.framework.pipeline_text import parse_pipeline
from blu.passes.graph.autocast import Autocast
from blu.passes.kernels.schedules import put_tuned
from blu.runtime.artifact import weight_members, write_artifact

DEFAULT_LENGTH = 128
# What the suffix of -o FILE asks for, where --emit does not say.
SUFFIXES = {".blu": "artifact", ".mlir": "mlir", ".ll": "llvm", ".s": "asm", ".asm": "asm", ".o": "object"}
# Of these the whole pipeline runs.
MACHINE = ("artifact", "llvm", "asm", "object")


@dataclass(frozen=True)
class Source:
    """A module to compile, its name, and its text at the start, which artifacts keep for reading.

    `version` is that of the Blu that wrote the file, if it is IR from one that says so. `captured` are the arrays that
    a function reads from outside, by the names of the inputs that stand for them.
    """

    name: str
    module: ir.Module
    text: str
    version: str | None = None
    captured: Mapping[str, Any] = field(default_factory=dict)


def print_pipeline(arguments: argparse.Namespace, target: str) -> int:
    """--print-pipeline: the passes that would run, as text that --pass-pipeline takes."""
    load_passes(arguments)
    print(pipeline_text(_steps(arguments, target, arguments.compile_from)))
    return 0


def emit(subject: Subject, arguments: argparse.Namespace, targets: Sequence[str], progress: ProgressDisplay) -> int:
    """Compile as far as was asked for, and write it; the exit code."""
    load_passes(arguments)
    what = _what(arguments)
    _check_targets(targets, what)
    if arguments.embed_weights and (what != "artifact" or not isinstance(subject, Gpt2Subject)):
        raise UsageError(
            "--embed-weights puts a model's weights into its artifact", advice="say --emit=artifact -o FILE.blu"
        )
    start = time.perf_counter()
    built = [_compile(subject, arguments, target, what, progress) for target in targets]
    data, details, name, captured = built[0]
    if isinstance(data, dict):
        if len(built) > 1:
            data, details = combined(dict(zip(targets, (item for item, *_ in built), strict=True)), details)
        data = {**data, **_weights(subject, arguments), **weight_members(captured)}
        write_artifact(arguments.output, data, {**details, "name": name})
    elif data is not None:
        _write(arguments.output, data)
    if arguments.json:
        summary = {"name": name, "target": ",".join(targets), "compile_seconds": time.perf_counter() - start}
        print(json.dumps({**summary, "output": arguments.output}))
    return 0


def _weights(subject: Subject, arguments: argparse.Namespace) -> dict[str, bytes]:
    """--embed-weights: the parameters' bytes as members of the artifact."""
    if not arguments.embed_weights:
        return {}
    assert isinstance(subject, Gpt2Subject), "checked before compiling"
    state = load_weights(subject, arguments.weights)
    return weight_members({f"{MODEL}{name}": array for name, array in state.items()})


def _check_targets(targets: Sequence[str], what: str | None) -> None:
    if len(targets) > 1 and what != "artifact":
        raise UsageError("only an artifact holds code for several targets", advice="say --emit=artifact -o FILE.blu")
    cpus = [target for target in targets if isinstance(TARGETS[target], CpuTarget)]
    if len(targets) > 1 and cpus:
        raise UsageError(f"{cpus[0]} is no GPU: one artifact is for several GPUs", advice="write two artifacts")
    if what == "object" and not cpus:
        raise UsageError("a GPU's code is no object file", advice="--emit=asm writes PTX, --emit=artifact a program")


def _compile(
    subject: Subject, arguments: argparse.Namespace, target: str, what: str | None, progress: ProgressDisplay
) -> tuple[Any, dict[str, Any], str, Mapping[str, Any]]:
    """What is to be written for one target, what its manifest says, the program's name, and what it has captured."""
    # What is wrong with a pipeline is said before anything is traced; only IR from a file says itself where it is.
    steps = () if isinstance(subject, IrSubject) else _steps(arguments, target, arguments.compile_from)
    with progress.step(f"tracing {arguments.model}"):
        source = read_subject(subject, arguments, target)
    if isinstance(subject, IrSubject):
        with telling_who_wrote(arguments.model, source.version):
            said = target_of(source.module).name  # IR that says its target needs no --target
            target = said if said in TARGETS else target
            steps = _steps(arguments, target, _start(source.module, arguments))
    if arguments.schedules is not None:
        put_schedules(arguments.schedules, source.module, steps)
    if what in MACHINE:
        begin(TARGETS[target])
    with progress.step(f"compiling {source.name} for {target}"):
        told = ProgressPipe(arguments.progress_fd)
        told.tell(steps=[step_record(step) for step in steps])
        with telling_who_wrote(arguments.model, source.version):
            report = run_pipeline(source.module, steps, compile_options(arguments, progress))
        told.tell(finished=True)
        data = _product(what, report, source, arguments, progress) if what is not None else None
    print_report(arguments, report)
    if arguments.dump_ir is not None:
        changes = sum(run.changed is True for run in report.runs)
        progress.say(f"the IR after each of {changes} passes that changed it is in {arguments.dump_ir}")
    return data, details_of(report.module) if isinstance(data, dict) else {}, source.name, source.captured


def _start(module: ir.Module, arguments: argparse.Namespace) -> str | PipelinePosition | None:
    """Where IR from a file goes on: where it says that it is, else at the level that --compile-from names."""
    found = read_position(module)
    if found is None or arguments.compile_from in (None, found.level):
        return found or arguments.compile_from
    advice = f"Leave out --compile-from, or remove blu.level from {arguments.model}."
    raise UsageError(f"{arguments.model} is at level '{found.level}', not '{arguments.compile_from}'", advice=advice)


def _what(arguments: argparse.Namespace) -> str | None:
    """What is to be written; None where only looking on was asked for."""
    what = arguments.emit
    if what is None and arguments.output is not None and arguments.output != "-":
        what = "mlir" if arguments.compile_to else SUFFIXES.get(Path(arguments.output).suffix)
        if what is None:
            raise UsageError(
                f"-o {arguments.output}: written as what?", advice=f"--emit, or one of {', '.join(SUFFIXES)}"
            )
    asked = (arguments.compile_to, arguments.pass_pipeline, arguments.output)
    if what is None and any(item is not None for item in asked):
        what = "mlir"
    if what in ("artifact", "object") and arguments.output in (None, "-"):
        raise UsageError(f"--emit={what} needs a file", advice="say -o FILE")
    if what in (*MACHINE, *LEVELS) and arguments.compile_to is not None:
        raise UsageError(f"--emit={what} and --compile-to do not go together", advice="--emit=mlir goes with it")
    if what in MACHINE and arguments.pass_pipeline is not None:
        raise UsageError(f"--emit={what} and --pass-pipeline do not go together", advice="use --emit=mlir")
    return what


def read_subject(subject: Subject, arguments: argparse.Namespace, target: str) -> Source:
    """The module that MODEL stands for, with the target written on it."""
    if isinstance(subject, IrSubject):
        file = read_source(subject.name)
        module = parse_source(file, make_context())
        _check_target(subject.name, module, arguments, target)
        return _with_target(Source(Path(subject.name).stem, module, "", version_in(file.data)), target)
    if isinstance(subject, FunctionSubject):
        traced = trace_function(subject)
        captured = traced.traced.interface.captured_by_name
        return _with_target(Source(traced.name, traced.traced.module, traced.text, captured=captured), target)
    assert isinstance(subject, Gpt2Subject)
    length = length_of(subject, arguments.seq_len)
    request = rank_request(subject, arguments, target, length) or Gpt2Request.of(
        "forward", subject.config, target, batch=arguments.batch_size, length=length
    )
    traced = request.trace()
    return _with_target(Source(request.name, traced.traced.module, traced.text), target)


def length_of(subject: Gpt2Subject, asked: int | None) -> int:
    """How many tokens sequences of a GPT-2 have. UsageError where that is more than it has positions."""
    positions = subject.config["n_positions"]
    length = asked or min(DEFAULT_LENGTH, positions)
    if length > positions:
        raise UsageError(f"--seq-len {length} is more than the model's {positions} positions")
    return length


def _check_target(name: str, module: ir.Module, arguments: argparse.Namespace, target: str) -> None:
    """IR that is on its way to one target does not change its course: what passes have chosen is in it."""
    if arguments.target == "cpu" or ATTRIBUTE not in attribute_names(module):
        return
    found = target_of(module).name
    if found != target:
        advice = f"Leave out --target, or remove {ATTRIBUTE} from IR at level 'blu'."
        raise UsageError(f"{name} is IR for {found}, not for {target}", advice=advice)


def _with_target(source: Source, target: str) -> Source:
    with source.module.context:
        if ATTRIBUTE not in attribute_names(source.module):
            source.module.operation.attributes[ATTRIBUTE] = TARGETS[target].to_attribute()
    put_tuned(source.module, tuned_for(target))
    return source


def _steps(arguments: argparse.Namespace, target: str, start: str | PipelinePosition | None) -> Sequence[Step]:
    """The passes to run. What the user got wrong in asking for them is a UsageError."""
    stop = arguments.compile_to or (arguments.emit if arguments.emit in LEVELS and arguments.emit != "llvm" else None)
    try:
        if arguments.pass_pipeline is not None:
            steps = loose_steps(parse_pipeline(arguments.pass_pipeline))
        else:
            autocast = Autocast(arguments.autocast or "")
            steps = pipeline_of(TARGETS[target]).replacing(autocast).steps(start, stop)
    except ParseError as error:
        raise as_usage(error) from None
    if arguments.autocast is not None and not any(step.pass_ == Autocast(arguments.autocast) for step in steps):
        advice = f"it says how {Autocast.name} runs, at the start of a target's pipeline"
        raise UsageError(f"--autocast={arguments.autocast} has no effect on these passes", advice=advice)
    return steps


def _product(
    what: str, report: Report, source: Source, arguments: argparse.Namespace, progress: ProgressDisplay
) -> str | bytes | dict[str, bytes]:
    if what in ("asm", "llvm"):
        return assembly_of(report.module) if what == "asm" else llvm_ir_of(report.module)
    if what == "object":
        return object_of(report.module)
    if what == "artifact":
        return build_executable(report.module, source.text, progress.note)
    return print_options(arguments).text(report.module)


def _write(output: str | None, data: str | bytes) -> None:
    encoded = data.encode() if isinstance(data, str) else data
    if output in (None, "-"):
        sys.stdout.buffer.write(encoded)
        sys.stdout.flush()
        return
    try:
        Path(output).write_bytes(encoded)
    except OSError as error:
        raise BluError(f"cannot write {output}: {error.strerror}") from error
