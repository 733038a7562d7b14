"""All-reduce of a compiled program beside NCCL's own, and what it costs beside matrix products. One process per GPU.

    torchrun --nproc-per-node 2 bench/collectives_gpu.py sizes [--save FILE]
    BLU_NCCL_MAX_CTAS=8 torchrun --nproc-per-node 2 bench/collectives_gpu.py overlap [--save FILE]

`sizes`: an all-reduce of f32, eight in a row, as one graph of Blu's and as one of PyTorch's with `torch.distributed`
(and launched one by one by PyTorch), interleaved, by CUDA events. GB/s are bus bandwidth, 2 (n - 1) / n of the bytes by
the time. `overlap`: products of 8192 x 8192 in bf16, and a softmax of 4 GB, beside all-reduces of 100 MB, one after the
other and at the same time; the variable is how many blocks NCCL may have. Figures are medians, of rank 0; `--save` adds
them to the file.
Needs PyTorch, nccl4py, and Blu with its compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import checkout  # noqa: F401

from bench.gpu.report import command_line, describe

MEGABYTES = (1, 5, 10, 25, 50, 100, 400)
IN_A_ROW = 8
SIDE = 8192
PRODUCTS = 4
ROWS, COLUMNS = 262144, 4096
ROUNDS = 15
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

Call = Callable[[], Any]


def compiled(function: Any, *specs: Any) -> dict[str, bytes]:
    """The members of a program for this GPU and all ranks."""
    import blu

    return blu.jit(function, mesh=blu.Mesh(dp=RANKS)).trace(*specs).compile("cuda").executable


def in_turn(members: dict[str, bytes]) -> dict[str, bytes]:
    """The same program, in which nothing runs beside a collective."""
    plan = json.loads(members["plan.json"])
    for item in plan["collectives"]:
        item["wait"] = item["start"]
    kept = {name: data for name, data in members.items() if name != "manifest.json"}  # which has the plan's hash
    return {**kept, "plan.json": json.dumps(plan).encode()}


def milliseconds(torch: Any, calls: dict[str, Call], stream: Any) -> dict[str, float]:
    """The median time of each of several calls, which take turns."""
    import torch.distributed as distributed

    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(ROUNDS + 3):
        for name, call in calls.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            distributed.barrier()
            torch.cuda.synchronize()
            with torch.cuda.stream(stream):
                torch.cuda._sleep(1_000_000)  # so that the host is ahead
                start.record()
                call()
                end.record()
            torch.cuda.synchronize()
            if turn >= 3:
                times[name].append(start.elapsed_time(end))
    return {name: statistics.median(found) for name, found in times.items()}


def torch_graph(torch: Any, x: Any) -> Call:
    """PyTorch's all-reduces, in place, as a CUDA graph."""
    import torch.distributed as distributed

    distributed.all_reduce(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(IN_A_ROW):
            distributed.all_reduce(x)
    return graph.replay


def sizes(torch: Any, stream: Any) -> list[dict[str, Any]]:
    """Bandwidths by size."""
    import torch.distributed as distributed

    import blu
    from blu.runtime import load_program

    def chain(x: Any) -> Any:
        for _ in range(IN_A_ROW):
            x = blu.all_reduce(x, "dp")
        return x

    found = []
    for megabytes in MEGABYTES:
        count = megabytes * 1_000_000 // 4
        program = load_program(compiled(chain, blu.spec((count,))))
        x = torch.full((count,), 1.0, device="cuda")
        kept = program.keep([x])
        result = program.run(kept)
        assert float(torch.from_dlpack(result[0]).sub(RANKS**IN_A_ROW).abs().max()) == 0.0
        zeros = torch.zeros(count, device="cuda")

        def one_by_one(zeros: Any = zeros) -> None:
            for _ in range(IN_A_ROW):
                distributed.all_reduce(zeros)

        def ours(program: Any = program, kept: Any = kept, result: Any = result) -> None:
            program.run(kept, outputs=result)

        calls = {"blu": ours, "torch, graph": torch_graph(torch, zeros), "torch": one_by_one}
        times = milliseconds(torch, calls, stream)
        moved = IN_A_ROW * 2 * (RANKS - 1) / RANKS * count * 4 / 1e6
        row: dict[str, Any] = {"megabytes": megabytes}
        row |= {f"{name}, us": round(1e3 * time / IN_A_ROW, 1) for name, time in times.items()}
        row |= {f"{name}, GB/s": round(moved / time, 1) for name, time in times.items()}
        found.append({**row, "blu / torch, graph": round(times["torch, graph"] / times["blu"], 3)})
        say(found[-1])
        program.close()
    return found


def products(x: Any, w: Any) -> Any:
    """Bound by arithmetic, in kernels whose blocks take all multiprocessors."""
    for _ in range(PRODUCTS):
        x = x @ w
    return x


def rows(x: Any) -> Any:
    """Bound by memory, in a kernel of many short blocks."""
    import blu

    return blu.softmax(x)


def overlap(torch: Any, stream: Any) -> dict[str, Any]:
    """Milliseconds of kernels and of all-reduces, alone, one after the other, and at the same time."""
    x = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16) / SIDE**0.5
    long = torch.randn(ROWS, COLUMNS, device="cuda")
    found: dict[str, Any] = {"max_ctas": int(os.environ.get("BLU_NCCL_MAX_CTAS", "0"))}
    for name, function, operands in (("products", products, [x, w]), ("rows", rows, [long])):
        for number in (1, 4):
            key = f"{name} and {number} x 100 MB"
            found[key] = milliseconds(torch, overlapped(torch, function, operands, number), stream)
    found = {key: _rounded(value) if isinstance(value, dict) else value for key, value in found.items()}
    say(found)
    return found


