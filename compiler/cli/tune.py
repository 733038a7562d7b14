"""`blu tune`: find schedules of a program's kernels that are faster than those that are chosen, by measuring them."""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from blu.compiler.cli.compile_flags import check_policy
from blu.compiler.cli.compile_flags import make_parser as compile_parser
from blu.compiler.cli.emit import DEFAULT_LENGTH, length_of, read_subject
from blu.compiler.cli.messages import UsageError
from blu.compiler.cli.subjects.subject import Gpt2Subject, find_subject
from blu.compiler.codegen.ahead import begin
from blu.compiler.driver.written_by import this_version
from blu.compiler.target import GPU_NAMES, resolve_target_name, runs_here
from blu.compiler.training.programs import TrainingRequest
from blu.compiler.tuning.problem import KernelProblem, problems_of
from blu.compiler.tuning.rounds import SearchRounds
from blu.compiler.tuning.search import SearchResult, differing
from blu.compiler.tuning.table import TunedSchedule, read_table, write_table
from blu.dialects.core.autocast import POLICIES
from blu.dialects.core.mlir import ir
from blu.dialects.targets.nvidia import TARGETS
from blu.errors import UnsupportedError
from blu.runtime.host import processor_name, set_threads


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="blu tune",
        usage="blu tune MODEL [options]",
        description="Measure the kernels of a program by other schedules than those that are chosen, and write what is "
        "faster into a table. BLU_TUNED=TABLE compiles programs by it. MODEL is what blu-compile takes.",
        allow_abbrev=False,
    )
    parser.add_argument("model", metavar="MODEL", help="a GPT-2, FILE.py::FUNCTION, or a file of IR")
    parser.add_argument("--target", default="cpu", help="cpu (this one; the default) or cuda (this GPU)")
    parser.add_argument("--train", action="store_true", help="of a GPT-2, the training step, not the forward pass")
    parser.add_argument("--autocast", metavar="POLICY", help=f"precision of products: {', '.join(POLICIES)}")
    parser.add_argument("--batch-size", type=int, default=1, metavar="N", help="sequences of a GPT-2 (1)")
    parser.add_argument("--seq-len", type=int, metavar="N", help=f"tokens of each ({DEFAULT_LENGTH})")
    parser.add_argument("--only", default="", metavar="REGEX", help="kernels in whose names or families this is found")
    parser.add_argument("--budget", type=float, default=60.0, metavar="SECONDS", help="for all kernels together (60)")
    parser.add_argument("--threads", type=int, help="of the processor (all by default)")
    parser.add_argument("--list", action="store_true", help="print the kernels and their schedules, and end")
    parser.add_argument(
        "-o", dest="output", type=Path, default=Path("tuned.json"), metavar="TABLE", help="(tuned.json)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say what each schedule gains")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    arguments = make_parser().parse_args(argv)
    _check(arguments)
    target = resolve_target_name(arguments.target)
    if arguments.threads is not None:
        set_threads(arguments.threads)
    entries = read_table(arguments.output) if arguments.output.exists() and not arguments.list else []
    if not arguments.list and not runs_here(target):
        raise UnsupportedError(f"kernels are measured where they run, and {target} does not run here", advice="--list")
    begin(TARGETS[target])
    problems = _chosen(problems_of(_module(arguments, target), arguments.autocast or ""), arguments.only)
    if arguments.list:
        for problem in problems:
            print(f"{_title(problem)}\n  {_in_words(problem.chosen())}")
        return 0
    return _tune(arguments, target, problems, entries)


def _check(arguments: argparse.Namespace) -> None:
    if not arguments.budget > 0:
        raise UsageError(f"--budget {arguments.budget:g}: there is no time to measure anything")
    check_policy(arguments.autocast)
    try:
        re.compile(arguments.only)
    except re.error as error:
        raise UsageError(f"--only '{arguments.only}' is no regular expression: {error}") from None


