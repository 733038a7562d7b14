"""The order of a host program's steps: what each must wait for, and how much memory is alive at any time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blu.dataclass import dataclass, field
from blu.dialects.core.dtypes import tensor_type
from blu.dialects.core.mlir import func, ir
from blu.passes.framework.families import family_of
from blu.passes.framework.kernels import callee_of, is_host_step
from blu.passes.host.bufferize.kernels import updated_inputs
from blu.passes.host.pair_donations import pairs_of

# Ops that do something at their time. All others only rename or shape what is there.
_STEPS = ("func.call", "tensor.insert_slice", "linalg.fill", "plan.check", "func.return")


@dataclass(eq=False)
class HostStep:
    """What runs at one time: one op, or the calls of a batch. Equal calls have equal `key`s; others have none.

    `number` is its own, `index` its place in the order.
    """

    operations: list[ir.Operation]
    number: int
    key: str = ""
    index: int = 0
    needs: set[HostStep] = field(default_factory=set)
    users: set[HostStep] = field(default_factory=set)

    @property
    def earliest(self) -> int:
        """The index of the last step that this one must come after."""
        return max((step.index for step in self.needs), default=-1)

    def latest(self, end: int) -> int:
        """The index of the first step that this one must come before."""
        return min((step.index for step in self.users), default=end)


class HostSteps:
    """The steps of a host function over tensors, in an order that can be changed."""

    def __init__(self, function: func.FuncOp, kernels: dict[str, func.FuncOp]):
        self.function = function
        self._operations = [operation.operation for operation in function.entry_block.operations]
        self._sources: dict[ir.Value, frozenset[ir.Value]] = {}
        self._readers: dict[ir.Value, list[HostStep]] = {}
        self._maker: dict[ir.Value, HostStep] = {}
        self.order: list[HostStep] = []
        self._together: HostStep | None = None
        for operation in self._operations:
            self._read(operation, kernels)
        self._count = len(self.order)  # of steps that there have been
        self._set_order(self.order)
        self._keep_in_place()
        self._memory = _Memory(
            [
                _Life.of(value, step, self._readers.get(value, []), self._is_over(value, kernels))
                for value, step in self._maker.items()
            ]
        )

    def _read(self, operation: ir.Operation, kernels: dict[str, func.FuncOp]) -> None:
        found = frozenset[ir.Value]().union(*(self._sources_of(value) for value in operation.operands))
        if operation.name not in _STEPS and not is_host_step(operation.name):
            self._sources.update((result, found) for result in operation.results)
            return
        step, updated = HostStep([operation], len(self.order)), _updated(operation, kernels)
        changed = frozenset[ir.Value]().union(*map(self._sources_of, updated))
        for value in found:
            if value in self._maker:
                _let_wait(step, self._maker[value])
            if value in changed:
                for reader in self._readers.get(value, ()):
                    _let_wait(step, reader)
            self._readers.setdefault(value, []).append(step)
        self._maker.update((result, step) for result in operation.results)
        if is_host_step(operation.name):
            self._keep_in_turn(step)
        self.order.append(step)

    def _is_over(self, value: ir.Value, kernels: dict[str, func.FuncOp]) -> bool:
        """Whether a result may be written over an intermediate one that its kernel reads."""
        call = value.owner.operation
        if call.name != "func.call" or not family_of(kernels[callee_of(call)]).writes_over_elements:
            return False
        sources = [source for operand in call.operands for source in self._sources_of(operand)]
        return any(source in self._maker and source.type == value.type for source in sources)

    def _keep_in_turn(self, step: HostStep) -> None:
        """What ranks do together all of them do in one order: that of the program."""
        if self._together is not None:
            _let_wait(step, self._together)
        self._together = step

    def _sources_of(self, value: ir.Value) -> frozenset[ir.Value]:
        """The arguments and results of steps that are seen through views."""
        return self._sources.get(value, frozenset([value]))

    def _keep_in_place(self) -> None:
        """What reads a donated argument before its new value is made must stay before: that may be written over it."""
        function, returned = self.function, list(self._operations[-1].operands)
        arguments = list(function.entry_block.arguments)
        for result, argument in pairs_of(function).items():
            for source in self._sources_of(returned[result]):
                writer = self._maker.get(source)
                for reader in self._readers.get(arguments[argument], ()):
                    if writer is not None and reader.index < writer.index:
                        _let_wait(writer, reader)

    def _set_order(self, order: list[HostStep]) -> None:
        self.order, self._numbers = order, np.array([step.number for step in order], np.int64)
        for index, step in enumerate(order):
            step.index = index

    def reordered(self, members: Sequence[HostStep], before: int) -> Order:
        """The order with steps taken out and put, side by side, before the step of an index."""
        numbers = [step.number for step in members]
        head, tail = (part[~np.isin(part, numbers)] for part in (self._numbers[:before], self._numbers[before:]))
        return Order(head, np.array(numbers), tail)

    def memory(self, order: Order | None = None) -> tuple[int, int]:
        """The most bytes of intermediate results that are alive at once, and the sum of bytes over all steps."""
        return self._memory.measure(order or Order(self._numbers, np.zeros(0, np.int64), np.zeros(0, np.int64)))

    def merge(self, order: Order, members: Sequence[HostStep]) -> HostStep:
        """Take an order in which some steps stand side by side, and make one step of them."""
        known = {step.number: step for step in self.order}
        merged = self._merged(members)
        head, tail = ([known[number] for number in part.tolist()] for part in (order.head, order.tail))
        self._set_order([*head, merged, *tail])
        return merged

    def _merged(self, steps: Sequence[HostStep]) -> HostStep:
        merged = HostStep([operation for step in steps for operation in step.operations], self._count)
        self._count += 1
        for step in steps:
            for other in step.needs:
                other.users.discard(step)
                _let_wait(merged, other)
            for other in step.users:
                other.needs.discard(step)
                _let_wait(other, merged)
        self._memory.rename([step.number for step in steps], merged.number)
        return merged

    def write(self) -> None:
        """Put the ops of the function into this order; views go before the step that needs them first."""
        placed: set[ir.Operation] = set()
        order: list[ir.Operation] = []
        for step in self.order:
            for operation in step.operations:
                _place_views(operation, placed, order)
            order += step.operations
            placed.update(step.operations)
        rest = [operation for operation in self._operations[:-1] if operation not in placed]
        terminator = self._operations[-1]
        for operation in [*order[:-1], *rest]:
            operation.move_before(terminator)

    def part(self) -> None:
        """Let steps know each other no more: as a cycle, they would keep the context from whoever comes next."""
        for step in self.order:
            step.needs.clear()
            step.users.clear()


@dataclass(frozen=True)
class Order:
    """Numbers of steps: those before others that stand side by side, these, and those after them."""

    head: np.ndarray
    together: np.ndarray
    tail: np.ndarray


@dataclass(frozen=True)
class _Life:
    """A result's bytes, and the numbers of the steps that make and read it. One that `is_over` another begins to need
    memory of its own when the step that makes it is over, if that other one is still needed then."""

    size: int
    steps: list[int]
    is_over: bool
    is_returned: bool

    @classmethod
    def of(cls, value: ir.Value, maker: HostStep, readers: Sequence[HostStep], is_over: bool) -> _Life:
        """The life of a value."""
        is_returned = any(reader.operations[0].name == "func.return" for reader in readers)
        return cls(bytes_of(value), [step.number for step in (maker, *readers)], is_over, is_returned)


class _Memory:
    """When the results of steps are alive. Results of the program are not counted: they have memory of their own.

    A result lives from the first to the last of the steps that make or read it. These are one after the other in
    `_steps`, by number, those of a result from `_begin` on: all are looked at for every batch that is tried.
    """

    def __init__(self, lives: Sequence[_Life]):
        lives = [life for life in lives if not life.is_returned]
        self._sizes = np.array([life.size for life in lives], np.int64)
        self._steps = np.array([number for life in lives for number in life.steps], np.int64)
        self._begin = np.cumsum([0, *(len(life.steps) for life in lives)])[:-1]
        self._delay = np.array([life.is_over for life in lives], np.int64)

    def rename(self, steps: Sequence[int], merged: int) -> None:
        """From now on these steps are this one."""
        self._steps[np.isin(self._steps, steps)] = merged

    def measure(self, order: Order) -> tuple[int, int]:
        """The most bytes that are alive at once, and the sum over all times."""
        if not len(self._sizes):
            return 0, 0
        parts = (order.head, order.together, order.tail)
        times = np.zeros(1 + max(int(part.max()) for part in parts if len(part)), np.int64)
        times[order.head] = np.arange(len(order.head))
        times[order.together] = len(order.head)
        times[order.tail] = len(order.head) + bool(len(order.together)) + np.arange(len(order.tail))
        places = times[self._steps]
        change = np.zeros(len(times) + 1, np.int64)
        np.add.at(change, np.minimum.reduceat(places, self._begin) + self._delay, self._sizes)
        np.subtract.at(change, np.maximum.reduceat(places, self._begin) + 1, self._sizes)
        alive = np.cumsum(change)
        return int(alive.max()), int(alive.sum())


def _let_wait(step: HostStep, other: HostStep) -> None:
    if step is not other:
        step.needs.add(other)
        other.users.add(step)


def _updated(operation: ir.Operation, kernels: dict[str, func.FuncOp]) -> list[ir.Value]:
    """The operands that a step writes into, if its results are placed where those lie."""
    if operation.name == "tensor.insert_slice":
        return [operation.operands[1]]
    if operation.name != "func.call":
        return []
    numbers = updated_inputs(kernels[callee_of(operation)])
    return [operation.operands[number] for number in numbers]


def _place_views(operation: ir.Operation, placed: set[ir.Operation], order: list[ir.Operation]) -> None:
    """Put what an op reads, and is no step, before it."""
    waiting = [operation]
    while waiting:
        owners = [value.owner for value in waiting[-1].operands if not isinstance(value.owner, ir.Block)]
        views = [owner for owner in owners if owner.name not in _STEPS and not is_host_step(owner.name)]
        missing = [owner for owner in views if owner not in placed]
        if missing:
            waiting.extend(missing)
            continue
        current = waiting.pop()
        if current is not operation and current not in placed:
            placed.add(current)
            order.append(current)


def bytes_of(value: ir.Value) -> int:
    """The bytes of a tensor."""
    type_ = tensor_type(value.type)
    return type_.size * type_.dtype.bytes
