"""All figures of several GPUs by one command, beside PyTorch's, and runs that are repeated, killed and resumed.

    python bench/ranks_gpu.py --ranks 4                      # into a folder ranks-4 of bench/results; see --list
    python bench/ranks_gpu.py --ranks 2 --only scaling,tensor    # some parts
    python bench/ranks_gpu.py --ranks 2 --device cpu             # without GPUs: repeats and resumes

What a part needs is compiled first, several programs at a time. A part that fails is said in the table with what it had
found until then, and the others go on; the exit code is then 1. `--seconds` ends what still runs when they are over.
What is found is drawn, where matplotlib is there. `--pack-only` compiles and starts no rank; `--packed` measures what
is compiled. Blu must be importable in other processes.

scaling, narrow, optimizer: GPT-2 124M in bf16 with 64 x 1024 tokens a rank against DDP; gradients in bf16; ZeRO-1
bandwidth: all-reduces of 1 to 400 MB beside NCCL's. attention, model, tensor: bench/context_gpu.py
repeats, resumes: `blu train` twice; one rank killed (SIGKILL) and the run resumed: the same bytes
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

from checkout import ROOT

from bench.context_gpu import SIDES_OF
from bench.gpu.report import digest
from bench.ranks.launching import SECONDS, importable, run_on_ranks
from bench.ranks.plots import draw

STEPS, EVERY = 12, 4
TRAIN = "gpt2-demo-config --tokenizer bytes --batch-size 4 --length 64 --validate-every 0 --log-every 1".split()
TEXT = " ".join(str(number * number % 977) for number in range(60000))


@dataclass(frozen=True)
class Part:
    """A script that ranks run, and what is compiled for it; "{mesh}" and "{ranks}" are replaced. `figures` are what the
    table shows of its report: paths of keys."""

    script: str
    packs: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()

    def commands(self, ranks: int) -> list[list[str]]:
        """Programs that compile, with their flags."""
        return [self._words(text, ranks) for text in self.packs]

    def command(self, ranks: int, report: Path) -> list[str]:
        """The program that measures, on each rank."""
        return [*self._words(self.script, ranks), "--save", str(report)]

    @staticmethod
    def _words(text: str, ranks: int) -> list[str]:
        script, *flags = text.format(mesh=f"dp={ranks}", ranks=ranks).split()
        return [str(ROOT / "bench" / script), *flags]


def context_part(name: str) -> Part:
    """A part of the script about long sequences."""
    script = f"context_gpu.py --part {name}"
    packs = [f"{script} --pack --ranks {{ranks}} --side {side}" for side in range(len(SIDES_OF[name]))]
    return Part(script, tuple(packs), (name,))


STEP = "train_gpu.py --pack"
SCALING = ("scaling", "speed ratio to ddp", "milliseconds", "tokens per second")
PARTS = {
    "scaling": Part("train_ranks_gpu.py", (STEP, STEP + " --mesh {mesh}"), SCALING),
    "narrow": Part(
        "train_ranks_gpu.py --reduce-dtype bf16 --without-torch",
        (STEP, STEP + " --mesh {mesh} --reduce-dtype bf16"),
        ("scaling", "milliseconds"),
    ),
    "optimizer": Part(
        "train_ranks_gpu.py --shard optimizer --without-torch",
        (STEP, STEP + " --mesh {mesh} --shard optimizer"),
        ("scaling", "bytes", "bytes planned"),
    ),
    "bandwidth": Part("collectives_gpu.py sizes", figures=("sizes",)),
    **{name: context_part(name) for name in ("attention", "model", "tensor")},
}
RUNS = ("repeats", "resumes")


def pack(parts: list[str], ranks: int, jobs: int) -> dict[str, str]:
    """Compile what the parts need, each program once: why some could not be, by part."""
    wanted = {tuple(words): [sys.executable, *words] for name in parts for words in PARTS[name].commands(ranks)}
    run = partial(subprocess.run, env=importable(), cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)
    with ThreadPoolExecutor(jobs) as pool:
        done = dict(zip(wanted, pool.map(run, wanted.values()), strict=True))
    failed = {words: item.stderr[-600:] for words, item in done.items() if item.returncode}
    found = {}
    for name in parts:
        if texts := [failed[tuple(words)] for words in PARTS[name].commands(ranks) if tuple(words) in failed]:
            found[name] = f"cannot be compiled: {texts[0]}"
    return found


def measure(name: str, ranks: int, folder: Path, seconds: float = SECONDS) -> dict[str, Any]:
    """The figures of one part; if it fails, why, and those that it had found."""
    report = folder / f"{name}.json"
    report.unlink(missing_ok=True)
    log = folder / "logs" / f"{name}.log"
    code = run_on_ranks(PARTS[name].command(ranks, report.resolve()), ranks, log, seconds=seconds)
    why = f"more than {seconds:.0f} seconds" if code is None else f"exit code {code}"
    failed = {"failed": f"{why}; see {log}"} if code != 0 or not report.exists() else {}
    found = json.loads(report.read_text()) if report.exists() else {}
    return failed | {figure: found[figure] for figure in PARTS[name].figures if figure in found}


def training(ranks: int, device: str, out: Path) -> list[str]:
    """The command of a small run of `blu train`."""
    text = out.parent / "text.txt"
    text.write_text(TEXT)
    target = ["--target", "cuda", "--dtype", "bf16"] if device == "cuda" else []
    cadence = ["--steps", str(STEPS), "--checkpoint-every", str(EVERY), "--seed", "3", "--nproc", str(ranks)]
    return [sys.executable, "-m", "blu", "train", *TRAIN, *target, *cadence, "--data", str(text), "--out", str(out)]


def trained(words: list[str]) -> None:
    """Run a command to its end; RuntimeError with what it said where it fails."""
    done = subprocess.run(words, env=importable(), capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr[-1500:]}")


def end_of(out: Path) -> str:
    """What the last checkpoint of a run holds."""
    return digest(out / f"step-{STEPS:08d}")


def repeats(ranks: int, device: str, folder: Path) -> dict[str, Any]:
    """Whether two runs end with the same bytes."""
    outs = [folder / name for name in ("first", "second")]
    for out in outs:
        trained(training(ranks, device, out))
    return {"same bytes": end_of(outs[0]) == end_of(outs[1])}


def resumes(ranks: int, device: str, folder: Path) -> dict[str, Any]:
    """Whether a run of which a rank was killed ends with the bytes of one that nothing happened to."""
    whole, out = folder / "whole", folder / "killed"
    trained(training(ranks, device, whole))
    code, seconds = killed(training(ranks, device, out), out)
    trained([sys.executable, "-m", "blu", "train", "--resume", "--out", str(out), "--nproc", str(ranks)])
    return {"exit code": code, "seconds until all had ended": seconds, "same bytes": end_of(whole) == end_of(out)}


def killed(words: list[str], out: Path) -> tuple[int, float]:
    """Kill the last rank of a run once a checkpoint is there: the exit code, and the seconds until all have ended."""
    with subprocess.Popen(words, env=importable(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + SECONDS
        while process.poll() is None and time.monotonic() < end and not (out / f"step-{EVERY:08d}").exists():
            time.sleep(0.002)
        ranks = dict(ranks_below(process.pid))
        if not ranks or process.poll() is not None:
            process.kill()
            raise RuntimeError("the run had ended before a rank could be killed")
        os.kill(ranks[max(ranks)], signal.SIGKILL)
        start = time.monotonic()
        return process.wait(SECONDS), time.monotonic() - start


def ranks_below(parent: int) -> Iterator[tuple[int, int]]:
    """Ranks and process ids of the ranks that a process, or one that it started, has started."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    for process in parents:
        above = process
        while above in parents and above != parent:
            above = parents[above]
        if above == parent != process and (rank := rank_of(process)) is not None:
            yield rank, process


