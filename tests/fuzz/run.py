"""The processes of a long run: each takes the next programs, and reports a line of JSON for each."""

from __future__ import annotations

import argparse
import json
import os
import selectors
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.folders import ROOT

from .check import Outcome, check
from .generate import generate
from .programs import Program
from .reduce import reduced

PATIENCE = 120.0
"""Seconds that one program may take, cutting it down included."""


def program_of(seed: int) -> Program:
    """The program of a number: every third is a gradient."""
    return generate(seed, gradient=seed % 3 == 2)


def run_one(seed: int, target: str, interpret: bool, shorten: bool = True) -> dict[str, Any]:
    """What became of a program: {"seed": .., "kind": "", ..}."""
    try:
        program = program_of(seed)
    except Exception as error:  # the functions are called there
        return {"seed": seed, "kind": f"crash: {type(error).__name__}", "sentence": f"while drawing: {error}"}
    if not program.results:
        return {"seed": seed, "kind": "", "calls": []}
    outcome = check(program, target, interpret)
    if outcome and shorten:
        program, outcome = _shortened(program, outcome, target, interpret)
    found = {"seed": seed, "kind": outcome.kind, "calls": sorted({call.name for call in program.calls})}
    return found | ({"sentence": outcome.sentence, "program": program.text()} if outcome else {})


def _shortened(program: Program, outcome: Outcome, target: str, interpret: bool) -> tuple[Program, Outcome]:
    deadline = time.monotonic() + PATIENCE / 3

    def fails(smaller: Program) -> bool:
        return time.monotonic() < deadline and check(smaller, target, interpret).kind == outcome.kind

    shorter = reduced(program, fails)
    return shorter, check(shorter, target, interpret) or outcome


@dataclass
class Worker:
    """A process that runs programs, and which it has now."""

    process: subprocess.Popen
    seed: int = -1
    since: float = field(default_factory=time.monotonic)

    @classmethod
    def start(cls, words: list[str]) -> Worker:
        command = [sys.executable, "-m", "tests.fuzz", "--worker", *words]
        pipe = subprocess.PIPE
        return cls(subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True))

    def give(self, seed: int) -> None:
        self.seed, self.since = seed, time.monotonic()
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()


def work(target: str, interpret: bool) -> int:
    """In a process of its own: run the programs whose numbers come in."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed
    for line in sys.stdin:
        print(json.dumps(run_one(int(line), target, interpret)), file=answers, flush=True)
    return 0


class Run:
    """Programs from a number on, until a time or a count is over."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.words = ["--target", arguments.target, *(["--interpret"] if arguments.interpret else [])]
        self.next, self.done, self.failures = arguments.seed, 0, 0
        self.calls: dict[str, int] = {}
        self.end = time.monotonic() + arguments.seconds
        self.selector = selectors.DefaultSelector()

    def run(self) -> int:
        for _ in range(self.arguments.jobs):
            self._start()
        while self.selector.get_map():
            for key, _ in self.selector.select(timeout=1):
                self._receive(key.data)
            for key in list(self.selector.get_map().values()):
                if time.monotonic() - key.data.since > PATIENCE:
                    self._lose(key.data, f"took more than {PATIENCE:.0f} seconds")
        names = " ".join(f"{name}:{count}" for name, count in sorted(self.calls.items()))
        print(
            f"{self.done} programs from seed {self.arguments.seed} on {self.arguments.target}: {self.failures} failed"
        )
        print(f"calls: {names}")
        return int(self.failures > 0)

    def _start(self) -> None:
        if self._is_over():
            return
        worker = Worker.start(self.words)
        self.selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        self._give(worker)

    def _is_over(self) -> bool:
        return time.monotonic() > self.end or self.next >= self.arguments.seed + self.arguments.count

    def _give(self, worker: Worker) -> None:
        worker.give(self.next)
        self.next += 1

    def _receive(self, worker: Worker) -> None:
        line = worker.process.stdout.readline()
        if not line:
            self._lose(worker, f"ended with exit code {worker.process.wait()}")
            return
        self._report(json.loads(line))
        if self._is_over():
            self._stop(worker)
        else:
            self._give(worker)

    def _lose(self, worker: Worker, how: str) -> None:
        self._stop(worker)
        self._report({"seed": worker.seed, "kind": "lost", "sentence": f"the process {how}"})
        self._start()

    def _stop(self, worker: Worker) -> None:
        self.selector.unregister(worker.process.stdout)
        worker.process.kill()
        worker.process.wait()

    def _report(self, found: dict[str, Any]) -> None:
        self.done += 1
        for name in found.get("calls", ()):
            self.calls[name] = self.calls.get(name, 0) + 1
        if not found["kind"]:
            return
        self.failures += 1
        print(f"seed {found['seed']}: {found['kind']}: {found['sentence'][:600]}", flush=True)
        if "program" in found:
            print(Program.of_text(found["program"]).describe(), flush=True)
        if self.arguments.output:
            with self.arguments.output.open("a") as file:
                file.write(json.dumps(found) + "\n")


def main(description: str | None) -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        "tests.fuzz", description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--count", type=int, default=1 << 62, help="programs at most")
    parser.add_argument("--seed", type=int, default=0, help="the number of the first program")
    parser.add_argument("--target", default="cpu", help="cpu, cuda, or with --interpret sm_80, sm_89, sm_90a")
    parser.add_argument("--interpret", action="store_true", help="run PTX in the interpreter")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--output", type=Path, help="a file to which failures are added, a line of JSON each")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(arguments.target, arguments.interpret)
    return Run(arguments).run()
