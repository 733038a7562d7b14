"""Runs the cases that `bench/gpu/pack.py` has packed on this machine's GPU, and prints one table.

    python bench/gpu_check.py [FOLDER] [--only REGEX] [--jobs N] [--repeats N] [--sanitizers] [--json FILE]
                              [--save FILE]

For each case: the error against the reference and its bound, whether five runs (launch by launch, as a graph, on arrays
elsewhere, and twice among guards) are bit-identical and write neither to arguments nor beyond arrays, the host's and
the GPU's median time, and the slowest kernels. With several jobs there are no times, and only failures are printed.
With --sanitizers, each case then runs once under each tool of compute-sanitizer, whose findings are failures, and each
tool must report the fault that is planted for it (bench/gpu/faults.py); the pool of memory is off, so that memcheck
sees the bounds of each array. --tool NAME runs the cases under that tool only. Cases run in processes of their own: one
that fails takes its process along, and the next case gets a fresh one. Needs NumPy, ml_dtypes, and PyCUDA or
cuda-bindings; Blu need not be installed. The exit code is 1 where a case fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import checkout

from bench.checks.guarded import PATTERNS, run_guarded
from bench.gpu.faults import FAULTS, SOUND, write_faults
from bench.gpu.processes import FINDINGS, LOST, Found, Runner
from bench.gpu.report import command_line
from bench.gpu.stored import StoredCase, inputs_of, largest_error, load_arrays, load_index, save_index
from blu.errors import BluError, DeviceError
from blu.runtime.cuda import CudaProgram, to_device
from blu.runtime.cuda.driver.driver import default_driver

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
TOGETHER = 6
"""Cases of one process under a tool: starting one takes as long as a case."""
MOST_NEAR = 10
"""Cases that a summary names, those whose errors are nearest to their bounds."""


def check(case: StoredCase, folder: Path, repeats: int, once: bool = False) -> Found:
    """What the table says of a case, which runs once or in three ways."""
    if case.failure:
        return {"name": case.name, "failure": f"not compiled: {case.failure}"}
    arrays = load_arrays(folder / f"{case.values}.npz")
    values = inputs_of(case, arrays)
    program = CudaProgram.load(folder / f"{case.program}.blu")
    donates = any(spec.donated for spec in program.inputs)
    inputs = values if donates else [to_device(value) for value in values]
    # The first run launches kernel by kernel, the second is a graph.
    ways = [values] if once else [values, values, inputs]
    runs = [[result.numpy() for result in program.run(way, overwrite=True)] for way in ways]
    guarded = [] if once else [run_guarded(program, values, pattern) for pattern in PATTERNS]
    runs += [results for results, _ in guarded]
    fault = next((fault for _, fault in guarded if fault), "")
    same = all(a.tobytes() == b.tobytes() for run in runs[1:] for a, b in zip(runs[0], run, strict=True))
    error, bound = largest_error(case, runs[0], arrays)
    times = program.time_launches(inputs, repeats) if repeats else []
    return {
        "name": case.name,
        "error": error,
        "bound": bound,
        "same": same,
        "host": _microseconds(program, inputs, repeats),
        "gpu": sum(time for _, _, time in times),
        "launches": len(times),
        "kernels": _slowest(times),
        "failure": fault or ("" if error <= bound and same else "wrong" if same else "not the same bits"),
    }


def _microseconds(program: CudaProgram, inputs: list[Any], repeats: int) -> float:
    """The median time from the call of a program to its end on the GPU."""
    driver, seconds = default_driver(), [] if repeats else [0.0]
    for _ in range(repeats):
        start = time.perf_counter()
        program.run(inputs, overwrite=True)
        with driver.exclusively():
            driver.synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e6


def _slowest(times: list[tuple[str, str, float]]) -> list[tuple[str, int, float]]:
    """(kernel, launches, microseconds of all of them) of the kernels that take longest."""
    found: dict[str, list[float]] = defaultdict(list)
    for kernel, _, microseconds in times:
        found[kernel].append(microseconds)
    totals = [(kernel, len(items), sum(items)) for kernel, items in found.items()]
    return sorted(totals, key=lambda item: -item[2])[:3]


def run_cases(names: list[str], folder: Path, repeats: int, once: bool) -> int:
    """In a process of its own: check cases one after the other, a line of JSON each; LOST where the GPU is lost."""
    cases = {case.name: case for case in load_index(folder)}
    for name in names:
        try:
            found = check(cases[name], folder, repeats, once)
        except BluError as error:
            found = {"name": name, "failure": f"{type(error).__name__}: {error}"}
            if isinstance(error, DeviceError):
                print(json.dumps(found), flush=True)
                return LOST
        print(json.dumps(found), flush=True)
    return 0


def print_row(found: Found) -> None:
    """One line of the table."""
    if "error" not in found or FINDINGS in found["failure"]:
        print(f"{found['name']:44s} FAILED {found['failure']}", flush=True)
        return
    kernels = ", ".join(f"{name} x{count} {total:.1f}" for name, count, total in found["kernels"])
    print(
        f"{found['name']:44s} {'FAILED' if found['failure'] else 'ok':6s} {found['error']:9.2e} {found['bound']:9.2e} "
        f"{'same' if found['same'] else 'DIFFER':6s} {found['host']:10.1f} {found['gpu']:10.1f} "
        f"{found['launches']:5d}  {kernels}",
        flush=True,
    )


def print_failure(found: Found) -> None:
    """A line for a case that fails."""
    if found["failure"]:
        print(f"{found['name']:44s} FAILED {found['failure']} {found.get('error', '')}", flush=True)


def run_plain(names: list[str], arguments: argparse.Namespace) -> list[Found]:
    """Check results; several jobs at once take no times."""
    repeats, jobs = arguments.repeats if arguments.jobs == 1 else 0, arguments.jobs
    command = [sys.executable, __file__, str(arguments.folder), "--repeats", str(repeats)]
    together = len(names) if jobs == 1 else 12
    return summed_up("results", Runner(command, together, jobs, print_row if jobs == 1 else print_failure).run(names))


def run_tool(tool: str, names: list[str], folder: Path, jobs: int) -> list[Found]:
    """Check for findings of a tool."""
    runner = Runner([*_sanitizer(tool), sys.executable, __file__, str(folder), "--once"], TOGETHER, jobs, print_failure)
    return summed_up(tool, runner.run(names))


def _sanitizer(tool: str) -> list[str]:
    # What libraries ask the driver in vain while they load is no finding.
    return ["compute-sanitizer", "--tool", tool, *(["--report-api-errors", "no"] if tool == "memcheck" else [])]


def run_faults(tools: Sequence[str], jobs: int) -> list[Found]:
    """Failures are faults that their tool does not report, and what it finds in a kernel without."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_index(folder, write_faults(folder))
        results = []
        for fault in (fault for fault in FAULTS if fault.tool in tools):
            runner = Runner([*_sanitizer(fault.tool), sys.executable, __file__, name, "--once"], 1, jobs)
            planted, sound = runner.run([fault.name, SOUND.name])
            is_found = FINDINGS in planted["failure"] and fault.words in planted["failure"]
            failure = "" if is_found else f"{fault.tool} did not report it: {planted['failure']}"
            results.append({"name": fault.name, "tool": fault.tool, "said": planted["failure"], "failure": failure})
            results.append({**sound, "tool": fault.tool})
    for found in results:
        print_failure(found)
    return summed_up("planted faults", results)


