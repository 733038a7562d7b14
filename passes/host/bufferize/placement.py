"""Where results may be written: rules, each with the reason that it gives where it refuses.

A kernel, or a collective, may write a result over a donated argument, and a kernel over an operand that nobody reads
again, or into the memory that it updates; otherwise the result has memory of its own. `bufferize.py` asks these tables,
and rewrites.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import func, ir
from blu.passes.framework.kernels import callee_of
from blu.passes.framework.rules import Rule
from blu.passes.host.bufferize.collectives import works_in_place
from blu.passes.host.bufferize.concatenation import part_of
from blu.passes.host.bufferize.in_place import (
    KernelAnswers,
    reads_rows_in_place,
    reads_where_it_writes,
    writes_rows_last,
)
from blu.passes.host.bufferize.times import LifeSpan
from blu.passes.host.bufferize.uses import Returned, transposed_layout
from blu.passes.host.bufferize.views import Root, View, ViewTable, whole


@dataclass
class LastUses:
    """Of the first values in some memory, the last ops that use them."""

    num_values: int = 0
    ops: dict[ir.Operation, int] = field(default_factory=dict)


@dataclass
class Memory:
    """What is known of the memory of a host program while results get their places."""

    views: ViewTable
    spans: dict[ir.Operation, LifeSpan]
    returned: Returned
    kernels: dict[str, func.FuncOp]
    facts: KernelAnswers = field(default_factory=KernelAnswers)
    steps: int = 0
    """How many uses of values were looked at to find out when memory is free."""
    _uses: dict[Root, LastUses] = field(default_factory=dict)

    def is_dead_after(self, root: Root, operation: ir.Operation) -> bool:
        """Whether no value in this memory is used after `operation`, or at the same time by another op."""
        end = self.spans[operation].last
        return all(other == operation or last < end for other, last in self._last_uses(root).items())

    def _last_uses(self, root: Root) -> dict[ir.Operation, int]:
        """The two ops that use values in this memory last, and when. Each value is looked at once."""
        uses = self._uses.setdefault(root, LastUses())
        for value in self.views.values_in(root, uses.num_values):
            uses.num_values += 1
            for use in value.uses:
                self.steps += 1
                uses.ops[use.owner.operation] = self.spans[use.owner.operation].last
                if len(uses.ops) > 2:
                    del uses.ops[min(uses.ops, key=lambda other: uses.ops[other])]
        return uses.ops


def may_change(operation: ir.Operation, view: View, memory: Memory) -> bool:
    """Whether a collective may leave its result where its operand is: an intermediate that nobody reads again."""
    is_ours = view.root.is_writable and view.root.input is None and view.root.output is None
    returned = memory.returned.index_of(operation.results[0]) is not None
    return works_in_place(operation) and is_ours and not returned and memory.is_dead_after(view.root, operation)


@dataclass(frozen=True)
class OverDonated:
    """A result that may be written over a donated argument, whose memory is `root`: a kernel's, or a collective's.

    Of a result that is put together of parts, `first` is the first insertion, and the op writes the first of them.
    """

    operation: ir.Operation
    root: Root
    memory: Memory
    first: ir.Operation | None = None

    @property
    def reads_where_it_writes(self) -> bool:
        """Whether the argument is read, if it is, where it is written. Views in another order are elsewhere."""
        views = enumerate(self.memory.views[operand] for operand in self.operation.operands)
        readers = [(number, view) for number, view in views if view.root is self.root]
        return all(self._is_written(view) and self._reads_in_place(number) for number, view in readers)

    def _is_written(self, view: View) -> bool:
        """Whether what is read is all that there is, or one of the parts that the op writes of what has parts."""
        return view.is_whole if self.first is None else any(map(view.is_at, self._places()))

    def _places(self) -> Iterator[View]:
        """The parts of the argument's memory that the op writes."""
        for part in filter(None, map(part_of, self.operation.results)):
            place = part.place_in(whole(self.root)) if part.first == self.first else None
            if place is not None:
                yield place

    def _reads_in_place(self, number: int) -> bool:
        """Whether an operand is read where the result is written, if their memory is the same."""
        if self.operation.name != "func.call":
            return works_in_place(self.operation)
        return self.memory.facts.ask(reads_where_it_writes, self.memory.kernels[callee_of(self.operation)], number)

    @property
    def is_dead(self) -> bool:
        return self.memory.is_dead_after(self.root, self.operation)


@dataclass(frozen=True)
class OverOperand:
    """A result of a kernel of rows that may be written over one of its operands, an intermediate."""

    value: ir.Value
    operation: ir.Operation
    kernel: func.FuncOp
    number: int
    memory: Memory

    @property
    def operand(self) -> ir.Value:
        return self.operation.operands[self.number]

    @cached_property
    def root(self) -> Root:
        return self.memory.views[self.operand].root

    @property
    def reads_where_it_writes(self) -> bool:
        ask, place = self.memory.facts.ask, (self.kernel, self.number)
        return ask(reads_rows_in_place, *place) or ask(reads_where_it_writes, *place)

    @property
    def is_read_once(self) -> bool:
        return [self.memory.views[operand].root for operand in self.operation.operands].count(self.root) == 1

    @property
    def is_intermediate(self) -> bool:
        return self.root.is_writable and self.root.input is None and self.root.output is None

    @property
    def is_alike(self) -> bool:
        return self.operand.type == self.value.type and self.memory.views[self.operand].is_whole

    @property
    def is_dead(self) -> bool:
        return self.memory.is_dead_after(self.root, self.operation)