def overlapped(torch: Any, function: Callable[..., Any], operands: list[Any], number: int) -> dict[str, Call]:
    """What is compared: a function of the operands and so many all-reduces."""
    import blu

    def exchange(*gradients: Any) -> Any:
        return [blu.all_reduce(item, "dp") for item in gradients]

    def both(*arrays: Any) -> Any:
        # In this order: kernels that come before a collective are before it.
        return exchange(*arrays[number_of_operands:]), function(*arrays[:number_of_operands])

    number_of_operands = len(operands)
    gradients = [torch.zeros(25_000_000, device="cuda") for _ in range(number)]
    together = [*operands, *gradients]
    members = compiled(both, *map(_spec_of, together))
    return {
        "kernels": _call(compiled(function, *map(_spec_of, operands)), operands),
        "all-reduces": _call(compiled(exchange, *map(_spec_of, gradients)), gradients),
        "in turn": _call(in_turn(members), together),
        "at once": _call(members, together),
    }


def _spec_of(tensor: Any) -> Any:
    import blu

    return blu.spec(tuple(tensor.shape), "bf16" if tensor.element_size() == 2 else "f32")


def _call(members: dict[str, bytes], arguments: list[Any]) -> Call:
    """Runs a program again and again on the same arrays."""
    from blu.runtime import load_program

    program = load_program(members)
    kept = program.keep(arguments)
    results = program.run(kept)
    return lambda: program.run(kept, outputs=results)


def _rounded(times: dict[str, float]) -> dict[str, float]:
    return {name: round(time, 3) for name, time in times.items()}


def say(found: Any) -> None:
    """Print what rank 0 has found."""
    if RANK == 0:
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Measure on all ranks; rank 0 reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["sizes", "overlap"])
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    import torch
    import torch.distributed as distributed

    from blu.runtime.cuda.driver.driver import default_driver

    torch.cuda.set_device(default_driver().number)
    # Blu's ranks meet at the port that the environment says, or the one after that.
    meeting = f"tcp://{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + 2}"
    device = torch.device("cuda", default_driver().number)
    distributed.init_process_group("nccl", init_method=meeting, rank=RANK, world_size=RANKS, device_id=device)
    stream = torch.cuda.ExternalStream(default_driver().stream)
    measured = {"sizes": sizes, "overlap": overlap}[options.what](torch, stream)
    if options.save is not None and RANK == 0:
        report = json.loads(options.save.read_text()) if options.save.exists() else {}
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
        command = command_line().replace("python", f"torchrun --nproc-per-node {RANKS}", 1)
        report |= {"command": command, "gpus": RANKS, **describe(torch), "nccl": nccl}
        if options.what == "sizes":
            report["sizes"] = measured
        else:
            report.setdefault("overlap", []).append(measured)
        options.save.write_text(json.dumps(report, indent=1) + "\n")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
