"""Compiles the cases of check_*.py for a GPU, and writes them with their arguments and the CPU's results to a folder.

    python bench/gpu/pack.py [--target sm_90a] [--only REGEX] [--output .gpu/cases]

The folder is what `bench/gpu_check.py` runs on the GPU machine, which needs neither MLIR nor a compiler.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
import time
from pathlib import Path
from typing import Any

import checkout
import numpy as np

import blu
from bench.gpu.case import Case
from bench.gpu.stored import StoredCase, draw, sample_step, save_arrays, save_index
from blu.compiler.jit import Compiled, Traced
from blu.dialects.dtypes import TensorType
from blu.errors import BluError
from blu.frontend.spec import Spec
from blu.frontend.tree import flatten

HERE = Path(__file__).resolve().parent


def all_cases() -> list[Case]:
    """The cases of all check_*.py."""
    return [
        case
        for path in sorted(HERE.glob("check_*.py"))
        for case in importlib.import_module(f"bench.gpu.{path.stem}").cases()
    ]


def pack(case: Case, file: str, target: str, folder: Path) -> StoredCase:
    """Compile a case and compute its results here; what fails is in the entry."""
    start = time.perf_counter()
    try:
        traced = blu.jit(case.function).trace(*case.arguments)
        compiled = traced.compile(target)
        entry, arrays = _run_here(case, file, traced)
    except BluError as error:
        entry, arrays = StoredCase(case.name, failure=str(error).splitlines()[0]), {}
    else:
        compiled.save(folder / f"{file}.blu")
        save_arrays(folder / f"{file}.npz", arrays)
    print(f"{case.name:40s} {time.perf_counter() - start:6.1f} s {entry.failure}", flush=True)
    return entry


def _run_here(case: Case, file: str, traced: Traced) -> tuple[StoredCase, dict[str, np.ndarray]]:
    """The entry of a case, and its arguments and results."""
    compiled = traced.compile("cpu")
    values, described = _arguments(case, compiled)
    results = [np.asarray(result) for result in compiled.program.run(values)]
    arrays = {item["array"]: value for item, value in zip(described, values, strict=True) if "array" in item}
    steps = [sample_step(result.size) for result in results]
    arrays |= {f"result{index}": result.reshape(-1)[:: steps[index]] for index, result in enumerate(results)}
    return StoredCase(case.name, file, case.relative_error, described, steps), arrays


def _arguments(case: Case, compiled: Compiled) -> tuple[list[np.ndarray], list[dict[str, Any]]]:
    """The program's arguments, and how to get each again."""
    leaves, _ = flatten(case.arguments)
    types = compiled.traced.signature.leaves
    values, described = [], []
    pairs = [(leaf, type_) for leaf, type_ in zip(leaves, types, strict=True) if isinstance(type_, TensorType)]
    for index, (leaf, type_) in enumerate(pairs):
        if isinstance(leaf, Spec):
            described.append(
                {"seed": index, "shape": list(type_.shape), "dtype": type_.dtype.name, "scale": case.scale}
            )
            values.append(draw(**described[-1]))
        else:
            described.append({"array": f"argument{index}"})
            values.append(np.asarray(leaf, type_.dtype.numpy))
    for index, array in enumerate(compiled.traced.captured):
        described.append({"array": f"captured{index}"})
        values.append(array)
    return values, described


def main() -> int:
    """Pack what the command line asks for; 1 where a case does not compile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose names it is found in")
    parser.add_argument("--output", type=Path, default=checkout.ROOT / ".gpu" / "cases", metavar="DIR")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for path in (*arguments.output.glob("*.blu"), *arguments.output.glob("*.npz")):
        path.unlink()
    chosen = [case for case in all_cases() if re.search(arguments.only, case.name)]
    entries = [pack(case, f"{index:04d}", arguments.target, arguments.output) for index, case in enumerate(chosen)]
    save_index(arguments.output, entries)
    size = sum(path.stat().st_size for path in arguments.output.iterdir())
    failed = sum(bool(entry.failure) for entry in entries)
    print(f"{len(entries)} cases in {arguments.output}, {size / 2**20:.1f} MiB, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
