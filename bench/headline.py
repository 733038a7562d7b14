"""BluTrain's benchmark, openly repeated: GPT-2 124M on several GPUs with Blu and with PyTorch, by one command.

    python bench/headline.py --ranks 8               # into a folder headline of bench/results, and docs/headline.md
    python bench/headline.py --ranks 8 --only speed-tf32-8,gradients    # some parts; others stay as they were
    python bench/headline.py --dry-run --ranks 2     # the same code on processors, over MPI, with a tiny model
    python bench/headline.py --pack --target sm_90a --ranks 8    # compile into the cache, on a machine without a GPU

speed-PRECISION-RANKS: both in alternating rounds. curve-SIDE and curve-SIDE-again: losses, memory, determinism.
gradients: each of the first step against float64. reduce: all-reduces by size. A part that fails is said in the
report, and the others go on; the exit code is then 1. Where PyTorch is not there, Blu is measured alone, and the report
says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

from checkout import ROOT

from bench.gpu.report import command_line
from bench.ranks.joining import has_torch
from bench.ranks.launching import SECONDS, run_on_ranks
from bench.training.report import conclusions, draw, page
from bench.training.setup import Setup, tiny, write_tokens

MEASURES, BANDWIDTH = (str(ROOT / "bench" / name) for name in ("training/measures.py", "collectives_gpu.py"))
WORLDS = (1, 2, 4, 8)
BATCHES = {"tf32": (16, 4), "bf16": (64, 1), "f32": (16, 4)}
TOKENS, TINY_TOKENS = 20_000_000, 20_000
REPORT = "headline.json"


@dataclass(frozen=True)
class Part:
    """What is measured, by how many ranks, and of what."""

    kind: str
    ranks: int
    setup: Setup


def parts_of(ranks: int, setup: Setup, precisions: list[str]) -> dict[str, Part]:
    """All parts, the most important first."""
    found: dict[str, Part] = {}
    worlds = sorted({count for count in WORLDS if count < ranks} | {ranks}, reverse=True)
    for precision in precisions:
        is_tiny = setup.device == "cpu"
        batch, accumulate = (setup.batch, setup.accumulate) if is_tiny else BATCHES[precision]
        one = setup.changed(precision=precision, batch=batch, accumulate=accumulate)
        for count in worlds if precision != "f32" else (ranks,):
            found[f"speed-{precision}-{count}"] = Part("speed", count, one)
    first = setup.changed(precision=precisions[0])
    for side in ("blu", "torch") if setup.with_peer else ("blu",):
        for name in (f"curve-{side}", f"curve-{side}-again"):
            found[name] = Part("curve", ranks, first.changed(side=side))
    found["gradients"] = Part("gradients", ranks, first)
    if ranks > 1:
        found["reduce"] = Part("reduce", ranks, first)
    return found


def measure(name: str, part: Part, folder: Path) -> dict[str, Any]:
    """The figures of one part, or why there are none."""
    result, log, setup = (folder / "logs" / f"{name}{suffix}" for suffix in (".json", ".log", ".setup.json"))
    result.unlink(missing_ok=True)
    part.setup.write(setup)
    words = [MEASURES, part.kind, str(setup)]
    if part.kind == "reduce" and part.setup.device == "cuda":
        words = [BANDWIDTH, "sizes"]
    code = run_on_ranks([*words, "--save", str(result)], part.ranks, log, part.setup.device)
    if code is None:
        return {"failed": f"no end after {SECONDS} s; see logs/{log.name}"}
    if code or not result.exists():
        return {"failed": f"exit code {code}; see logs/{log.name}"}
    return json.loads(result.read_text())


def pack(parts: dict[str, Part]) -> None:
    """Compile what the parts need into the cache."""
    from blu.compiler.cache import default_cache
    from blu.compiler.requests import compile_request
    from blu.compiler.training.engine import Engine
    from blu.plan.mesh import Mesh

    for part in parts.values():
        mesh = Mesh(dp=part.ranks) if part.ranks > 1 else Mesh()
        setup, entries = part.setup, ("micro", "update") if part.setup.accumulate > 1 else ("step",)
        engine = Engine.of(setup.full_config(), setup.recipe(part.ranks), target=setup.target, mesh=mesh)
        for entry in entries:
            compile_request(engine.request(entry), default_cache())


def write(report: dict[str, Any], folder: Path, document: Path) -> None:
    """The report, its page and its plots."""
    report["conclusions"] = conclusions(report["parts"])
    (folder / REPORT).write_text(json.dumps(report, indent=1) + "\n")
    document.write_text(page(report))
    report["plots"] = [path.name for path in draw(report, folder)]


def setup_of(arguments: argparse.Namespace, folder: Path) -> Setup:
    """What is trained, and on which data: those that are given, or drawn ones."""
    changes = {"steps": arguments.steps, "rounds": arguments.rounds, "seed": arguments.seed, "target": arguments.target}
    setup = Setup(**changes, data=arguments.data, with_peer=has_torch())
    setup = tiny(setup) if arguments.dry_run else setup
    if not setup.data:
        count = TINY_TOKENS if arguments.dry_run else TOKENS
        setup = setup.changed(data=str(folder / "logs" / "drawn.bin"))
        write_tokens(Path(setup.data), count, setup.config["vocab_size"], arguments.seed)
    return setup


def parser() -> argparse.ArgumentParser:
    """The flags."""
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--ranks", type=int, default=8)
    found.add_argument("--dry-run", action="store_true", help="on processors, with a tiny model")
    found.add_argument("--only", default="", metavar="PART,...")
    found.add_argument("--precisions", default="tf32,bf16,f32", help="the first one is the headline")
    found.add_argument("--data", default="", help="uint16 shards (a pattern); else tokens are drawn")
    found.add_argument("--steps", type=int, default=320, help="of loss curves")
    found.add_argument("--rounds", type=int, default=8, help="of 5 steps for each system; 4 of them are counted")
    found.add_argument("--seed", type=int, default=0)
    found.add_argument("--target", default="cuda")
    found.add_argument("--folder", type=Path, help="for results; the page is written there as well")
    found.add_argument("--pack", action="store_true", help="only compile, into the cache")
    found.add_argument("--list", action="store_true", help="only say which parts there are")
    return found


def main() -> int:
    arguments = parser().parse_args()
    folder = (arguments.folder or ROOT / "bench" / "results" / "headline").resolve()
    if arguments.dry_run and not arguments.folder:
        raise SystemExit("--dry-run needs a --folder: its figures say nothing of Blu")
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    parts = parts_of(arguments.ranks, setup_of(arguments, folder), arguments.precisions.split(","))
    asked = arguments.only.split(",") if arguments.only else list(parts)
    if unknown := [name for name in asked if name not in parts]:
        raise SystemExit(f"--only {','.join(unknown)}: there are {', '.join(parts)}")
    if arguments.list:
        print("\n".join(parts))
        return 0
    if arguments.pack:
        pack({name: parts[name] for name in asked})
        return 0
    document = folder / "headline.md" if arguments.folder else ROOT / "docs" / "headline.md"
    before = json.loads((folder / REPORT).read_text()) if (folder / REPORT).exists() else {"parts": {}}
    report = {**before, "command": command_line(), "peer": "PyTorch" if has_torch() else "left out: no PyTorch here"}
    for name in asked:
        report["parts"][name] = measure(name, parts[name], folder)
        print(name, "failed" if "failed" in report["parts"][name] else "done", flush=True)
        write(report, folder, document)
    return int(any("failed" in report["parts"][name] for name in asked))


if __name__ == "__main__":
    sys.exit(main())
