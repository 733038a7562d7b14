"""The pass that lets kernels run while ranks exchange data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import func, ir
from blu.dialects.plan import LOOP, VIEWS, batch_of
from blu.passes.framework.base import Pass
from blu.passes.framework.kernels import callee_of, kernels_in
from blu.passes.framework.launches import host_functions
from blu.passes.host.bufferize.intervals import element_bytes

START, WAIT = "plan.start", "plan.wait"
BYTES_BESIDE = 16
"""How many bytes kernels touch, about, while one travels between ranks."""
NAMING = frozenset(("plan.buffer", *VIEWS))
"""Steps that do nothing: memory gets a name, or a shape."""


@dataclass(frozen=True)
class OverlapCollectives(Pass):
    """A collective begins right after what it reads is made, and is waited for right before anyone needs its memory.

        call @gemm_0(.., %gradient)
        call @gemm_1(.., %other)
        %token = plan.start(%gradient, %total) {kind = "all_reduce"}
        plan.wait(%token, %gradient, %total)
        call @gemm_2(.., %third)
        call @rows_0(%total)

    becomes

        call @gemm_0(.., %gradient)
        %token = plan.start(%gradient, %total) {kind = "all_reduce"}
        call @gemm_1(.., %other)
        call @gemm_2(.., %third)
        plan.wait(%token, %gradient, %total)
        call @rows_0(%total)

    Where little runs before a collective's result is needed, what it needs nothing of, but was written between it and
    the one before, comes behind its start; no more than that, since it keeps what it reads in memory until then.
    Collectives begin in the order in which they were written, which is the same on all ranks. Buffers live as long as
    a collective has them, so that `blu-plan-memory`, which comes after this, gives their memory to nobody else. The
    options leave the one or the other end where it is, to measure what that is worth.
    """

    level = "memref"
    begins_early: bool = True
    waits_late: bool = True

    def run(self, module: ir.Module) -> None:
        kernels = kernels_in(module)
        for function in host_functions(module):
            _Host(function, kernels).run(begins_early=self.begins_early, waits_late=self.waits_late)
            starts = [item for item in function.entry_block.operations if item.operation.name == START]
            self.count("collectives", len(starts))


@dataclass(frozen=True, eq=False)
class _Step:
    """A host op: which memory it touches, and writes, and the batch that it is a call of."""

    operation: ir.Operation
    name: str
    touched: frozenset[ir.Value]
    written: frozenset[ir.Value]
    batch: int | None
    bytes: int
    """Those of what a kernel reads and writes, or a collective is given."""

    @classmethod
    def of(cls, operation: ir.Operation, read: Sequence[bool]) -> _Step:
        """That of an op, of whose operands those are said that are only read. To make a view touches no memory."""
        touched = frozenset() if operation.name in NAMING else frozenset(_roots(operation.operands))
        unread = [value for value, is_read in zip(operation.operands, read, strict=True) if not is_read]
        written = touched & _roots(unread)
        return cls(operation, operation.name, touched, written, batch_of(operation), _bytes_of(operation))

    def meets(self, other: _Step) -> bool:
        """Whether one of the two writes what the other one touches."""
        return not (self.written.isdisjoint(other.touched) and other.written.isdisjoint(self.touched))


class _Host:
    """The steps of a host function, and which memory they touch."""

    def __init__(self, function: func.FuncOp, kernels: Mapping[str, func.FuncOp]):
        read = {name: _read_arguments(kernel) for name, kernel in kernels.items()}
        operations = [item.operation for item in function.entry_block.operations]
        self.steps = [_Step.of(operation, _read_operands(operation, read)) for operation in operations]
        self.step_of = {step.operation: step for step in self.steps}
        self.batches = _Batches(self.steps)

    def run(self, *, begins_early: bool, waits_late: bool) -> None:
        """Move starts up, then waits down."""
        if not any(step.name == START for step in self.steps):
            return
        for step in [item for item in self.steps if begins_early and item.name == START]:
            self._begin_early(step)
            self._let_others_follow(step)
        for step in [item for item in reversed(self.steps) if waits_late and item.name == WAIT]:
            self._wait_late(step)
        terminator = self.steps[-1].operation
        for step in self.steps[:-1]:
            step.operation.move_before(terminator)

    def _begin_early(self, start: _Step) -> None:
        """Put a start after the last step that touches its memory, or begins a collective.

        Where its memory gets a name, or a shape, goes with it. But what nothing was written for since the collective
        before (a parameter that is gathered) stays behind that: begun as early as can be, it would only take memory.
        """
        place = self.steps.index(start)
        makers = self._makers(start)
        first = self._first_place(start, place, makers)
        if not first or not self.steps[first - 1].meets(start):
            makers = set()
            first = self._first_place(start, place, makers)
        first = self.batches.outside(first, forward=True, limit=place)
        between = self.steps[first:place]
        moved = [step for step in between if step in makers]
        self._put(first, [*moved, start, *(step for step in between if step not in makers)])

    def _let_others_follow(self, start: _Step) -> None:
        """Put what a start needs nothing of behind it, back to the collective before: it runs beside it then.

        So the sum over ranks of an activation's gradient begins before the product for the weights' gradient, although
        that was written first. The last of these go first, and no more than run while data travels: a bucket of
        gradients, which is needed at the end of all, has the rest of the backward pass beside it.
        """
        place = self.steps.index(start)
        missing = BYTES_BESIDE * start.bytes - sum(step.bytes for step in self._beside(start, place))
        first = place
        while first and self.steps[first - 1].name not in (START, WAIT):
            first -= 1
        window = self.steps[first:place]
        if missing <= 0 or not any(step.meets(start) for step in window):
            return
        needed = _needed(window, start)
        others = _last_of([step for step in window if step not in needed], missing)
        self._put(first, [*(step for step in window if step not in others), start, *others])

    def _beside(self, start: _Step, place: int) -> Iterator[_Step]:
        """The steps behind a start, before the first one that needs its memory."""
        for step in self.steps[place + 1 : -1]:
            is_its_own = step.name == WAIT and step.operation.operands[0] == start.operation.results[0]
            if step.meets(start) and not is_its_own:
                return
            yield step

    def _first_place(self, start: _Step, place: int, makers: set[_Step]) -> int:
        """The place behind the last step that holds a start back, which its makers do not."""
        while place and (self.steps[place - 1] in makers or not self._holds_back(self.steps[place - 1], start)):
            place -= 1
        return place

    def _makers(self, start: _Step) -> set[_Step]:
        """The steps that only name what a start reads and writes; between them and the start nothing else is made."""
        needed, makers = list(start.operation.operands), set[_Step]()
        while needed:
            owner = needed.pop().owner
            if not isinstance(owner, ir.Block) and owner.name in NAMING and self.step_of[owner] not in makers:
                makers.add(self.step_of[owner])
                needed += owner.operands
        return makers

    def _wait_late(self, wait: _Step) -> None:
        """Put a wait before the first step that touches the collective's memory, or before the end."""
        place = self.steps.index(wait)
        last = place + 1
        while last < len(self.steps) - 1 and not self.steps[last].meets(wait):
            last += 1
        last = self.batches.outside(last, forward=False, limit=place + 1)
        self._put(place, [*self.steps[place + 1 : last], wait])

    def _holds_back(self, step: _Step, start: _Step) -> bool:
        makes_operand = any(result in list(start.operation.operands) for result in step.operation.results)
        return step.name == START or makes_operand or step.meets(start)

    def _put(self, first: int, steps: Sequence[_Step]) -> None:
        """Let steps stand from a place on, which stood there in another order."""
        self.steps[first : first + len(steps)] = steps
        self.batches.put(first, steps)


