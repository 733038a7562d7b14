"""Blu beside PyTorch on the samples that torch.testing has of each operator, in float64, with gradients.

    python bench/conformance/opinfo.py [--only NAMES] [--every N] [--jobs N] [--seconds S] [--save opinfo-cpu]
    python bench/conformance/opinfo.py --pack --target sm_90a     # compile only (no GPU needed), into the compile cache
    python bench/conformance/opinfo.py --target cuda              # on the GPU machine
    python bench/conformance/opinfo.py --complex                  # the samples in complex128, of entries that have some

Entries are operators with their variants (bench/conformance/entries.py); each is written in Blu as a user would
(bench/conformance, by families). A sample is right where all results, and all gradients of a random weighing of them,
have PyTorch's shapes and values: to 1e-7 relative forward and 1e-6 backward. Samples that draw random numbers are held
to shapes and to being finite. `--every 10` takes each tenth sample of entries that have more than a hundred. `--jobs`
processes share the samples, the first ones of all entries first, until `--seconds` are over. The exit code is 1 where a
sample is wrong. It needs PyTorch, and all samples take about ten minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import bench.gpu.checkout  # noqa: F401 (makes blu importable)
import blu
from bench.conformance.entries import NAMES
from bench.conformance.shares import LOST, outcomes_of, own_share, places_of
from bench.gpt2_cpu import describe_machine, report


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def outcomes(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What came of each sample of this process's share, in turn."""
    from bench.conformance import arrangement, folding, indexing, neural, pointwise, spelling
    from bench.conformance.samples import Sample

    assert all((arrangement, folding, indexing, neural, pointwise))
    for place in own_share(
        places_of(arguments.only, arguments.every, arguments.complex), arguments.share, arguments.after
    ):
        began = time.perf_counter()
        sample = Sample(place.entry, place.sample, spelling.SPELLINGS[place.name])
        fault = sample.pack(arguments.target or "cpu") if arguments.pack else sample.beside(arguments.target)
        wrong = None
        if fault is not None:
            wrong = {"stage": fault.stage, "what": fault.message, "sample": sample.describe()}
            tell(f"  {place.full} {place.number}: {fault.stage}: {fault.message}: {sample.describe()}")
        yield {"entry": place.full, "wrong": wrong, "seconds": time.perf_counter() - began}


def answers(target: str | None) -> bool:
    """Whether the target still computes: a GPU does not, once a kernel has read what is not its own."""
    try:
        return float(blu.jit(lambda x: x + 1, target=target)(np.float32(1))) == 2
    except Exception:
        return False


def run_share(arguments: argparse.Namespace) -> int:
    """Print an outcome a line, for the process that started this one."""
    for outcome in outcomes(arguments):
        print(json.dumps(outcome), flush=True)
        failed = outcome["wrong"] and outcome["wrong"]["stage"] == "error"
        if failed and not arguments.pack and not answers(arguments.target):
            return LOST
    return 0


def by_entries(found: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """How many samples of each entry were compared, were right, what was wrong, and seconds."""
    entries: dict[str, dict[str, Any]] = {}
    for outcome in found:
        item = entries.setdefault(outcome["entry"], {"compared": 0, "right": 0, "seconds": 0.0, "wrong": []})
        item["compared"] += 1
        item["right"] += outcome["wrong"] is None
        item["seconds"] = round(item["seconds"] + outcome.get("seconds", 0.0), 3)
        item["wrong"] += [outcome["wrong"]] if outcome["wrong"] else []
    return entries


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=NAMES, metavar="NAME")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--target")
    parser.add_argument("--complex", action="store_true")
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--save", metavar="NAME")
    parser.add_argument("--share", default="", help=argparse.SUPPRESS)
    parser.add_argument("--after", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = _arguments()
    warnings.filterwarnings("ignore")
    if arguments.share:
        sys.exit(run_share(arguments))
    began = time.perf_counter()
    found = by_entries(outcomes_of(sys.argv, arguments.jobs, arguments.seconds))
    compared, right = (sum(item[key] for item in found.values()) for key in ("compared", "right"))
    result = {
        "command": " ".join(["python", *sys.argv]),
        "machine": describe_machine() | {"load": os.getloadavg()[0]},
        "seconds": round(time.perf_counter() - began, 1),
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
