"""All figures of one GPU by one command, the most telling first, within the time that there is.

    python bench/gpu/one_gpu.py --pack --folder found            # compile (no GPU needed), several programs at a time
    python bench/gpu/one_gpu.py --seconds 500 --folder found     # on the GPU machine: check and measure
    python bench/gpu/one_gpu.py --seconds 500 --folder found --missing    # another time: what has no result yet

Each part is a script of its own, whose report and log stand in the folder; it is ended when it has taken what the table
here gives it, and not begun where less is left. `parts.json` says how each has ended. The exit code is 1 where one has
failed. Blu must be importable in other processes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkout import ROOT

from bench.ranks.launching import importable

PACK_SECONDS = 900
TOGETHER = 4
"""Programs of one part that are compiled at the same time."""
INDEX = "parts.json"
DONE, CUT, LATE, FAILED = "done", "cut", "no time", "failed"


@dataclass(frozen=True)
class OnePart:
    """A command that measures for up to so many seconds, and those that compile for it, in words of a shell.

    "{report}" is where the report of the part "{name}" is to stand, "{folder}" where all are, "{jobs}" how many
    processes it may have.
    """

    seconds: int
    measure: str
    packs: tuple[str, ...] = ()


def training(policy: str, batch: int) -> OnePart:
    """A step of GPT-2 beside torch.compile's."""
    flags = f"bench/train_gpu.py --policy {policy} --batch {batch}"
    return OnePart(90, f"{flags} --save {{report}}", (f"{flags} --pack",))


def checks(pattern: str, flags: str, seconds: int) -> OnePart:
    """Cases of bench/gpu/check_*.py, in a folder of their own."""
    pack = f"bench/gpu/pack.py --only '{pattern}' --output {{folder}}/{{name}} --jobs {{jobs}}"
    return OnePart(seconds, f"bench/gpu_check.py {{folder}}/{{name}} {flags} --json {{report}}", (pack,))


def drawn(seed: int) -> OnePart:
    """Cases of shapes that a seed draws."""
    pack = f"bench/gpu/pack.py --seed {seed} --output {{folder}}/{{name}} --jobs {{jobs}}"
    return OnePart(90, "bench/gpu_check.py {folder}/{name} --jobs 4 --save {report}", (pack,))


def products(pattern: str, seconds: int = 40) -> OnePart:
    """Matrix products beside cuBLAS's."""
    flags = f"bench/gemm_gpu.py --only '{pattern}'"
    return OnePart(seconds, f"{flags} --save {{report}}", (f"{flags} --pack --workers {{jobs}}",))


def model(name: str, seconds: int) -> OnePart:
    """A model's training step beside PyTorch's."""
    flags = f"bench/models/models_gpu.py --only {name} --gradients"
    return OnePart(seconds, f"{flags} --save {{report}} --cache {{folder}}/compiled", (f"{flags} --pack",))


def suite(name: str) -> OnePart:
    """A suite of `blu bench`."""
    return OnePart(120, f"bench/gpu/checkout.py bench {name} --target cuda --save {{folder}}/{name}")


DECODING = "decode (into a cache )?bf16"
GROUPS = "^attention.*(long|two groups)"
F32 = "bench/models/models_gpu.py --rounds 0 --gradients f32"
PARTS = {
    "races-decoding": checks(DECODING, "--tool racecheck --jobs 4", seconds=40),
    "races-attention": checks(GROUPS, "--tool racecheck --jobs 4", seconds=60),
    "training-bf16": training("bf16", 64),
    "training-tf32": training("tf32", 32),
    "decoding": OnePart(75, "bench/decode_graph_gpu.py --save {report}"),
    "vit": model("vit", 60),
    "llama": model("llama", 60),
    "resnet": model("resnet", 240),
    "gradients-f32": OnePart(60, f"{F32} --save {{report}}", (f"{F32} --pack",)),
    "products-bf16": products("^table bf16"),
    "products-tf32": products("^table tf32"),
    "products-random": products("^random"),
    "products-others": products("^(fused|others|batches)"),
    "checks-f8": checks("gemm f8", "--jobs 4", seconds=60),
    "products-f8": products("e4m3"),
    "calls": OnePart(40, "bench/gpu/calls.py --save {report}"),
    "rows": OnePart(60, "bench/rows_gpu.py --save {report}", ("bench/rows_gpu.py --pack",)),
    "attention": suite("attention"),
    "scans": suite("scans"),
    "operators": OnePart(
        120,
        "bench/conformance/opinfo.py --target cuda --jobs {jobs} --seconds 100 --save {folder}/{name}",
        ("bench/conformance/opinfo.py --pack --target sm_90a --jobs {jobs}",),
    ),
    "training-f32": training("f32", 16),
    "early": OnePart(40, "bench/checks/early.py --save {report}", ("bench/checks/early.py --pack",)),
    "drawn": drawn(2026),
    "gradients-gpt2": OnePart(60, "bench/gradients_gpu.py --save {report}", ("bench/gradients_gpu.py --pack",)),
    "checks": checks(".", "--jobs 4", seconds=240),
    "sanitizers": checks(".", "--sanitizers --jobs 4", seconds=600),
}
"""In the order in which they are run."""