class _Batches:
    """Where the calls of batches stand, those of several calls: there is nothing between those of one call."""

    def __init__(self, steps: Sequence[_Step]):
        calls = Counter(step.batch for step in steps if step.batch is not None)
        self.places: dict[int, dict[_Step, int]] = {batch: {} for batch, count in calls.items() if count > 1}
        self.spans: dict[int, tuple[int, int]] = {}
        self.put(0, steps)

    def put(self, first: int, steps: Sequence[_Step]) -> None:
        """Note where steps stand now, from a place on."""
        moved: set[int] = set()
        for place, step in enumerate(steps, first):
            if step.batch is not None and step.batch in self.places:
                self.places[step.batch][step] = place
                moved.add(step.batch)
        for batch in moved:
            places = self.places[batch].values()
            self.spans[batch] = min(places), max(places)

    def outside(self, place: int, *, forward: bool, limit: int) -> int:
        """A place that is not between the calls of a batch, which run together."""
        while place != limit and any(first < place <= last for first, last in self.spans.values()):
            place += 1 if forward else -1
        return place


def _last_of(steps: Sequence[_Step], missing: int) -> Sequence[_Step]:
    """The last of some steps, as many as touch so many bytes; calls of a batch stay together."""
    first: dict[int | None, int] = {}
    for number, step in enumerate(steps):
        first.setdefault(step.batch, number)
    start = reach = len(steps)
    while start and (missing > 0 or reach < start):
        start -= 1
        missing -= steps[start].bytes
        if steps[start].batch is not None:
            reach = min(reach, first[steps[start].batch])
    return steps[start:]


