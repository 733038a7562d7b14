"""Matrix products on the CPU against PyTorch and against the machine's own peak, in one process, in alternating rounds.

    python bench/gemm_cpu.py [--threads N] [--rounds N] [--save NAME]

The peak is measured here: independent chains of fused multiply-adds in registers, on every thread. Random data, f32;
medians over rounds.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gpt2_cpu import describe_machine

# rows x depth x columns; the last entry says whether the right operand is given transposed
SHAPES = (
    (128, 768, 2304, False),
    (128, 768, 768, False),
    (128, 768, 3072, False),
    (128, 3072, 768, False),
    (128, 768, 50257, True),
    (64, 768, 2304, False),
    (16, 768, 3072, False),
    (1024, 1024, 1024, False),
)
CHAINS = 16
REPEATS = 2_000_000


def peak_kernel(lanes: int) -> tuple[Callable[[int], None], Any]:
    """A function that runs `count` rounds of `CHAINS` independent vector multiply-adds."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    vector = f"<{lanes} x float>"
    loop = [f"  %a{i} = phi {vector} [ zeroinitializer, %entry ], [ %n{i}, %loop ]" for i in range(CHAINS)]
    steps = [
        f"  %n{i} = call {vector} @llvm.fma.v{lanes}f32({vector} %x, {vector} %x, {vector} %a{i})"
        for i in range(CHAINS)
    ]
    sums = [f"  %s0 = fadd {vector} %n0, %n1"]
    sums += [f"  %s{i} = fadd {vector} %s{i - 1}, %n{i + 1}" for i in range(1, CHAINS - 1)]
    text = "\n".join(
        [
            f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})",
            "define void @peak(i64 %count, ptr %out) {",
            "entry:",
            f"  %x = load {vector}, ptr %out, align 4",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *loop,
            *steps,
            "  %next = add i64 %i, 1",
            "  %more = icmp ult i64 %next, %count",
            "  br i1 %more, label %loop, label %done",
            "done:",
            *sums,
            f"  store {vector} %s{CHAINS - 2}, ptr %out, align 4",
            "  ret void",
            "}",
        ]
    )
    features = llvm.get_host_cpu_features().flatten() + ",-prefer-256-bit"
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=2
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(engine.get_function_address("peak"))

    def run(count: int) -> None:
        memory = np.zeros(lanes, np.float32)
        function(count, memory.ctypes.data)

    return run, engine


def measure_peak(threads: int) -> float:
    """GFLOP/s of multiply-adds in registers, best of a few tries."""
    from blu.compiler.target import host_target_name
    from blu.dialects.target import CPU_TARGETS

    lanes = CPU_TARGETS[host_target_name()].lanes(4)
    run, engine = peak_kernel(lanes)
    best = 0.0
    for _ in range(5):
        workers = [threading.Thread(target=run, args=(REPEATS,)) for _ in range(threads)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds = time.perf_counter() - start
        best = max(best, 2 * lanes * CHAINS * REPEATS * threads / seconds / 1e9)
    del engine
    return best


def measure_shape(shape: tuple[int, int, int, bool], rounds: int, threads: int) -> dict[str, Any]:
    import torch

    import blu
    from blu.runtime.host import set_threads

    torch.set_num_threads(threads)
    set_threads(threads)
    m, k, n, transposed = shape
    rng = np.random.default_rng(0)
    a = rng.standard_normal((m, k), np.float32)
    b = rng.standard_normal((n, k) if transposed else (k, n), np.float32)
    product = blu.jit(lambda a, b: a @ (b.T if transposed else b), name="product").trace(a, b).compile().program
    left, right = torch.from_numpy(a), torch.from_numpy(b)
    right = right.T if transposed else right
    out = torch.empty(m, n)
    result = np.empty((m, n), np.float32)
    sides = {"torch": lambda: torch.mm(left, right, out=out), "blu": lambda: product.run([a, b], outputs=[result])}
    times: dict[str, list[float]] = {name: [] for name in sides}
    inner = max(1, int(2e9 / (2 * m * k * n)))
    for number in range(rounds + 1):
        for name, side in sides.items():
            time.sleep(0.02)  # PyTorch's threads spin for a while after a call
            side()
            start = time.perf_counter()
            for _ in range(inner):
                side()
            if number:
                times[name].append((time.perf_counter() - start) / inner)
    error = float(np.abs(result - out.numpy()).max())
    rates = {name: 2 * m * k * n / statistics.median(values) / 1e9 for name, values in times.items()}
    ratio = rates["blu"] / rates["torch"]
    return {"shape": [m, k, n], "transposed": transposed, **rates, "ratio": ratio, "error": error}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--save", metavar="NAME")
    arguments = parser.parse_args()
    peak = measure_peak(arguments.threads)
    rows = [measure_shape(shape, arguments.rounds, arguments.threads) for shape in SHAPES]
    peak = max(peak, measure_peak(arguments.threads))
    for row in rows:
        row["fraction of peak"] = row["blu"] / peak
    result = {
        "command": " ".join(["python", *sys.argv]),
        "threads": arguments.threads,
        "peak GFLOP/s": peak,
        "unit": "GFLOP/s",
        "machine": describe_machine(),
        "shapes": rows,
    }
    text = json.dumps(result, indent=1)
    print(text)
    if arguments.save:
        (Path(__file__).parent / "results" / f"{arguments.save}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
