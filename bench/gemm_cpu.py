"""Matrix products on the CPU against PyTorch and against the machine's own peak, in one process, in alternating rounds.

    python bench/gemm_cpu.py [--threads N] [--rounds N] [--save NAME]

The peak is measured in every round too: independent chains of fused multiply-adds in registers, on every thread.
Random data, f32. Each figure is the best of the rounds, for all three alike: what else runs on a shared machine only
ever takes time. The medians stand beside them.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from gpt2_cpu import describe_machine, report

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
REPEATS = 500_000


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


class Peak:
    """GFLOP/s of multiply-adds in registers, on `threads` threads."""

    def __init__(self, threads: int):
        from blu.compiler.target import host_target_name
        from blu.dialects.targets.cpu import CPU_TARGETS

        self.lanes = CPU_TARGETS[host_target_name()].lanes(4)
        self.threads = threads
        self.run, self.engine = peak_kernel(self.lanes)

    def measure(self) -> float:
        workers = [threading.Thread(target=self.run, args=(REPEATS,)) for _ in range(self.threads)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return 2 * self.lanes * CHAINS * REPEATS * self.threads / (time.perf_counter() - start) / 1e9


def measure_shape(shape: tuple[int, int, int, bool], rounds: int, peak: Peak) -> dict[str, Any]:
    import torch

    import blu
    from blu.runtime.host import set_threads

    torch.set_num_threads(peak.threads)
    set_threads(peak.threads)
    m, k, n, transposed = shape
    torch.manual_seed(0)
    # Both libraries align what they allocate to cache lines, as NumPy does not.
    a = torch.randn(m, k).numpy()
    b = torch.randn((n, k) if transposed else (k, n)).numpy()
    product = blu.jit(lambda a, b: a @ (b.T if transposed else b), name="product").trace(a, b).compile().program
    left, right = torch.from_numpy(a), torch.from_numpy(b)
    right = right.T if transposed else right
    out = torch.empty(m, n)
    result = torch.empty(m, n).numpy()
    sides = {"torch": lambda: torch.mm(left, right, out=out), "blu": lambda: product.run([a, b], outputs=[result])}
    times: dict[str, list[float]] = {name: [] for name in sides}
    peaks = []
    for number in range(rounds + 1):
        peaks.append(peak.measure())
        for name, side in sides.items():
            time.sleep(0.01)  # PyTorch's threads spin for a while after a call
            side()
            start = time.perf_counter()
            side()
            if number:
                times[name].append(time.perf_counter() - start)
    error = float(np.abs(result - out.numpy()).max())
    work = 2 * m * k * n / 1e9
    best = {name: work / min(values) for name, values in times.items()}
    medians = {name: work / statistics.median(values) for name, values in times.items()}
    return {
        "shape": [m, k, n],
        "transposed": transposed,
        **best,
        "ratio": best["blu"] / best["torch"],
        "peak": max(peaks),
        "medians": medians | {"peak": statistics.median(peaks)},
        "error": error,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--save", metavar="NAME")
    arguments = parser.parse_args()
    measure = Peak(arguments.threads)
    rows = [measure_shape(shape, arguments.rounds, measure) for shape in SHAPES]
    peak = max(row["peak"] for row in rows)
    for row in rows:
        row["fraction of peak"] = {side: row[side] / peak for side in ("torch", "blu")}
    result = {
        "command": " ".join(["python", *sys.argv]),
        "threads": arguments.threads,
        "peak GFLOP/s": peak,
        "unit": "GFLOP/s",
        "machine": describe_machine(),
        "shapes": rows,
    }
    report(result, arguments.save)


if __name__ == "__main__":
    main()