def _needed(window: Sequence[_Step], start: _Step) -> set[_Step]:
    """Of the steps before a start those that are to stay there: they write what it, or others that stay, touch.

    Calls of a batch stay together.
    """
    batches: set[int] = set()
    while True:
        needed, touched, written = {start}, set(start.touched), set(start.written)
        values = set(start.operation.operands)
        for step in reversed(window):
            is_free = written.isdisjoint(step.touched) and touched.isdisjoint(step.written)
            makes = not values.isdisjoint(step.operation.results)
            if makes or step.batch in batches or not is_free:
                needed.add(step)
                touched |= step.touched
                written |= step.written
                values.update(step.operation.operands)
        found = {step.batch for step in needed if step.batch is not None}
        if found == batches:
            return needed
        batches = found


def _read_arguments(kernel: func.FuncOp) -> list[bool]:
    """Of each argument of a kernel, whether it is only read; of what is told nothing of, it may be written."""
    if kernel.is_external:
        return [False] * len(kernel.type.inputs)
    return [_is_read(argument) for argument in kernel.entry_block.arguments]


def _is_read(argument: ir.Value) -> bool:
    users = [use.owner.operation for use in argument.uses]
    return bool(users) and all(
        user.name == "bufferization.to_tensor" and "writable" not in user.attributes for user in users
    )


def _read_operands(operation: ir.Operation, read: Mapping[str, list[bool]]) -> list[bool]:
    """Of each operand of a host op, whether its memory is only read."""
    if operation.name in (START, WAIT):  # memory, then what is written; a wait has the token before
        return [True] * (len(operation.operands) - 1) + [False]
    if operation.name == "func.call":
        name = callee_of(operation)
        return read.get(name, [False] * len(operation.operands))
    return [False] * len(operation.operands)


def _bytes_of(operation: ir.Operation) -> int:
    if operation.name not in (START, "func.call", LOOP):
        return 0
    types = [ir.MemRefType(value.type) for value in operation.operands if isinstance(value.type, ir.MemRefType)]
    counted = types[:1] if operation.name == START else types
    return sum(product(type_.shape) * element_bytes(type_.element_type) for type_ in counted)


def _roots(values: Iterable[ir.Value]) -> set[ir.Value]:
    """The buffers and arguments whose memory values are, seen through views."""
    return {_root(value) for value in values if isinstance(value.type, ir.MemRefType)}


def _root(value: ir.Value) -> ir.Value:
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value
