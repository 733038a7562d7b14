"""Attention, forward and with its gradients."""

from __future__ import annotations

from typing import Any

from blu.compiler.bench.workload import RandomArray, Workload
from blu.frontend.functional import functional

# batch, heads, positions, columns of a head, causal
ON_GPUS = (
    (64, 12, 1024, 64, True),
    (1, 16, 2048, 64, True),
    (16, 12, 1024, 80, True),
    (2, 16, 2048, 128, True),
    (2, 16, 2048, 128, False),
)
ON_PROCESSORS = ((1, 12, 256, 64, True), (1, 12, 257, 64, False), (1, 8, 256, 128, True))


def workloads(on_gpu: bool, seed: int) -> list[Workload]:
    """Forward, and forward with gradients, of each shape."""
    del seed
    kinds = ("bf16", "tf32", "f32") if on_gpu else ("f32",)
    shapes = ON_GPUS if on_gpu else ON_PROCESSORS
    forward = [attention(kind, *shape) for kind in kinds for shape in shapes]
    # Gradients take five products of blocks, where forward takes two.
    return [item for one in forward for item in (one, one.with_gradients(2.5, 0, 1, 2))]


def attention(kind: str, batch: int, heads: int, length: int, columns: int, causal: bool) -> Workload:
    """Self-attention of [batch, heads, length, columns]."""
    dtype = "f32" if kind == "tf32" else kind
    precision = "tf32" if kind == "tf32" else "highest"
    operand = RandomArray((batch, heads, length, columns), dtype)

    def ours(query: Any, key: Any, value: Any) -> Any:
        return functional.attention(query, key, value, causal=causal, precision=precision)

    def theirs(torch: Any, query: Any, key: Any, value: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)

    flops = 4 * batch * heads * length * length * columns // (2 if causal else 1)
    name = f"{kind} {batch}x{heads}x{length}x{columns}{' causal' if causal else ''}"
    return Workload(name, (operand,) * 3, ours, theirs, flops, 4 * operand.nbytes, kind)