def rank_of(process: int) -> int | None:
    """What its environment says."""
    try:
        text = Path(f"/proc/{process}/environ").read_text()
    except OSError:
        return None
    found = re.search(r"(?:^|\0)(?:RANK|PMI_RANK|OMPI_COMM_WORLD_RANK)=(\d+)\0", text)
    return int(found[1]) if found else None


def write_table(found: dict[str, Any], ranks: int, path: Path) -> None:
    """What was found, a line each."""
    lines = [f"# {ranks} ranks", "", "| part | figures |", "|---|---|"]
    for name, figures in found.items():
        for figure, value in figures.items():
            lines += [f"| {text} | {shown} |" for text, shown in figures_in(f"{name}: {figure}", value)]
    path.write_text("\n".join(lines) + "\n")


def figures_in(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """What stands in a report below a name, at whatever depth: names and figures."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        shown = f"{value:.4g}" if isinstance(value, float) else json.dumps(value)
        yield name, shown.replace("\n", " ")
        return
    for key, inner in value.items():
        yield from figures_in(f"{name}, {key}", inner)


def wanted_parts(arguments: argparse.Namespace) -> list[str]:
    """The parts that are asked for and that the device can do."""
    possible = [*PARTS, *RUNS] if arguments.device == "cuda" else [*RUNS]
    asked = arguments.only.split(",") if arguments.only else possible
    if unknown := [name for name in asked if name not in possible]:
        raise SystemExit(f"--only {','.join(unknown)}: on this device there are {', '.join(possible)}")
    return asked


def find(name: str, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One part's figures; where it fails, why."""
    try:
        if name in PARTS:
            return measure(name, arguments.ranks, folder, max(1.0, arguments.seconds - time.monotonic()))
        scratch = folder / "runs" / name
        scratch.mkdir(parents=True)
        return {"repeats": repeats, "resumes": resumes}[name](arguments.ranks, arguments.device, scratch)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        return {"failed": str(error)}


def is_sound(figures: dict[str, Any]) -> bool:
    return "failed" not in figures and figures.get("same bytes", True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--only", default="", metavar="PART,...")
    parser.add_argument("--folder", type=Path, help="for results; it must not hold runs of another time")
    parser.add_argument("--jobs", type=int, default=4, help="programs that are compiled at a time")
    parser.add_argument("--seconds", type=float, default=math.inf, help="for all parts together, runs aside")
    parser.add_argument("--pack-only", action="store_true")
    parser.add_argument("--packed", action="store_true", help="compile nothing")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    parts = wanted_parts(arguments)
    if arguments.list:
        print("\n".join(parts))
        return 0
    folder = (arguments.folder or ROOT / "bench" / "results" / f"ranks-{arguments.ranks}").resolve()
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    arguments.seconds += time.monotonic()
    to_pack = [] if arguments.packed else [name for name in parts if name in PARTS]
    packed = pack(to_pack, arguments.ranks, arguments.jobs)
    found: dict[str, Any] = {name: {"failed": reason} for name, reason in packed.items()}
    for name in [] if arguments.pack_only else parts:
        if name not in found:
            found[name] = find(name, arguments, folder)
        print(json.dumps({name: found[name]}), flush=True)
        write_table(found, arguments.ranks, folder / "ranks.md")
    draw(folder)
    return 0 if all(map(is_sound, found.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
