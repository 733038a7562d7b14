"""Which node runs in which walk over the columns, and what is kept between walks instead of computed again.

What needs a reduction of a row has to wait until the row's end, so a row is walked over as often as reductions follow
from each other, and once more. A softmax takes three walks (Milakov and Gimelshein, "Online normalizer calculation for
softmax", 2018, call it the safe softmax):

    level 0    m = max(x)
    level 1    e = exp(x - m), s = sum(e)         reload x
    level 2    store e / s                        reload e, or x - m and the exponential again

A node's level is that of the first walk in which all it needs is known (`program.py`). Where its value is wanted in a
later walk as well, there are three ways to have it again:

- a result that has been stored is read back from there;
- what costs less than CHEAP, or is the same for the whole row, is computed again;
- the rest is kept for the length of one row: in the memory of a result of the same type that is written in the last
  walk only (a `host`), else in scratch, as long as `budget` lasts; else it is computed again. GPUs have rows in
  registers where they can, and give no budget.

Results that lie over something that the kernel reads (`late`) are stored in the last walk, whatever their level, since
what they lie over may be read until then; and nothing is kept in them.
"""

from __future__ import annotations

from collections.abc import Collection

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import ir
from blu.passes.kernels.rows.program import RowProgram, cost_of
from blu.passes.kernels.rows.space import RowNode

CHEAP = 10  # A value that costs less than this to compute again is not kept.


@dataclass
class ColumnWalk:
    """One walk over the columns: `nodes` to inline in order, `reductions` (node numbers) to accumulate, wide results to
    `store`, values to `keep` in scratch for later walks, and values to `reload` from scratch or from their output."""

    nodes: list[int] = field(default_factory=list)
    reductions: list[int] = field(default_factory=list)
    store: list[ir.Value] = field(default_factory=list)
    keep: list[ir.Value] = field(default_factory=list)
    reload: set[ir.Value] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        return not (self.reductions or self.store or self.keep)


class Planner:
    """Plans the walks of a program.

    `budget` is the number of bytes that kept values may take, `width` their elements; `late` outputs are stored in the
    last walk, because they overwrite an input. `hosts` are outputs of the last walk in whose memory a value of the same
    type can be kept until then; `hosted` tells which value is in which.
    """

    def __init__(
        self,
        program: RowProgram,
        width: int,
        budget: int,
        late: Collection[ir.Value] = (),
        hosts: Collection[ir.Value] = (),
    ):
        self.program = program
        self.width = width
        self.budget = budget
        self.late = late
        self.hosts = list(hosts)
        self.hosted: dict[ir.Value, ir.Value] = {}
        self.first: dict[ir.Value, int] = {}
        self.stored: set[ir.Value] = set()
        self.kept: set[ir.Value] = set()
        self.walks: list[ColumnWalk] = []

    def plan(self) -> list[ColumnWalk]:
        """One walk for each level, and a last one whose `nodes` are what the results without columns need."""
        program = self.program
        narrow = [value for value in program.outputs if not program.is_wide(value)]
        for level in range(max(program.levels) + 1):
            walk = ColumnWalk()
            self.walks.append(walk)
            walk.reductions = [number for number, node in enumerate(program.nodes)
                               if node.is_reduction and program.levels[number] == level]  # fmt: skip
            walk.store = [
                value for value in program.outputs if program.is_wide(value) and self._stores_at(value) == level
            ]
            roots = [operand for number in walk.reductions for operand in program.nodes[number].operation.operands]
            walk.nodes = self._needed([*roots, *walk.store], level)
            self.stored |= {value for value in walk.store if self._varies(value)}
        self.walks.append(ColumnWalk())
        self.walks[-1].nodes = self._needed(narrow, len(self.walks))
        return self.walks

    def _stores_at(self, value: ir.Value) -> int:
        return max(self.program.levels) if value in self.late else self.program.level_of(value)

    def _needed(self, roots: list[ir.Value], level: int) -> list[int]:
        found: set[int] = set()
        seen: set[ir.Value] = set()
        pending = list(roots)
        while pending:
            value = pending.pop()
            made = self.program.makers.get(value)
            if made is None or value in seen or self.program.nodes[made.node].is_reduction:
                continue
            seen.add(value)
            if self._reloads(value, level):
                self.walks[-1].reload.add(value)
                continue
            self.first.setdefault(value, level)
            found.add(made.node)
            pending += list(self._sources(self.program.nodes[made.node]))
        return sorted(found)

    def _reloads(self, value: ir.Value, level: int) -> bool:
        """Whether a value that an earlier walk computed is read back in this one."""
        if value in self.stored or value in self.kept:
            return True
        if not self.program.across or not self._varies(value) or self.first.get(value, level) == level:
            return False
        if self._cost(value, set()) < CHEAP or not self._find_room(value):
            return False
        self.kept.add(value)
        self.walks[self.first[value]].keep.append(value)
        return True

    def _find_room(self, value: ir.Value) -> bool:
        """Room for a kept value: the memory of an output that is written later anyway, or scratch."""
        for host in self.hosts:
            alike = host.type.element_type == value.type.element_type
            if alike and self.program.access_of(host) == self.program.access_of(value):
                self.hosts.remove(host)
                self.hosted[value] = host
                return True
        size = self.width * _bytes(value)
        if size > self.budget:
            return False
        self.budget -= size
        return True

    def _varies(self, value: ir.Value) -> bool:
        return bool(self.program.dependence[value] & self.program.columns)

    def _cost(self, value: ir.Value, seen: set[ir.Value]) -> int:
        made = self.program.makers.get(value)
        if value in seen or (made and (self.program.nodes[made.node].is_reduction or value in self.stored | self.kept)):
            return 0
        seen.add(value)
        if made is None:
            return 1
        node = self.program.nodes[made.node]
        return cost_of(node) + sum(self._cost(source, seen) for source in self._sources(node))

    def _sources(self, node: RowNode) -> list[ir.Value]:
        """The operands whose elements the body reads."""
        return [operand for operand, argument in zip(node.operation.operands, node.body.arguments, strict=True)
                if len(list(argument.uses))]  # fmt: skip


def _bytes(value: ir.Value) -> int:
    element = value.type.element_type
    return 8 if isinstance(element, ir.IndexType) else max(1, element.width // 8)