def _module(arguments: argparse.Namespace, target: str) -> ir.Module:
    """The program that MODEL stands for, before any pass, without what tables say."""
    subject = find_subject(arguments.model)
    if arguments.train:
        if not isinstance(subject, Gpt2Subject):
            raise UsageError(f"--train: {arguments.model} is no GPT-2", advice="name a function that does a step")
        length = length_of(subject, arguments.seq_len)
        sizes = {"batch": arguments.batch_size, "length": length, "dtype": arguments.autocast or "f32"}
        return TrainingRequest.of("step", subject.config, target, **sizes).trace().with_target(TARGETS[target])
    flags = ["--target", target, "--batch-size", str(arguments.batch_size)]
    flags += ["--seq-len", str(arguments.seq_len)] if arguments.seq_len else []
    return read_subject(subject, compile_parser().parse_args([arguments.model, *flags]), target).module


def _chosen(problems: list[KernelProblem], only: str) -> list[KernelProblem]:
    found = [item for item in problems if re.search(only, " ".join((item.family, *item.names)))]
    if not found:
        names = ", ".join(name for item in problems for name in item.names)
        raise UsageError(f"--only '{only}' is found in no kernel's name", advice=f"There are: {names or 'none'}")
    return found


def _tune(
    arguments: argparse.Namespace, target: str, problems: list[KernelProblem], entries: list[TunedSchedule]
) -> int:
    """Search all kernels, and write after each measurement what there is: what was found stays, also after Ctrl-C."""
    tell = (lambda text: print(f"  {text}", flush=True)) if arguments.verbose else (lambda text: None)
    rounds = SearchRounds(problems, time.monotonic() + arguments.budget, tell)
    try:
        for found in rounds.run():
            if found.is_better:
                entries.append(_entry(found, target))
                write_table(arguments.output, entries)
    finally:
        _report([search.found for search in rounds.searches if search.found.before], arguments.output)
    return 0


def _report(found: Sequence[SearchResult], table: Path) -> None:
    for number, item in enumerate(found):
        print(f"[{number + 1}/{len(found)}] {_title(item.problem)}")
        for line in _said(item):
            print(f"  {line}")
    better = [item for item in found if item.is_better]
    gained = sum(item.before - item.after for item in better)
    print(f"{len(better)} of {len(found)} kernels are faster, by {gained:.0f} us together", flush=True)
    if better:
        print(f"BLU_TUNED={table} compiles programs by {table}", flush=True)


def _title(problem: KernelProblem) -> str:
    return f"{', '.join(problem.names)}: {problem.operands} ({problem.line})"


def _said(found: SearchResult) -> Iterator[str]:
    yield f"{_in_words(found.chosen)}"
    unlikely = f", {found.unlikely} not worth it" * bool(found.unlikely)
    yield f"{found.before:.1f} us; {found.tried} others tried, of which {found.misfits} do not fit{unlikely}"
    yield from (f"wrong: {text}" for text in found.wrong)
    if found.is_better:
        yield f"{found.after:.1f} us ({found.gain:.2f}x): {differing(found.best, found.chosen)}"


def _in_words(schedule: Any) -> str:
    return ", ".join(f"{name} = {value}" for name, value in schedule.items())


def _entry(found: SearchResult, target: str) -> TunedSchedule:
    problem = found.problem
    about = {
        "operands": problem.operands,
        "line": Path(problem.line.partition(":")[0]).name + problem.line[problem.line.find(":") :],
        "chosen": dict(found.chosen),
        "microseconds": {"chosen": round(found.before, 2), "tuned": round(found.after, 2)},
        "device": _device(target),
        "blu": this_version(),
        "date": datetime.date.today().isoformat(),
    }
    return TunedSchedule(problem.problem, target, problem.family, found.best, about)


def _device(target: str) -> str:
    if target not in GPU_NAMES:
        return processor_name()
    from blu.runtime.cuda.driver.device import device_name

    return device_name()


if __name__ == "__main__":
    sys.exit(main())
