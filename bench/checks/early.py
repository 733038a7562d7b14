"""Programs of one kernel that begin before what the GPU was given before is over, beside whatever that may be.

    python bench/checks/early.py --pack                # compile (no GPU needed), into .gpu/early
    python bench/checks/early.py [--save FILE]         # on the GPU machine

Each situation runs twice: with the kernels as they are, whose numbers must be exactly right, and with the kernels
whose wait is left out, which is to be noticed at least where such programs follow each other. PyTorch must be there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))

import checkout
import numpy as np

from bench.gpu.report import command_line, describe
from blu.runtime.artifact import Artifact, write_artifact

FOLDER = Path(checkout.ROOT, ".gpu", "early")
ROWS, COLUMNS, STEPS = 1056, 512, 40
BUSY_CLOCKS = 60_000_000
WAIT = b"griddepcontrol.wait;"
BROKEN = " without its wait"
MUST_NOTICE = ("one after the other", "into two arrays", "in place", "behind a graph", "before a graph")


def pack() -> None:
    """Compile the programs, each with its wait and without."""
    import blu

    x = blu.spec((ROWS, COLUMNS), "i32")
    # Blocks begin with the rows that the program before has written last.
    functions = {
        "turned": (lambda x: x[::-1] + 1, ()),
        "in place": (lambda x: x + 1, ("x",)),
        "sums": (lambda x: blu.sum(x, axis=0), ()),
        "graph": (lambda x: blu.cumsum(blu.cumsum(x, axis=0), axis=1).astype("i32"), ()),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (function, donate) in functions.items():
        compiled = blu.jit(function, donate=donate).trace(x).compile("sm_90a")
        compiled.save(FOLDER / f"{name}.blu")
        _save_broken(name, compiled.details)


def _save_broken(name: str, details: dict[str, Any]) -> None:
    """Write a program anew without waits, and without machine code: the driver makes that."""
    artifact = Artifact.open(FOLDER / f"{name}.blu")
    members = {item: artifact.read(item) for item in artifact.names() if not item.endswith(".cubin")}
    texts = {item: data.replace(WAIT, b"") for item, data in members.items() if item.endswith(".ptx")}
    write_artifact(FOLDER / f"{name}{BROKEN}.blu", {**members, **texts}, details)


@dataclass(frozen=True)
class Programs:
    """Those that are packed, and PyTorch; `ending` tells which of them begin too early."""

    torch: Any
    ending: str

    def __getitem__(self, name: str) -> Any:
        """One that has run, so that its code is there, and a GPU that is busy until the host is far ahead."""
        from blu.runtime.cuda import CudaProgram
        from blu.runtime.cuda.driver.driver import default_driver

        ending, torch = "" if name == "graph" else self.ending, self.torch
        program = CudaProgram.load(FOLDER / f"{name}{ending}.blu")
        for _ in range(2):
            program.run([np.zeros((ROWS, COLUMNS), np.int32)])
        with torch.cuda.stream(torch.cuda.ExternalStream(default_driver().stream)):
            torch.cuda._sleep(BUSY_CLOCKS)
        return program

    def zeros(self) -> Any:
        """An argument, of PyTorch's."""
        return self.torch.zeros((ROWS, COLUMNS), dtype=self.torch.int32, device="cuda")


def _follow(programs: Programs) -> tuple[Any, Any]:
    """Each program has the result of the one before, in memory that was given back."""
    from blu.runtime.cuda import to_device

    x = to_device(np.zeros((ROWS, COLUMNS), np.int32))
    turned = programs["turned"]
    for _ in range(STEPS):
        [x] = turned.run([x])
    return x.numpy(), STEPS


def _two_arrays(programs: Programs) -> tuple[Any, Any]:
    """Two arrays in turns: one is read while the other one is written."""
    from blu.runtime.cuda import to_device

    x, y = (to_device(np.zeros((ROWS, COLUMNS), np.int32)) for _ in range(2))
    turned = programs["turned"]
    for _ in range(STEPS):
        turned.run([x], outputs=[y])
        x, y = y, x
    return x.numpy(), STEPS


def _in_place(programs: Programs) -> tuple[Any, Any]:
    """A donated array."""
    from blu.runtime.cuda import to_device

    x = to_device(np.zeros((ROWS, COLUMNS), np.int32))
    program = programs["in place"]
    for _ in range(STEPS):
        program.run([x], overwrite=True)
    return x.numpy(), STEPS


def _copies(programs: Programs) -> tuple[Any, Any]:
    """Arguments that come from the host, each behind a program that reads the one before."""
    turned, found = programs["turned"], []
    for number in range(STEPS):
        [y] = turned.run([np.full((ROWS, COLUMNS), number, np.int32)])
        found.append(y)
    return np.stack([y.numpy() for y in found]), np.arange(1, STEPS + 1)[:, None, None]


