"""Compiles the cases of check_*.py for a GPU, and writes them with their arguments and the CPU's results to a folder.

    python bench/gpu/pack.py [--target sm_90a] [--only REGEX] [--every N] [--output .gpu/cases]

The folder is what `bench/gpu_check.py` runs on the GPU machine, which needs neither MLIR nor a compiler. To be
small, it holds machine code without PTX and IR, and in place of large arrays of normally distributed numbers only how
to draw others like them.
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
from bench.gpu.stored import StoredCase, draw, finite_count, sample_step, save_arrays, save_index
from blu.compiler.jit import Compiled, Traced
from blu.dialects.dtypes import TensorType
from blu.errors import BluError
from blu.frontend.spec import Spec
from blu.frontend.tree import flatten
from blu.runtime.artifact import write_artifact

HERE = Path(__file__).resolve().parent
KEPT = ("plan.json", "constants.bin", ".cubin")
LARGE = 1 << 18
"""Bytes from which arrays of normally distributed numbers are drawn again."""


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
        members = {name: data for name, data in compiled.executable.items() if name.endswith(KEPT)}
        write_artifact(folder / f"{file}.blu", members, compiled.details)
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
    finite = [finite_count(result) for result in results]
    return StoredCase(case.name, file, case.relative_error, described, steps, finite), arrays


def _arguments(case: Case, compiled: Compiled) -> tuple[list[np.ndarray], list[dict[str, Any]]]:
    """The program's arguments, and how to get each again."""
    leaves, _ = flatten(case.arguments)
    types = compiled.traced.signature.leaves
    values, described = [], []
    pairs = [(leaf, type_) for leaf, type_ in zip(leaves, types, strict=True) if isinstance(type_, TensorType)]
    for index, (leaf, type_) in enumerate(pairs):
        scale = case.scale if isinstance(leaf, Spec) else _scale_of(np.asarray(leaf))
        if scale is not None:
            described.append({"seed": index, "shape": list(type_.shape), "dtype": type_.dtype.name, "scale": scale})
            values.append(draw(**described[-1]))
        else:
            described.append({"array": f"argument{index}"})
            values.append(np.asarray(leaf, type_.dtype.numpy))
    for index, array in enumerate(compiled.traced.captured):
        described.append({"array": f"captured{index}"})
        values.append(array)
    return values, described


def _scale_of(array: np.ndarray) -> float | None:
    """The standard deviation of a large array of normally distributed numbers around 0; None for other arrays."""
    if array.nbytes < LARGE or array.dtype.kind not in "fV":
        return None
    numbers = array.astype(np.float64)
    scale = float(numbers.std())
    if not np.isfinite(scale) or scale == 0 or abs(numbers.mean()) > 0.02 * scale:
        return None
    fourth = float(np.mean((numbers / scale) ** 4))  # 3 for a normal distribution
    return scale if abs(fourth - 3) < 0.1 else None


def main() -> int:
    """Pack what the command line asks for; 1 where a case does not compile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose names it is found in")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every n-th of them")
    parser.add_argument("--output", type=Path, default=checkout.ROOT / ".gpu" / "cases", metavar="DIR")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for path in (*arguments.output.glob("*.blu"), *arguments.output.glob("*.npz")):
        path.unlink()
    chosen = [case for case in all_cases() if re.search(arguments.only, case.name)]
    chosen = chosen[:: arguments.every]
    entries: list[StoredCase] = []
    for index, case in enumerate(chosen):
        entries.append(pack(case, f"{index:04d}", arguments.target, arguments.output))
        save_index(arguments.output, entries)  # so that what is there can be used when this is interrupted
    size = sum(path.stat().st_size for path in arguments.output.iterdir())
    failed = sum(bool(entry.failure) for entry in entries)
    print(f"{len(entries)} cases in {arguments.output}, {size / 2**20:.1f} MiB, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
