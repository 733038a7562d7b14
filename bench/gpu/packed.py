"""Benchmarks of many problems: they are compiled where there is no GPU, and checked and measured on the machine that
has one. A problem has a name, a path for its program, a kind (bf16, e4m3, tf32, f32) and the shapes of its inputs."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any


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

    kernels = kernels_in(traced.lower("sm_90a", stop="blu-fit-schedules").module)
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
    parser.add_argument("--only", default="", metavar="PATTERN", help="problems in whose names this is found")
    parser.add_argument("--workers", type=int, metavar="N", help="processes that compile")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the report there")
    arguments = parser.parse_args()
    chosen = [problem for problem in problems if re.search(arguments.only, problem.name)]
    if arguments.pack:
        _pack_all(folder, chosen, pack, arguments.workers)
        return 0
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


def _pack_all(folder: Path, chosen: Sequence[Any], pack: Callable[[Any], str], workers: int | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Not by fork: this process has threads of the compiler's, whose locks a child would never see released.
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        for line in pool.map(pack, chosen):
            print(line, flush=True)