def _behind_graph(programs: Programs) -> tuple[Any, Any]:
    """A program of several kernels, then one of one that reads its result, then another such one."""
    from blu.runtime.cuda import to_device

    x, found = to_device(np.ones((ROWS, COLUMNS), np.int32)), []
    graph, turned = programs["graph"], programs["turned"]
    for _ in range(STEPS):
        [y] = graph.run([x])
        [y] = turned.run([y])
        [y] = turned.run([y])
        found.append(y)
    expected = 2 + np.outer(np.arange(1, ROWS + 1), np.arange(1, COLUMNS + 1))
    return np.stack([y.numpy() for y in found]), expected


def _before_graph(programs: Programs) -> tuple[Any, Any]:
    """Two programs of one kernel, then one of several that reads what they have made."""
    from blu.runtime.cuda import to_device

    ones, found = to_device(np.full((ROWS, COLUMNS), -1, np.int32)), []
    graph, turned = programs["graph"], programs["turned"]
    for _ in range(STEPS):
        [x] = turned.run([ones])
        [x] = turned.run([x])
        found += graph.run([x])
    expected = np.outer(np.arange(1, ROWS + 1), np.arange(1, COLUMNS + 1))
    return np.stack([y.numpy() for y in found]), expected


def _torch_between(programs: Programs) -> tuple[Any, Any]:
    """PyTorch's kernels on its current stream, whichever that is: they write what is read, and read what is written."""
    x, total, slow = programs.zeros(), 0, programs.torch.ones((4096, 4096), device="cuda")
    turned, sums = programs["turned"], programs["sums"]
    for _ in range(STEPS):
        slow = slow @ slow * 2.0**-12
        x.add_(1)
        [y] = turned.run([x])
        x = programs.torch.from_dlpack(y)
        [s] = sums.run([x])
        total = programs.torch.from_dlpack(s) + total
        x = x.mul(1)
    return np.concatenate([x.cpu().numpy(), total[None].cpu().numpy()]), _torch_expected()


def _torch_expected() -> np.ndarray:
    last = np.full((ROWS, COLUMNS), 2 * STEPS)
    return np.concatenate([last, np.full((1, COLUMNS), ROWS * STEPS * (STEPS + 1))])


def _own_stream(programs: Programs) -> tuple[Any, Any]:
    """The same on Blu's stream."""
    from blu.runtime.cuda.driver.driver import default_driver

    torch = programs.torch
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.ExternalStream(default_driver().stream)):
        found = _torch_between(programs)
    torch.cuda.synchronize()
    return found


def _other_stream(programs: Programs) -> tuple[Any, Any]:
    """The same on a stream that neither waits for others by itself."""
    torch = programs.torch
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        found = _torch_between(programs)
    torch.cuda.synchronize()
    return found


def _waited_for(programs: Programs) -> tuple[Any, Any]:
    """An event behind each program, on Blu's stream; another stream reads when it is reached."""
    from blu.runtime.cuda.driver.driver import default_driver

    torch, arrays, found = programs.torch, [programs.zeros(), programs.zeros()], []
    own, other = torch.cuda.ExternalStream(default_driver().stream), torch.cuda.Stream()
    torch.cuda.synchronize()
    turned = programs["turned"]
    for number in range(STEPS):
        with torch.cuda.stream(own):
            turned.run([arrays[number % 2]], outputs=[arrays[1 - number % 2]])
            other.wait_event(own.record_event())
        with torch.cuda.stream(other):
            found.append(arrays[1 - number % 2].clone())
            own.wait_event(other.record_event())
    torch.cuda.synchronize()
    return torch.stack(found).cpu().numpy(), np.arange(1, STEPS + 1)[:, None, None]


SITUATIONS: dict[str, Callable[[Programs], tuple[Any, Any]]] = {
    "one after the other": _follow,
    "into two arrays": _two_arrays,
    "in place": _in_place,
    "copies between": _copies,
    "behind a graph": _behind_graph,
    "before a graph": _before_graph,
    "PyTorch between, its default stream": _torch_between,
    "PyTorch between, Blu's stream": _own_stream,
    "PyTorch between, another stream": _other_stream,
    "events of another stream": _waited_for,
}
"""Each gives numbers, and what they must be."""


def check(torch: Any) -> Iterator[dict[str, Any]]:
    """What each situation has found."""
    for name, situation in SITUATIONS.items():
        wrong = [_wrong(*situation(Programs(torch, ending))) for ending in ("", BROKEN)]
        right = not wrong[0] and (wrong[1] > 0 or name not in MUST_NOTICE)
        yield {"situation": name, "wrong": wrong[0], "wrong without waits": wrong[1], "right": right}


def _wrong(found: np.ndarray, expected: Any) -> int:
    """How many numbers are not what they must be."""
    return int(np.count_nonzero(found != expected))


def main() -> int:
    """Pack or check; 1 where something is wrong, or no fault is noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", action="store_true", help="compile for sm_90a")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the report there")
    arguments = parser.parse_args()
    if arguments.pack:
        pack()
        return 0
    import torch

    rows = []
    for row in check(torch):
        rows.append(row)
        print(json.dumps(row), flush=True)
        if arguments.save:
            report = {"command": command_line(), "machine": describe(torch), "situations": rows}
            arguments.save.write_text(json.dumps(report, indent=1) + "\n")
    return int(not all(row["right"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
