"""Compiles the cases of check_*.py for a GPU, and writes them with their arguments and the CPU's results to a folder.

    python bench/gpu/pack.py [--target sm_90a] [--only REGEX] [--every N] [--output .gpu/cases] [--jobs N] [--archive]
    python bench/gpu/pack.py --seed N ...     # cases of bench/checks/drawn.py, whose shapes are drawn by this

The folder is what `bench/gpu_check.py` runs on the GPU machine, which needs neither MLIR nor a compiler. To be
small, it holds machine code without PTX and IR, and in place of large arrays of normally distributed numbers only how
to draw others like them. What an earlier, perhaps interrupted run has left there is used again: results of what is
traced alike, and programs where Blu's sources are the same, too. With --archive,
`FOLDER.tar.xz` is all of it in one file.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import re
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import checkout
import numpy as np

import blu
from bench.gpu.case import Case
from bench.gpu.stored import INDEX, StoredCase, draw, finite_count, sample_step, save_arrays, save_index
from blu.compiler.jit import Traced
from blu.dialects.core.dtypes import TensorType
from blu.dialects.core.modules import module_text
from blu.errors import BluError
from blu.frontend.tracing.spec import Spec
from blu.frontend.tracing.tree import flatten
from blu.plan.tensors import NAMES
from blu.runtime.artifact import write_artifact

HERE = Path(__file__).resolve().parent
KEPT = ("plan.json", "constants.bin", ".cubin")
LARGE = 1 << 14
"""Bytes from which arrays of normally distributed numbers are drawn again."""


def all_cases(seed: int | None = None) -> list[Case]:
    """The cases of all check_*.py, or those whose shapes a seed draws."""
    if seed is not None:
        return list(importlib.import_module("bench.checks.drawn").drawn_cases(seed))
    return [
        case
        for path in sorted(HERE.glob("check_*.py"))
        for case in importlib.import_module(f"bench.gpu.{path.stem}").cases()
    ]


@dataclass(frozen=True)
class Packer:
    """Writes cases to a folder; `sources` stands for the state of the compiler."""

    target: str
    folder: Path
    sources: str

    def pack(self, case: Case) -> StoredCase:
        """Compile a case and compute its results here, unless both are there; what fails is in the entry."""
        start = time.perf_counter()
        try:
            traced = blu.jit(case.function, donate=case.donate).trace(*case.arguments)
            values = digest_of(module_text(traced.traced.module, locations=False), _content(case))
            program = digest_of(values, self.target, self.sources)
            self._compile(traced, program)
            entry = self._results(case, traced, values, program)
        except BluError as error:
            entry = StoredCase(case.name, failure=str(error).splitlines()[0])
        print(f"{case.name:40s} {time.perf_counter() - start:6.1f} s {entry.failure}", flush=True)
        return entry

    def _compile(self, traced: Traced, program: str) -> None:
        path = self.folder / f"{program}.blu"
        if path.exists():
            return
        compiled = traced.compile(self.target)
        members = {name: data for name, data in compiled.executable.items() if name.endswith(KEPT)}
        write_artifact(path, members, compiled.details)

    def _results(self, case: Case, traced: Traced, values: str, program: str) -> StoredCase:
        path = self.folder / f"{values}.json"
        if not path.exists():
            found, arrays = _run_here(case, traced)
            save_arrays(self.folder / f"{values}.npz", arrays)
            path.write_text(json.dumps(found))
        return StoredCase(**{**json.loads(path.read_text()), "name": case.name, "program": program, "values": values})

    def tidy(self, entries: list[StoredCase]) -> None:
        """Remove files that belong to none of these cases."""
        kept = {stem for entry in entries for stem in (entry.program, entry.values)} | {Path(INDEX).stem}
        for path in self.folder.iterdir():
            if path.stem not in kept:
                path.unlink()


def pack_all(packer: Packer, names: list[str], jobs: int, seed: int | None = None) -> Iterator[StoredCase]:
    """Pack cases, in order; with several jobs in processes that each know all cases, since functions do not travel."""
    if jobs == 1:
        yield from map(packer.pack, (_cases_by_name(seed)[name] for name in names))
        return
    with get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(partial(_pack_named, packer, seed), names)


def _pack_named(packer: Packer, seed: int | None, name: str) -> StoredCase:
    return packer.pack(_cases_by_name(seed)[name])


@cache
def _cases_by_name(seed: int | None) -> dict[str, Case]:
    return {case.name: case for case in all_cases(seed)}


def digest_of(*texts: str) -> str:
    """A name for content."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:20]


