"""`blu bench`: measure Blu beside PyTorch on the same arrays."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blu.compiler.bench.bound import Bound, measure_bound
from blu.compiler.bench.clocks import CudaClock, HostClock
from blu.compiler.bench.measure import PEERS, Bench, Measurement
from blu.compiler.bench.report import as_markdown, machine, save, summary
from blu.compiler.bench.suites import SUITES
from blu.compiler.cli.messages import UsageError, print_error
from blu.compiler.target import GPU_NAMES, resolve_target_name
from blu.errors import BluError, UnsupportedError, suggestion
from blu.runtime.host import default_threads, set_threads

if TYPE_CHECKING:
    from blu.compiler.bench.report import Results
    from blu.compiler.bench.workload import Workload


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="blu bench",
        description="Measure Blu beside PyTorch: the same random arrays, calls in turns, medians, errors against "
        "float64. A ratio above 1 means that Blu is faster. The exit code is 1 where a result is wrong.",
        allow_abbrev=False,
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(SUITES)}; all of them by default")
    parser.add_argument("--target", default="cpu", help="cpu (the default), cuda, or a target's name")
    parser.add_argument("--only", metavar="REGEX", help="workloads in whose names this is found")
    parser.add_argument("--peers", default=",".join(PEERS), help="of PyTorch: eager, compile (both by default)")
    parser.add_argument("--rounds", type=int, default=9, help="how often each is measured (9)")
    parser.add_argument("--threads", type=int, help="of the processor (all by default)")
    parser.add_argument("--seed", type=int, default=14, help="draws the random shapes and the arrays (14)")
    parser.add_argument("--list", action="store_true", help="print the names of the workloads and end")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="write JSON, Markdown and plots there")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    arguments = make_parser().parse_args(words)
    try:
        return _run(arguments, "blu bench " + shlex.join(words))
    except BluError as error:
        print_error(error, "blu bench")
        return 2 if isinstance(error, UsageError) else 1


def _run(arguments: argparse.Namespace, command: str) -> int:
    suites, peers = _chosen(arguments.suites, SUITES, "suite"), _chosen(arguments.peers.split(","), PEERS, "peer")
    if arguments.rounds < 1:
        raise UsageError(f"--rounds {arguments.rounds}: each is measured at least once")
    target = resolve_target_name(arguments.target)
    on_gpu = target in GPU_NAMES
    workloads = _workloads(arguments, suites, on_gpu)
    if arguments.list:
        print("\n".join(f"{suite}: {workload.name}" for suite in workloads for workload in workloads[suite]))
        return 0
    torch = _torch(on_gpu)
    threads = _share_threads(torch, arguments.threads)
    clock = CudaClock(torch) if on_gpu else HostClock()
    bench = Bench(torch, target, clock, peers, arguments.rounds, arguments.seed)
    bound = measure_bound(torch, clock, target, threads)
    results = {suite: _measured(bench, bound, chosen) for suite, chosen in workloads.items()}
    return _report(arguments, results, _about(command, arguments, bound, machine(torch, target, threads)), target)


def _workloads(arguments: argparse.Namespace, suites: Sequence[str], on_gpu: bool) -> dict[str, list[Workload]]:
    """Of each suite those that are asked for; suites without one are left out."""
    try:
        pattern = re.compile(arguments.only or "")
    except re.error as error:
        raise UsageError(f"--only '{arguments.only}' is no regular expression: {error}") from None
    found = {suite: [w for w in SUITES[suite](on_gpu, arguments.seed) if pattern.search(w.name)] for suite in suites}
    if not any(found.values()):
        raise UsageError(f"no workload is called '{arguments.only}'", advice="`--list` prints their names")
    return {suite: workloads for suite, workloads in found.items() if workloads}


def _chosen(words: Sequence[str], known: Sequence[str] | dict[str, Any], what: str) -> list[str]:
    for word in words:
        if word and word not in known:
            raise UsageError(f"there is no {what} '{word}'", advice=suggestion(word, list(known)) or ", ".join(known))
    return [word for word in words if word] or (list(known) if what == "suite" else [])


def _torch(on_gpu: bool) -> Any:
    try:
        import torch
    except ImportError:
        raise UnsupportedError(
            "PyTorch is not installed", advice="pip install 'blu[bench]': it is the peer, and draws the arrays"
        ) from None
    if on_gpu and not torch.cuda.is_available():
        raise UnsupportedError(
            "PyTorch finds no GPU", advice="install a build of PyTorch with CUDA, or use --target cpu"
        )
    return torch


def _share_threads(torch: Any, threads: int | None) -> int:
    """Let both sides use as many threads; how many."""
    if threads is not None:
        set_threads(threads)
    count = default_threads()
    torch.set_num_threads(count)
    return count


def _measured(bench: Bench, bound: Bound, workloads: Sequence[Workload]) -> list[Measurement]:
    found = []
    for number, workload in enumerate(workloads, 1):
        print(f"[{number}/{len(workloads)}] {workload.name}", file=sys.stderr, flush=True)
        found.append(bench.measure(workload, bound.microseconds(workload)))
    return found


def _about(command: str, arguments: argparse.Namespace, bound: Bound, where: dict[str, Any]) -> dict[str, Any]:
    rates = {"bytes per second": bound.bytes_per_second, "flops per second": bound.flops_per_second}
    return {"command": command, "seed": arguments.seed, "rounds": arguments.rounds, "machine": where, "bound": rates}


def _report(arguments: argparse.Namespace, results: Results, about: dict[str, Any], target: str) -> int:
    print(as_markdown(results), end="")
    for suite, peers in summary(results).items():
        for peer, found in peers.items():
            print(f"{suite} vs {peer}: {found['geometric mean']:.2f} on average, {found['smallest']:.2f} at least")
    if arguments.save:
        for path in save(arguments.save, results, about, target):
            print(path)
    return 1 if any(item.problem for measured in results.values() for item in measured) else 0
