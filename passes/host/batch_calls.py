"""The pass that lets equal calls that do not wait for each other run at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.plan import put_in_batch
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import family_of, is_kernel
from blu.passes.framework.kernels import callee_of, kernels_in, text_of
from blu.passes.host.host_steps import HostStep, HostSteps, bytes_of
from blu.plan.schema import MAX_GRID

_ROUNDS = 3


@dataclass(frozen=True)
class BatchCalls(Pass):
    """Calls of equal kernels are put side by side where none needs another's result, and get the number of a batch.

        %1 = call @rows_0(%w1)                                  %1 = call @rows_0(%w1) {blu.batch = 0}
        %2 = call @gemm_0(%x, %1)            becomes            %4 = call @rows_3(%w2) {blu.batch = 0}
        %4 = call @rows_3(%w2)                                  %2 = call @gemm_0(%x, %1)
        %5 = call @gemm_1(%2, %4)                               %5 = call @gemm_1(%2, %4)

    Later, calls of one batch become one launch. A batch stands as late as its first user lets it, or as early as its
    operands do, whichever keeps less in memory. The most memory that intermediate results take at any time may grow by
    `growth_percent` of what it was, or by `growth_bytes` if that is more: batches that would need more are made
    smaller. Calls that read and write more than `call_bytes` take long enough to be launched alone. What is written in
    place (donated arguments, updates) still is.
    """

    level = "linalg"
    growth_percent: int = 1
    growth_bytes: int = 1 << 20
    call_bytes: int = 256 << 20

    def run(self, module: ir.Module) -> None:
        kernels = kernels_in(module)
        for function in list(find(module, func.FuncOp)):
            if not is_kernel(function) and not function.is_external:
                steps = HostSteps(function, kernels)
                self._batch(steps, kernels)
                steps.part()

    def _batch(self, steps: HostSteps, kernels: dict[str, func.FuncOp]) -> None:
        most, _ = steps.memory()
        limit = most + max(most * self.growth_percent // 100, self.growth_bytes)
        number = 0
        keys = _mark_equal_calls(steps, kernels, self.call_bytes)
        # What is left alone since its users, or who makes its operands, stood too early or late may be together where
        # these have become batches: sums of ranges, their sum, and what is added to that.
        for key in keys * _ROUNDS:
            for batch in _batches(steps, key, limit):
                for operation in batch.operations:
                    put_in_batch(operation, number)
                number += 1
                self.count("calls in batches", len(batch.operations))
        self.count("batches", number)
        if number:
            steps.write()


def _mark_equal_calls(steps: HostSteps, kernels: dict[str, func.FuncOp], call_bytes: int) -> list[str]:
    """Give calls that may be in a batch the text of their kernel; the texts that several have, small ones first."""
    found: dict[str, list[HostStep]] = {}
    texts: dict[str, str] = {}
    for step in steps.order:
        [operation] = step.operations
        if operation.name != "func.call" or _bytes_moved(operation) > call_bytes:
            continue
        name = callee_of(operation)
        if family_of(kernels[name]).is_batched:
            if name not in texts:
                texts[name] = text_of(kernels[name])
            step.key = texts[name]
            found.setdefault(step.key, []).append(step)
    keys = [key for key, calls in found.items() if len(calls) > 1]
    return sorted(keys, key=lambda key: _bytes_moved(found[key][0].operations[0]))


def _bytes_moved(call: ir.Operation) -> int:
    return sum(bytes_of(value) for value in (*call.operands, *call.results))


def _batches(steps: HostSteps, key: str, limit: int) -> Iterator[HostStep]:
    """Make batches of the calls with this key, as large as they may be."""
    waiting = [step for step in steps.order if step.key == key]
    while len(waiting) > 1:
        end = len(steps.order)
        waiting.sort(key=lambda step: (step.latest(end), step.index))
        together = _independent(waiting, waiting[0].latest(end))[: MAX_GRID[2]]
        size, batch = _merge_some(steps, together, limit)
        waiting = [step for step in waiting if step not in together[:size]]
        if batch is not None:
            yield batch


def _independent(waiting: Sequence[HostStep], latest: int) -> list[HostStep]:
    """Those that can run just before the step of this index, of which the first must come before that."""
    found: list[HostStep] = []
    for step in waiting:
        if step.earliest < latest and step.needs.isdisjoint(found) and step.users.isdisjoint(found):
            found.append(step)
    return found


def _merge_some(steps: HostSteps, together: Sequence[HostStep], limit: int) -> tuple[int, HostStep | None]:
    """Merge as many of these calls as memory allows, half of them at a time less; how many are done with."""
    size, latest = len(together), together[0].latest(len(steps.order))
    while size > 1:
        members = sorted(together[:size], key=lambda step: step.index)
        earliest = max(step.earliest for step in members) + 1
        orders = [steps.reordered(members, before) for before in dict.fromkeys((latest, earliest))]
        (most, _), order = min(((steps.memory(order), order) for order in orders), key=lambda pair: pair[0])
        if most <= limit:
            return size, steps.merge(order, members)
        size //= 2
    return 1, None
