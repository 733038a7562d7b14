"""Kernels that are bound by memory: rows that are normalized, summed, compared with targets, or changed by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blu.compiler.bench.workload import RandomArray, Workload
from blu.frontend.functional import functional
from blu.frontend.transform import value_and_grad

ON_GPUS = {"block": (16384, 768), "wide": (16384, 3072), "classes": (8192, 50304), "few": (100, 50257)}
ON_PROCESSORS = {"block": (1024, 768), "wide": (1024, 3072), "classes": (64, 50304), "few": (10, 50257)}


def workloads(on_gpu: bool, seed: int) -> list[Workload]:
    """LayerNorm, softmax, GELU, sums, cross-entropy."""
    del seed
    shapes = ON_GPUS if on_gpu else ON_PROCESSORS
    layer_norm = _layer_norm(*shapes["block"])
    return [
        layer_norm,
        layer_norm.with_gradients(1, 0, 1, 2),
        _of_one("softmax", shapes["block"], 2, lambda x: functional.softmax(x), lambda torch, x: torch.softmax(x, -1)),
        _of_one("softmax", shapes["few"], 2, lambda x: functional.softmax(x), lambda torch, x: torch.softmax(x, -1)),
        _of_one("GELU", shapes["wide"], 2, lambda x: functional.gelu(x, approximate="tanh"),
                lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh")),
        _of_one("sum of rows", shapes["block"], 1, lambda x: functional.sum(x, axis=1),
                lambda torch, x: torch.sum(x, 1)),
        _of_one("sum of columns", shapes["block"], 1, lambda x: functional.sum(x, axis=0),
                lambda torch, x: torch.sum(x, 0)),
        _cross_entropy(*shapes["classes"]),
        _cross_entropy_and_gradient(*shapes["classes"]),
    ]  # fmt: skip


def _of_one(
    name: str, shape: tuple[int, int], passes: int, ours: Callable[..., Any], theirs: Callable[..., Any]
) -> Workload:
    """A function of one array, that must be read, and written where `passes` is 2."""
    operand = RandomArray(shape)
    return Workload(f"{name} {shape[0]}x{shape[1]}", (operand,), ours, theirs, 0, passes * operand.nbytes)


def _layer_norm(rows: int, columns: int) -> Workload:
    operands = (RandomArray((rows, columns)), RandomArray((columns,)), RandomArray((columns,)))

    def theirs(torch: Any, x: Any, weight: Any, bias: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (columns,), weight, bias)

    name = f"LayerNorm {rows}x{columns}"
    return Workload(name, operands, functional.layer_norm, theirs, 0, 2 * operands[0].nbytes)


def _cross_entropy(rows: int, classes: int) -> Workload:
    operands = (RandomArray((rows, classes)), RandomArray((rows,), "i32", classes))
    return Workload(
        f"cross-entropy {rows}x{classes}", operands, functional.cross_entropy, _torch_cross_entropy, 0,
        operands[0].nbytes,
    )  # fmt: skip


def _torch_cross_entropy(torch: Any, logits: Any, targets: Any) -> Any:
    return torch.nn.functional.cross_entropy(logits, targets.long())


def _cross_entropy_and_gradient(rows: int, classes: int) -> Workload:
    plain = _cross_entropy(rows, classes)

    def theirs(torch: Any, logits: Any, targets: Any) -> Any:
        logits = logits.detach().requires_grad_()
        loss = _torch_cross_entropy(torch, logits, targets)
        return loss.detach(), *torch.autograd.grad(loss, logits)

    ours = value_and_grad(functional.cross_entropy)
    return Workload(f"{plain.name}, gradient", plain.operands, ours, theirs, 0, 2 * plain.nbytes)
