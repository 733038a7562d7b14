"""Benchmarks of many problems: they are compiled where there is no GPU, and checked and measured on the machine that
has one. A problem has a name, a path for its program, a kind (bf16, e4m3, tf32, f32) and the shapes of its inputs."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.gpu.processes import Found, Runner

TOGETHER = 8
"""Problems that one process compiles, one after the other."""


def save_program(problem: Any, function: Callable[..., Any]) -> str:
    """Compile a function of the problem's inputs, and say which kernels it has become."""
    import blu

    element = {"bf16": "bf16", "e4m3": "f8e4m3"}.get(problem.kind, "f32")
    specs = [blu.spec(shape, element) for shape in problem.shapes]
    traced = blu.jit(function).trace(*specs)
    compiled = traced.compile("sm_90a")
    compiled.save(problem.path)
    schedules_of(problem).write_text(json.dumps(_schedules(traced)) + "\n")
    code = [data for name, data in compiled.executable.items() if name.endswith(".ptx")]
    kinds = ["wgmma" if b"wgmma" in text else "mma" if b"mma.sync" in text else "other" for text in code]
    return f"{problem.name}: {', '.join(kinds)}"


def schedules_of(problem: Any) -> Path:
    """The file beside a problem's program that says how its products go about their work."""
    return problem.path.with_suffix(".json")


def _schedules(traced: Any) -> dict[str, dict[str, str | int]]:
    """What is chosen for each product, by its kernel's name."""
    from blu.passes.framework.families import GEMM, SCHEDULE, family_of
    from blu.passes.framework.kernels import kernels_in
    from blu.passes.kernels.schedules import read_fields

    lowered = traced.lower("sm_90a", stop="blu-fit-schedules")  # its ops do not outlive it
    kernels = kernels_in(lowered.module)
    return {name: read_fields(own.attributes[SCHEDULE]) for name, own in kernels.items() if family_of(own) == GEMM}


def run(
    description: str | None,
    folder: Path,
    problems: Iterable[Any],
    pack: Callable[[Any], str],
    measure: Callable[[Any], dict[str, Any]],
    report: Callable[[list[dict[str, Any]]], dict[str, Any]],
) -> int:
    """The command: pack, or check and measure; 1 where a problem is not "right", or not packed.

    What `report` makes of the rows so far is written after each, so that a run that is cut keeps what it has found.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", action="store_true", help="compile for sm_90a")
    parser.add_argument("--run", nargs="+", metavar="NAME", help="compile these in this process, a line of JSON each")
    parser.add_argument("--only", default="", metavar="PATTERN", help="problems in whose names this is found")
    parser.add_argument("--workers", type=int, metavar="N", help="processes that compile")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the report there")
    arguments = parser.parse_args()
    if arguments.run:
        return _pack_here(problems, arguments.run, pack)
    chosen = [problem for problem in problems if re.search(arguments.only, problem.name)]
    if arguments.pack:
        folder.mkdir(parents=True, exist_ok=True)
        return _pack_all([problem.name for problem in chosen], arguments.workers)
    there = [problem for problem in chosen if problem.path.exists()]
    missing = [problem.name for problem in chosen if not problem.path.exists()]
    print(*(f"not packed: {name}" for name in missing), sep="\n", end="\n" if missing else "", flush=True)
    rows: list[dict[str, Any]] = []
    for problem in there:
        rows.append(measure(problem))
        if arguments.save:
            found = report(rows) | ({"not packed": missing} if missing else {})
            arguments.save.write_text(json.dumps(found, indent=1) + "\n")
    if rows and (summary := report(rows).get("summary")):
        print(json.dumps(summary, indent=1))
    return int(bool(missing) or not all(row["right"] for row in rows))


def _pack_all(names: list[str], workers: int | None) -> int:
    """Compile in processes of their own, of which one that dies takes one problem along; 1 where one is not packed."""
    workers = workers or len(os.sched_getaffinity(0))
    found = Runner([sys.executable, sys.argv[0]], TOGETHER, workers, _print_packed).run(names)
    return int(any(item["failure"] for item in found))


def _print_packed(found: Found) -> None:
    print(f"{found['name']}: FAILED, {found['failure']}" if found["failure"] else found["packed"], flush=True)


def _pack_here(problems: Iterable[Any], names: Sequence[str], pack: Callable[[Any], str]) -> int:
    """What a process says of the problems that it is given, in their order."""
    known = {problem.name: problem for problem in problems}
    for name in names:
        found: Found = {"name": name, "packed": "", "failure": ""}
        try:
            found["packed"] = pack(known[name])
        except Exception as error:
            found["failure"] = f"{type(error).__name__}: {error}"
        print(json.dumps(found), flush=True)
    return 0
