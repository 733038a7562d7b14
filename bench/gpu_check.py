"""Runs the cases that `bench/gpu/pack.py` has packed on this machine's GPU, and prints one table.

    python bench/gpu_check.py [FOLDER] [--only REGEX] [--repeats N] [--json FILE] [--sanitizer TOOL]

For each case: the error against the CPU's results and its bound, whether three runs (launch by launch, as a graph,
and on arrays elsewhere) are bit-identical, the host's and the GPU's median time, and the slowest kernels. Needs NumPy,
ml_dtypes, and PyCUDA or cuda-bindings; Blu need not be installed. With --sanitizer, each case runs once under
compute-sanitizer (memcheck, racecheck, initcheck, synccheck), and its findings are failures; BLU_CUDA_POOL=0 lets
memcheck see the bounds of each array. Cases run in processes of their own: one that fails takes its
process along, and the next case gets a fresh one. The exit code is 1 where a case fails.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import checkout
import numpy as np

from bench.gpu.stored import StoredCase, inputs_of, largest_error, load_arrays, load_index
from blu.errors import BluError, DeviceError
from blu.runtime.cuda import CudaProgram, to_device
from blu.runtime.cuda.driver import default_driver

TIME_LIMIT = 120
"""Seconds that one case may take."""
LOST = 3
"""The exit code of a process that has lost the GPU with a case that it has reported."""


def check(case: StoredCase, folder: Path, repeats: int) -> dict[str, Any]:
    """What the table says of a case."""
    if case.failure:
        return {"name": case.name, "failure": f"not compiled: {case.failure}"}
    arrays = load_arrays(folder / f"{case.file}.npz")
    values = inputs_of(case, arrays)
    program = CudaProgram.load(folder / f"{case.file}.blu")
    donates = any(spec.donated for spec in program.inputs)
    inputs = values if donates else [to_device(value) for value in values]
    # The first run launches kernel by kernel, the second is a graph.
    ways = [values] if not repeats else [values, values, inputs]
    runs = [[result.numpy() for result in program.run(way)] for way in ways]
    same = all(a.tobytes() == b.tobytes() for run in runs[1:] for a, b in zip(runs[0], run, strict=True))
    error = largest_error(case, runs[0], arrays)
    times = program.time_launches(inputs, repeats) if repeats else []
    return {
        "name": case.name,
        "error": error,
        "bound": case.relative_error,
        "same": same,
        "host": _microseconds(program, inputs, repeats),
        "gpu": sum(time for _, _, time in times),
        "launches": len(times),
        "kernels": _slowest(times),
        "failure": "" if error <= case.relative_error and same else "wrong" if same else "not the same bits",
    }


def _microseconds(program: CudaProgram, inputs: list[Any], repeats: int) -> float:
    """The median time from the call of a program to its end on the GPU."""
    driver, seconds = default_driver(), [] if repeats else [0.0]
    for _ in range(repeats):
        start = time.perf_counter()
        program.run(inputs)
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


def run_cases(names: list[str], folder: Path, repeats: int) -> int:
    """In a process of its own: check cases one after the other, a line of JSON each; LOST where the GPU is lost."""
    cases = {case.name: case for case in load_index(folder)}
    for name in names:
        try:
            found = check(cases[name], folder, repeats)
        except BluError as error:
            found = {"name": name, "failure": f"{type(error).__name__}: {error}"}
            if isinstance(error, DeviceError):
                print(json.dumps(found), flush=True)
                return LOST
        print(json.dumps(found), flush=True)
    return 0


def run_all(names: list[str], command: list[str], together: int) -> list[dict[str, Any]]:
    """Check cases in as many processes as it takes, up to `together` in one; prints the table as it comes."""
    results: list[dict[str, Any]] = []
    while waiting := names[len(results) :]:
        for found in run_process(waiting[:together], command):
            results.append(found)
            print_row(found)
    return results


def run_process(names: list[str], command: list[str]) -> Iterator[dict[str, Any]]:
    """What one process finds out about the first of these cases, at least one."""
    done, said, last = 0, [], None
    with subprocess.Popen([*command, "--run", *names], stdout=PIPE, stderr=STDOUT) as process:
        for line in _lines(process):
            if not line.startswith("{"):
                said.append(line)
                continue
            if last:
                yield last
            last = {**json.loads(line), **_findings(said)}
            done, said = done + 1, []
    if last:  # some findings come at the end
        yield {**last, **_findings(said)}
    if not done or (done < len(names) and process.returncode != LOST):
        failure = f"the process ended with {process.returncode}: {' '.join(said[-3:])}"
        yield {"name": names[done], "failure": failure}


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """The lines of a process, which is ended when it says nothing for too long."""
    assert process.stdout is not None
    timer = threading.Timer(TIME_LIMIT, process.kill)
    timer.start()
    for line in process.stdout:
        timer.cancel()
        timer = threading.Timer(TIME_LIMIT, process.kill)
        timer.start()
        yield line.decode(errors="replace").rstrip()
    timer.cancel()


def _findings(said: list[str]) -> dict[str, Any]:
    """The first finding of compute-sanitizer among a process's other lines."""
    lines = [line.strip("= ") for line in said if line.startswith("=========")]
    nothing = ("COMPUTE-SANITIZER", "ERROR SUMMARY: 0", "RACECHECK SUMMARY: 0 hazards")
    found = [line for line in lines if line and not line.startswith(nothing)]
    return {"failure": f"{len(found)} lines of findings: {found[0]}"} if found else {}


def print_row(found: dict[str, Any]) -> None:
    """One line of the table."""
    if "error" not in found or "findings" in found["failure"]:
        print(f"{found['name']:44s} FAILED {found['failure']}", flush=True)
        return
    kernels = ", ".join(f"{name} x{count} {total:.1f}" for name, count, total in found["kernels"])
    print(
        f"{found['name']:44s} {'FAILED' if found['failure'] else 'ok':6s} {found['error']:9.2e} {found['bound']:9.2e} "
        f"{'same' if found['same'] else 'DIFFER':6s} {found['host']:10.1f} {found['gpu']:10.1f} "
        f"{found['launches']:5d}  {kernels}",
        flush=True,
    )


def main() -> int:
    """Check what the command line asks for; 1 where a case fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=checkout.ROOT / ".gpu" / "cases")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose names it is found in")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument("--sanitizer", metavar="TOOL", help="run under compute-sanitizer --tool TOOL")
    parser.add_argument("--run", nargs="+", metavar="NAME", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        return run_cases(arguments.run, arguments.folder, arguments.repeats)
    names = [case.name for case in load_index(arguments.folder) if re.search(arguments.only, case.name)]
    print(f"{'case':44s} {'':6s} {'error':>9s} {'bound':>9s} {'bits':6s} {'host us':>10s} {'GPU us':>10s} launches")
    # What libraries ask the driver in vain while they load is no finding.
    options = ["--report-api-errors", "no"] if arguments.sanitizer == "memcheck" else []
    sanitizer = ["compute-sanitizer", "--tool", arguments.sanitizer, *options] if arguments.sanitizer else []
    repeats = 0 if sanitizer else arguments.repeats
    command = [*sanitizer, sys.executable, __file__, str(arguments.folder), "--repeats", str(repeats)]
    # Findings come when a process ends, so under a sanitizer each case has its own.
    results = run_all(names, command, 1 if sanitizer else len(names))
    failed = [found["name"] for found in results if found["failure"]]
    print(f"{len(results) - len(failed)} of {len(results)} cases are right; {np.__version__=}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
