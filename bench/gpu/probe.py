"""Runs one artifact on this machine's GPU, as a graph and launch by launch, and says whether it is right.

    python bench/gpu/probe.py FILE.blu [--repeats N]

Where FILE.npz lies beside it (bench/gpu/pack.py), its arguments are used and its results compared with; otherwise the
arguments are random and only the two ways of running are compared. Prints the time of each launch.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import checkout  # noqa: F401 (makes blu importable)
import numpy as np

from bench.gpu.stored import INDEX, draw, inputs_of, largest_error, load_arrays, load_index
from blu.runtime.cuda import CudaProgram
from blu.runtime.cuda.driver.driver import default_driver


def main() -> int:
    """Probe the artifact of the command line; 1 where results differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", type=Path)
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    program = CudaProgram.load(arguments.artifact)
    print(default_driver(), program, sep="\n")
    cases = load_index(arguments.artifact.parent) if (arguments.artifact.parent / INDEX).is_file() else []
    case = next((case for case in cases if case.file == arguments.artifact.stem), None)
    arrays = load_arrays(arguments.artifact.with_suffix(".npz")) if case else {}
    values = inputs_of(case, arrays) if case else random_inputs(program)
    runs = {}
    for way in ("launches", "graph"):
        program.use_graphs = way == "graph"
        runs[way] = [result.numpy() for result in program.run([value.copy() for value in values], overwrite=True)]
        print(f"{way}: error {largest_error(case, runs[way], arrays) if case else 'unknown'}")
    same = all(a.tobytes() == b.tobytes() for a, b in zip(runs["launches"], runs["graph"], strict=True))
    print("the same bits" if same else "the two DIFFER")
    for kernel, location, microseconds in program.time_launches(values, arguments.repeats):
        print(f"{microseconds:10.2f} us  {kernel}  {location}")
    return int(not same)


def random_inputs(program: Any) -> list[np.ndarray]:
    """Normally distributed numbers; zeros for whole numbers, which may be indices."""
    return [
        draw(index, list(spec.shape), spec.dtype, 1.0)
        if spec.dtype in ("f16", "bf16", "f32", "f64")
        else np.zeros(spec.shape, spec.numpy_dtype)
        for index, spec in enumerate(program.inputs)
    ]


if __name__ == "__main__":
    sys.exit(main())