def _sources() -> str:
    """What the compiler is made of."""
    folders = ("blu", "compiler", "dialects", "frontend", "passes")
    paths = sorted(path for folder in folders for path in (checkout.ROOT / folder).rglob("*.py"))
    return digest_of(*(path.read_text() for path in paths))


def _content(case: Case) -> str:
    """What a case's results depend on besides its program."""
    leaves, _ = flatten(case.arguments)
    arrays = [b"" if isinstance(leaf, Spec) else np.ascontiguousarray(leaf).tobytes() for leaf in leaves]
    contents = [hashlib.sha256(array).hexdigest() for array in arrays]
    return json.dumps([contents, case.scale, str(case.relative_error), case.least, bool(case.reference)])


def _run_here(case: Case, traced: Traced) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What is stored of a case's results, and its arguments and results."""
    compiled = None if case.reference else traced.compile("cpu")
    values, described = _arguments(case, traced)
    # Donated arguments are written over.
    copies = [value.copy() for value in values]
    found = case.reference() if case.reference else compiled.program.run(copies, overwrite=True)
    results = [np.asarray(result) for result in found]
    arrays = {item["array"]: value for item, value in zip(described, values, strict=True) if "array" in item}
    steps = [sample_step(result.size) for result in results]
    arrays |= {f"result{index}": result.reshape(-1)[:: steps[index]] for index, result in enumerate(results)}
    bounds = [case.bound(NAMES[result.dtype]) for result in results]
    finite = [finite_count(result) for result in results]
    return {"bounds": bounds, "least": case.least, "arguments": described, "steps": steps, "finite": finite}, arrays


def _arguments(case: Case, traced: Traced) -> tuple[list[np.ndarray], list[dict[str, Any]]]:
    """The program's arguments, and how to get each again."""
    leaves, _ = flatten(case.arguments)
    types = traced.traced.signature.leaves
    values, described = [], []
    pairs = [(leaf, type_) for leaf, type_ in zip(leaves, types, strict=True) if isinstance(type_, TensorType)]
    for index, (leaf, type_) in enumerate(pairs):
        scale = case.scale if isinstance(leaf, Spec) else None if case.reference else _scale_of(np.asarray(leaf))
        if scale is not None:
            described.append({"seed": index, "shape": list(type_.shape), "dtype": type_.dtype.name, "scale": scale})
            values.append(draw(**described[-1]))
        else:
            described.append({"array": f"argument{index}"})
            values.append(np.asarray(leaf, type_.dtype.numpy))
    for index, array in enumerate(traced.traced.captured):
        described.append({"array": f"captured{index}"})
        values.append(array)
    return values, described


def write_archive(folder: Path, entries: list[StoredCase]) -> Path:
    """All files of cases in one, compressed: kernels are much alike."""
    path = folder.with_name(f"{folder.name}.tar.xz")
    stems = sorted({stem for entry in entries if not entry.failure for stem in (entry.program, entry.values)})
    with tarfile.open(path, "w:xz", preset=1) as archive:
        archive.add(folder / INDEX, INDEX)
        for file in (folder / f"{stem}{suffix}" for stem in stems for suffix in (".blu", ".npz")):
            if file.exists():
                archive.add(file, file.name)
    return path


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
    parser.add_argument("--seed", type=int, metavar="N", help="cases whose shapes this draws, in place of others")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes compile at the same time")
    parser.add_argument("--archive", action="store_true", help="write all files into one, too")
    parser.add_argument("--output", type=Path, default=checkout.ROOT / ".gpu" / "cases", metavar="DIR")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    packer = Packer(arguments.target, arguments.output, _sources())
    names = [case.name for case in all_cases(arguments.seed) if re.search(arguments.only, case.name)][
        :: arguments.every
    ]
    entries: list[StoredCase] = []
    for entry in pack_all(packer, names, arguments.jobs, arguments.seed):
        entries.append(entry)
        save_index(arguments.output, entries)  # so that what is there can be used when this is interrupted
    if not arguments.only and arguments.every == 1:
        packer.tidy(entries)
    if arguments.archive:
        path = write_archive(arguments.output, entries)
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")
    failed = sum(bool(entry.failure) for entry in entries)
    print(f"{len(entries)} cases in {arguments.output}, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