@dataclass(frozen=True)
class Parts:
    """Parts by name, whose reports and logs stand in `folder`; about `jobs` programs are compiled at a time."""

    parts: dict[str, OnePart]
    folder: Path
    jobs: int

    def pack(self) -> dict[str, str]:
        """Compile what they need: how it ended, by part."""
        with ThreadPoolExecutor(max(1, self.jobs // TOGETHER)) as pool:
            return dict(zip(self.parts, pool.map(self._pack_one, self.parts), strict=True))

    def _pack_one(self, name: str) -> str:
        log = self.folder / f"{name}.packing.log"
        ends = [self._run(text, name, log, PACK_SECONDS, min(self.jobs, TOGETHER)) for text in self.parts[name].packs]
        return next((end for end in ends if end != DONE), DONE)

    def measure(self, seconds: float, is_found: Sequence[str] = ()) -> dict[str, str]:
        """Run one after the other, but for those that are found: how each ended."""
        until = time.monotonic() + seconds
        found = dict.fromkeys(is_found, DONE)
        for name in (name for name in self.parts if name not in found):
            start = time.monotonic()
            found[name] = self._measure_one(name, until - start)
            print(f"{name}: {found[name]}, {time.monotonic() - start:.0f} s", flush=True)
            write_index(self.folder, found)
        return found

    def _measure_one(self, name: str, left: float) -> str:
        part = self.parts[name]
        if left < part.seconds:
            return LATE
        return self._run(part.measure, name, self.folder / f"{name}.log", part.seconds, self.jobs)

    def _run(self, text: str, name: str, log: Path, seconds: float, jobs: int) -> str:
        """How a command ends, with all processes that it has started, when it is given so many seconds."""
        report = self.folder / f"{name}.json"
        words = shlex.split(text.format(report=report, name=name, folder=self.folder, jobs=jobs))
        options: dict[str, Any] = {"env": importable(), "cwd": ROOT, "start_new_session": True}
        with log.open("a") as output:
            process = subprocess.Popen([sys.executable, *words], stdout=output, stderr=subprocess.STDOUT, **options)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                return CUT
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return DONE if code == 0 else f"{FAILED}, exit code {code}"


def read_index(folder: Path) -> dict[str, str]:
    """How parts have ended, by name."""
    path = folder / INDEX
    return json.loads(path.read_text()) if path.exists() else {}


def write_index(folder: Path, found: dict[str, str]) -> None:
    """Add to how parts have ended."""
    (folder / INDEX).write_text(json.dumps(read_index(folder) | found, indent=1) + "\n")


def chosen_parts(only: str) -> dict[str, OnePart]:
    """The parts of a comma-separated list, all where it is empty."""
    asked = only.split(",") if only else list(PARTS)
    if unknown := [name for name in asked if name not in PARTS]:
        raise SystemExit(f"--only {','.join(unknown)}: there are {', '.join(PARTS)}")
    return {name: PARTS[name] for name in PARTS if name in asked}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / ".gpu" / "one", help="for reports and logs")
    parser.add_argument("--only", default="", metavar="PART,...")
    parser.add_argument("--seconds", type=float, default=3600, help="that measuring may take in all")
    parser.add_argument("--missing", action="store_true", help="leave out what is done already")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="programs compiled at a time")
    parser.add_argument("--pack", action="store_true", help="only compile")
    parser.add_argument("--list", action="store_true", help="only say which parts there are, and their seconds")
    arguments = parser.parse_args()
    wanted = chosen_parts(arguments.only)
    if arguments.list:
        print("\n".join(f"{name} {part.seconds}" for name, part in wanted.items()))
        return 0
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    parts = Parts(wanted, folder, arguments.jobs)
    if arguments.pack:
        ends = parts.pack()
        print("\n".join(f"{name}: {end}" for name, end in ends.items()))
    else:
        before = [name for name, end in read_index(folder).items() if end == DONE and name in wanted]
        ends = parts.measure(arguments.seconds, before if arguments.missing else ())
    return int(any(end.startswith(FAILED) for end in ends.values()))


if __name__ == "__main__":
    sys.exit(main())
