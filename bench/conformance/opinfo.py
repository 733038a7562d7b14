"""Blu beside PyTorch on the samples that torch.testing has of each operator, in float64, with gradients.

    python bench/conformance/opinfo.py [--only NAMES] [--every N] [--target cuda] [--save opinfo-cpu]

Entries are operators with their variants (bench/conformance/entries.py); each is written in Blu as a user would
(bench/conformance, by families). A sample is right where all results, and all gradients of a random weighing of them,
have PyTorch's shapes and values: to 1e-7 relative forward and 1e-6 backward. Samples that draw random numbers are held
to shapes and to being finite. `--every 10` takes each tenth sample of entries that have more than a hundred. The exit
code is 1 where a sample is wrong. It needs PyTorch and its package expecttest, and all samples take about ten minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import bench.gpu.checkout  # noqa: F401 (makes blu importable)
from bench.conformance.entries import NAMES, entries_of, samples_of
from bench.gpt2_cpu import describe_machine, report

MANY = 100


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def compare(entry: Any, name: str, every: int, target: str | None) -> dict[str, Any]:
    """How many samples of an entry there are, how many were compared, were right, and what was wrong."""
    from bench.conformance.samples import Sample
    from bench.conformance.spelling import SPELLINGS

    found = samples_of(entry)
    taken = found[::every] if len(found) > MANY else found
    wrong = []
    for number, item in enumerate(taken):
        sample = Sample(entry, item, SPELLINGS[name])
        if (fault := sample.beside(target)) is not None:
            wrong.append({"stage": fault.stage, "what": fault.message, "sample": sample.describe()})
            tell(f"  {name} {number}: {fault.stage}: {fault.message}: {sample.describe()}")
    return {"samples": len(found), "compared": len(taken), "right": len(taken) - len(wrong), "wrong": wrong}


def compare_all(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """By the names of entries: those that are spelled."""
    from bench.conformance import arrangement, folding, indexing, neural, pointwise, spelling

    assert all((arrangement, folding, indexing, neural, pointwise))
    found = {}
    for name in arguments.only:
        for entry in entries_of(name) if name in spelling.SPELLINGS else ():
            began = time.perf_counter()
            result = compare(entry, name, arguments.every, arguments.target)
            full = f"{name}.{entry.variant_test_name}" if entry.variant_test_name else name
            found[full] = result
            seconds = time.perf_counter() - began
            tell(f"{full:45} {result['right']:4} of {result['compared']:4} {seconds:7.1f} s")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=NAMES, metavar="NAME")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--target")
    parser.add_argument("--save", metavar="NAME")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    found = compare_all(arguments)
    compared, right = (sum(item[key] for item in found.values()) for key in ("compared", "right"))
    result = {
        "command": " ".join(["python", *sys.argv]),
        "machine": describe_machine() | {"load": os.getloadavg()[0]},
        "entries": len(found),
        "entries all right": sum(item["right"] == item["compared"] for item in found.values()),
        "samples": compared,
        "right": right,
        "share": round(right / max(compared, 1), 5),
        "of": found,
    }
    report(result, arguments.save)
    sys.exit(right < compared)


if __name__ == "__main__":
    main()
