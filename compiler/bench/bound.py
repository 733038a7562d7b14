"""What a machine could do at best: the roofline that times are compared with."""

from __future__ import annotations

from typing import Any

from blu.compiler.bench.clocks import Clock
from blu.compiler.bench.workload import Workload
from blu.compiler.target import GPU_NAMES
from blu.compiler.training.arithmetic_peak import gpu_peak_flops, peak_flops
from blu.dataclass import dataclass

COPIED_BYTES = {True: 1 << 30, False: 1 << 27}


@dataclass(frozen=True)
class Bound:
    """Bytes per second that a copy reads and writes, measured, and arithmetic per second by units, where known."""

    bytes_per_second: float
    flops_per_second: dict[str, float | None]

    def microseconds(self, workload: Workload) -> float:
        """What a workload takes at least."""
        by_memory = workload.nbytes / self.bytes_per_second
        peak = self.flops_per_second.get(workload.units)
        return 1e6 * max(by_memory, workload.flops / peak if peak else 0.0)


def measure_bound(torch: Any, clock: Clock, target: str, threads: int) -> Bound:
    """Of the GPU that PyTorch uses, or of `threads` threads of this machine's processor."""
    on_gpu = target in GPU_NAMES
    source = torch.rand(COPIED_BYTES[on_gpu] // 8, device="cuda" if on_gpu else "cpu")
    destination = torch.empty_like(source)
    times = [clock.microseconds(lambda number: destination.copy_(source), 3) for _ in range(5)]
    rate = 2 * source.numel() * 4 / (1e-6 * min(times))
    if not on_gpu:
        return Bound(rate, {"f32": peak_flops(target, threads)})
    name = torch.cuda.get_device_name()
    return Bound(rate, {units: gpu_peak_flops(name, units) for units in ("bf16", "tf32", "f32")})