@dataclass(frozen=True)
class Placing:
    """A kernel's result that may have memory which is there already."""

    value: ir.Value
    operation: ir.Operation
    memory: Memory
    over_operands: bool

    @property
    def is_written_last(self) -> bool:
        results = self.operation.results
        kernel = self.memory.kernels[callee_of(self.operation)]
        return len(results) == 1 or self.memory.facts.ask(writes_rows_last, kernel, list(results).index(self.value))


@dataclass(frozen=True)
class Updating:
    """An op that writes a part of `view`, and reads the others."""

    operation: ir.Operation
    view: View
    others: Sequence[View]
    memory: Memory

    @property
    def is_read(self) -> bool:
        return any(other.root is self.view.root for other in self.others)

    @property
    def is_dead(self) -> bool:
        return self.memory.is_dead_after(self.view.root, self.operation)


@dataclass(frozen=True)
class Inserting:
    """A source that is not in its place yet. `first` begins what it is inserted into, where that is new."""

    operation: ir.Operation
    source: View
    first: ir.Operation | None


@dataclass(frozen=True)
class Returning:
    """A value that is returned as result `index`, which no kernel has written to that result's memory."""

    index: int
    view: View
    taken: set[Root]
    # The argument whose memory it may have; None where it may be any.
    wanted: int | None = None

    @property
    def is_all_there_is(self) -> bool:
        return self.view.is_whole and self.view.shape == self.view.root.shape


# When a result is written over the donated argument that it is paired with.
OVER_DONATED: tuple[Rule[OverDonated], ...] = (
    Rule("free", lambda case: not case.root.is_taken, "another result is written there"),
    Rule("dead", lambda case: case.is_dead, "it is read later"),
    Rule(
        "in place",
        lambda case: case.reads_where_it_writes,
        "it is read at other places than where the result is written",
    ),
)
# Which results may be written over an operand at all: those that need no place of their own.
PLACED_NOWHERE: tuple[Rule[Placing], ...] = (
    Rule("promise", lambda case: case.over_operands, "the target's kernels do not promise to read before they write"),
    Rule("last", lambda case: case.is_written_last, "the kernel has other results, which it may read more rows for"),
    Rule(
        "in order",
        lambda case: transposed_layout(case.value, case.memory.kernels) is None,
        "the result is written in the order of its readers",
    ),
    Rule("no part", lambda case: part_of(case.value) is None, "the result is written where it belongs in a larger one"),
    Rule(
        "not returned", lambda case: case.memory.returned.follow(case.value) is None, "the result is the program's too"
    ),
)
# When such a result is written over one of the operands.
OVER_OPERAND: tuple[Rule[OverOperand], ...] = (
    Rule("intermediate", lambda case: case.is_intermediate, "it is no intermediate result"),
    Rule("once", lambda case: case.is_read_once, "the kernel reads it twice"),
    Rule("alike", lambda case: case.is_alike, "it is of another shape, type or order"),
    Rule("dead", lambda case: case.is_dead, "it is read later"),
    Rule(
        "in place",
        lambda case: case.reads_where_it_writes,
        "the kernel reads it elsewhere than in the row, or at the element, that it writes",
    ),
)
# When an update writes into the memory of what it updates.
UPDATING: tuple[Rule[Updating], ...] = (
    Rule(
        "writable", lambda case: case.view.root.is_writable, "what it updates is a constant, or an argument not donated"
    ),
    Rule("not read", lambda case: not case.is_read, "it reads what it updates"),
    Rule("dead", lambda case: case.is_dead, "what it updates is read later"),
)
# When the memory of a donated argument is a result, with all that has been written there.
RETURNED_IN_PLACE: tuple[Rule[Returning], ...] = (
    Rule(
        "no output",
        lambda case: case.view.root.output is None,
        "it is, or is a part of, result {case.view.root.output}",
    ),
    Rule("a value", lambda case: case.view.root.input is not None or case.view.root.is_writable, "it is a constant"),
    Rule(
        "donated",
        lambda case: case.view.root.input is None or case.view.root.is_writable,
        "it is an argument, which is not donated",
    ),
    Rule("whole", lambda case: case.is_all_there_is, "it is a view of something else in memory"),
    Rule("an argument", lambda case: case.view.root.input is not None, "it is returned more than once"),
    Rule("once", lambda case: case.view.root not in case.taken, "it is another result too"),
    Rule("own", lambda case: case.wanted in (None, case.view.root.input), "a loop carries it on in another's place"),
)
# When a part of a larger value is written where it belongs, and need not be copied there.
INSERTED_IN_PLACE: tuple[Rule[Inserting], ...] = (
    Rule(
        "made here",
        lambda case: case.source.root.input is None and case.source.root.is_writable,
        "it is an argument or a constant",
    ),
    Rule("into a new value", lambda case: case.first is not None, "what it is inserted into is used otherwise too"),
    Rule("only a part", lambda case: part_of(case.operation.operands[0]) is not None, "it is used otherwise too"),
    Rule("written there", lambda case: False, "no kernel can write it there"),
)
