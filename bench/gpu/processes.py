"""Cases in processes of their own, several at the same time: one that fails takes its process along, and no other."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from subprocess import PIPE, STDOUT
from typing import Any

TIME_LIMIT = 240
"""Seconds that a process may be silent: what one case may take."""
LOST = 3
"""The exit code of a process that has lost the GPU with a case that it has reported."""
FINDINGS = "lines of findings"
Found = dict[str, Any]


@dataclass(frozen=True)
class Runner:
    """`command --run NAME...` checks cases, a line of JSON each; up to `together` in one process, `jobs` processes.

    `report` is told of each case. Findings of compute-sanitizer may come when a process ends: where there are any, each
    of the process's cases is run again alone.
    """

    command: list[str]
    together: int = 1
    jobs: int = 1
    report: Callable[[Found], None] = lambda found: None

    def run(self, names: list[str]) -> list[Found]:
        """What is found out about all cases, in order."""
        batches = [names[first : first + self.together] for first in range(0, len(names), self.together)]
        with ThreadPoolExecutor(self.jobs) as pool:
            return [found for batch in pool.map(self._run_batch, batches) for found in batch]

    def _run_batch(self, names: list[str]) -> list[Found]:
        results: list[Found] = []
        while waiting := names[len(results) :]:
            results += run_process(waiting, self.command)
        if len(names) > 1 and any(FINDINGS in found["failure"] for found in results):
            results = [found for name in names for found in run_process([name], self.command)]
        for found in results:
            self.report(found)
        return results


def run_process(names: list[str], command: list[str]) -> Iterator[Found]:
    """What one process finds out about the first of these cases, at least one."""
    done, said, last = 0, [], {}
    with subprocess.Popen([*command, "--run", *names], stdout=PIPE, stderr=STDOUT) as process:
        for line in _lines(process):
            if not line.startswith("{"):
                said.append(line)
                continue
            if last:
                yield last
            last = {**json.loads(line), **findings_in(said)}
            done, before, said = done + 1, said, []
    if last:  # some findings come at the end
        yield {**last, **findings_in([*before, *said])}
    if not done or (done < len(names) and process.returncode != LOST):
        failure = f"the process ended with {process.returncode}: {' '.join(said[-3:])}"
        yield {"name": names[done], "failure": failure, **findings_in(said)}


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """The lines of a process, which is ended when it says nothing for too long."""
    assert process.stdout is not None
    timer = threading.Timer(TIME_LIMIT, process.kill)
    timer.start()
    for line in process.stdout:
        timer.cancel()
        timer = threading.Timer(TIME_LIMIT, process.kill)
        timer.start()
        yield line.decode(errors="replace").rstrip()
    timer.cancel()


def findings_in(said: list[str]) -> Found:
    """The first finding of compute-sanitizer among a process's other lines."""
    lines = [line.strip("= ") for line in said if line.startswith("=========")]
    nothing = ("COMPUTE-SANITIZER", "ERROR SUMMARY: 0", "RACECHECK SUMMARY: 0 hazards")
    found = [line for line in lines if line and not line.startswith(nothing)]
    return {"failure": f"{len(found)} {FINDINGS}: {' | '.join(found[:8])}"} if found else {}