def summed_up(what: str, results: list[Found]) -> list[Found]:
    """Print how many are right."""
    failed = sum(bool(found["failure"]) for found in results)
    print(f"{what}: {len(results) - failed} of {len(results)} cases are right", flush=True)
    return results


def summary_of(results: dict[str, list[Found]]) -> dict[str, Any]:
    """How many cases of each part are right, which are not, and the results that are nearest to their bounds."""
    parts = {name: {"cases": len(part), "right": sum(not found["failure"] for found in part)}
             for name, part in results.items()}  # fmt: skip
    failures = {found["name"]: found["failure"] for part in results.values() for found in part if found["failure"]}
    shares = {
        found["name"]: found["error"] / found["bound"] for found in results.get("results", ()) if found.get("bound")
    }
    nearest = sorted(shares, key=shares.__getitem__, reverse=True)[:MOST_NEAR]
    return {**parts, "failures": failures, "errors by their bounds": {name: round(shares[name], 3) for name in nearest}}


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=checkout.ROOT / ".gpu" / "cases")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose names it is found in")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes use the GPU at the same time")
    parser.add_argument("--repeats", type=int, default=10, help="of timed runs")
    parser.add_argument("--sanitizers", action="store_true", help="then run under all tools of compute-sanitizer")
    parser.add_argument("--tool", action="append", choices=TOOLS, help="only run under this tool of compute-sanitizer")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write there how many are right, and which are not")
    parser.add_argument("--run", nargs="+", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Check what the command line asks for; 1 where a case fails."""
    arguments = parse_arguments()
    if arguments.run:
        return run_cases(arguments.run, arguments.folder, arguments.repeats * (not arguments.once), arguments.once)
    names = [case.name for case in load_index(arguments.folder) if re.search(arguments.only, case.name)]
    results: dict[str, list[Found]] = {}
    if not arguments.tool:
        print(f"{'case':44s} {'':6s} {'error':>9s} {'bound':>9s} {'bits':6s} {'host us':>10s} {'GPU us':>10s} launches")
        results["results"] = run_plain(names, arguments)
    if arguments.sanitizers or arguments.tool:
        os.environ["BLU_CUDA_POOL"] = "0"
        tools = arguments.tool or TOOLS
        results["planted faults"] = run_faults(tools, arguments.jobs)
        results |= {tool: run_tool(tool, names, arguments.folder, arguments.jobs) for tool in tools}
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))
    if arguments.save:
        report = {"command": command_line(), "gpu": default_driver().name, **summary_of(results)}
        arguments.save.write_text(json.dumps(report, indent=1) + "\n")
    return int(any(found["failure"] for part in results.values() for found in part))


if __name__ == "__main__":
    sys.exit(main())
