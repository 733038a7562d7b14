"""The pass that turns groups of ops into kernels and leaves calls of them in the host program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import is_pure
from blu.passes.framework.base import Pass
from blu.passes.framework.families import HOST, is_kernel, mark
from blu.passes.framework.rules import lines_of
from blu.passes.loops.fuse.flow import Group, reads_of
from blu.passes.loops.fuse.groups import Grouping
from blu.passes.loops.fuse.loops import captured, is_repeated, is_tensor
from blu.passes.loops.fuse.report import kernels_apart
from blu.passes.loops.fuse.splats import write_splats


@dataclass(frozen=True)
class Fuse(Pass):
    """Ops that walk the same loops become one kernel: a private function, called from the host program.

        %1 = linalg.contract ins(%x, %w) outs(%zero)
        %2 = linalg.generic {(i, j) -> (i, j), (i, j) -> (j)} ins(%1, %bias) { add }

    becomes

        %2 = call @gemm_0(%x, %w, %bias)
        func.func private @gemm_0(..) attributes {blu.kernel = "gemm"} { contract, add }

    Views (collapse_shape, extract_slice, transpose ...) stay outside: bufferization turns them into strides.
    With `scalars_apart`, reductions do not wait for each other to add up what they give:

        %3 = call @rows_2(%x, %2)     { sum, add }       becomes       %3 = call @rows_2(%x)          { sum }
                                                                       %4 = call @rows_3(%2, %3)      { add }
    """

    level = "linalg"
    scalars_apart: bool = False

    def run(self, module: ir.Module) -> None:
        names = _Names()
        for function in list(module.body.operations):
            if isinstance(function, func.FuncOp) and not is_kernel(function):
                self._fuse(module, function, names)
        self.count("kernels", sum(names.counts.values()))

    def _fuse(self, module: ir.Module, function: func.FuncOp, names: _Names) -> None:
        block = function.entry_block
        write_splats(block)
        grouping = Grouping(block, self.scalars_apart)
        for operation in grouping.unknown:
            self.fail(operation, f"no kernel is made of {operation.name}", advice=_ADVICE)
        self.count("steps to find groups", grouping.flow.waiting.steps)
        steps = [group for group in grouping.groups if group.family is HOST]
        named = {group: names.next(group.family.name) for group in grouping.groups if group not in steps}
        positions = {operation.operation: index for index, operation in enumerate(block.operations)}
        self.explain(lines_of(kernels_apart(grouping.refusals, named, positions)))
        acting = [group for group in grouping.groups if not all(map(is_pure, group.members))]
        calls = {group: _outline(module, group, name) for group, name in named.items()}
        calls |= {group: group.members[0] for group in steps}
        _sort_topologically(block, [calls[group] for group in acting])
        _erase_unused(block)


_ADVICE = "Kernels are made of loops whose maps are projections, and of ops that have a kernel of their own."


@dataclass
class _Names:
    """How many kernels of each family there are."""

    counts: dict[str, int] = field(default_factory=dict)

    def next(self, family: str) -> str:
        """The name of one more kernel."""
        number = self.counts.get(family, 0)
        self.counts[family] = number + 1
        return f"{family}_{number}"


def _outline(module: ir.Module, group: Group, name: str) -> ir.Operation:
    """Move the group's ops into a function of their own and call it in place of its last op; the call."""
    members = set(group.members)
    made = {value for member in group.members for value in member.results}
    inside = {member: captured(member) for member in group.members}
    inputs = _inputs(inside, made)
    outputs = [value for member in group.members for value in member.results if _is_output(value, members)]
    types = [value.type for value in outputs]
    location = group.location
    with ir.InsertionPoint(module.body), location:
        kernel = func.FuncOp(name, ([value.type for value in inputs], types), visibility="private")
        mark(kernel, group.family)
        block = kernel.add_entry_block([location] * len(inputs))
    values = dict(zip(inputs, block.arguments, strict=True))
    with ir.InsertionPoint(block), location:
        for member in group.members:
            clone_into(member, values, inside[member])
        func.ReturnOp([values[value] for value in outputs])
    with ir.InsertionPoint(group.members[-1]), location:
        call = func.CallOp(types, name, inputs)
    for value, result in zip(outputs, call.results, strict=True):
        value.replace_all_uses_with(result)
    for member in reversed(group.members):
        member.erase()
    return call.operation


def _inputs(members: Mapping[ir.Operation, Sequence[ir.Value]], made: set[ir.Value]) -> list[ir.Value]:
    """The tensors from outside that ops read, given with what each of them captures."""
    found: dict[ir.Value, None] = {}
    for member, inside in members.items():
        found.update((value, None) for value in reads_of(member, inside) if value not in made and is_tensor(value))
    return list(found)


def _is_output(value: ir.Value, members: set[ir.Operation]) -> bool:
    """What a kernel writes to memory: what others read, and all results of an op that a template takes whole."""
    return value.owner.name.startswith("blu.") or _is_used_outside(value, members)


def _is_used_outside(value: ir.Value, members: set[ir.Operation]) -> bool:
    """Whether any use is not inside of the group (a use inside of a body counts for the op around it)."""
    return any(not _is_within(use.owner.operation, members) for use in value.uses)


def _is_within(operation: ir.Operation, members: set[ir.Operation]) -> bool:
    while operation is not None:
        if operation in members:
            return True
        parent = operation.parent
        operation = parent.operation if parent is not None and parent.name != "func.func" else None
    return False


def clone_into(
    operation: ir.Operation, values: dict[ir.Value, ir.Value], inside: Sequence[ir.Value] | None = None
) -> None:
    """Clone an op at the insertion point with its operands mapped, after what it needs repeated.

    `inside` is what it captures, where that is known.
    """
    for value in [*operation.operands, *(captured(operation) if inside is None else inside)]:
        if value in values:
            continue
        owner = value.owner
        if not isinstance(owner, ir.Block) and is_repeated(owner):
            clone_into(owner, values)
    clone = operation.clone()
    remap(clone, values)
    values.update(zip(operation.results, clone.results, strict=True))


def clone_kernel(kernel: func.FuncOp, arguments: Sequence[ir.Value]) -> list[ir.Value]:
    """Clone what a kernel does at the insertion point, of these arguments; its results."""
    values = dict(zip(kernel.arguments, arguments, strict=True))
    *operations, end = (item.operation for item in kernel.entry_block.operations)
    for operation in operations:
        clone_into(operation, values)
    return [values[value] for value in end.operands]


def remap(operation: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    """Replace operands, in regions too, by what `values` maps them to."""
    waiting = [operation]
    while waiting:
        current = waiting.pop()
        for index, operand in enumerate(current.operands):
            if operand in values:
                current.operands[index] = values[operand]
        waiting.extend(inner.operation for region in current.regions for block in region for inner in block)


def _sort_topologically(block: ir.Block, acting: list[ir.Operation]) -> None:
    """Put every op after those it needs, keeping the order otherwise, and always that of calls with effects."""
    operations = [operation.operation for operation in block.operations]
    terminator = operations[-1]
    placed: set[ir.Operation] = set()
    order: list[ir.Operation] = []
    before = dict(zip(acting[1:], acting, strict=False))
    for operation in operations[:-1]:
        _place_after_needs(operation, placed, order, before)
    for operation in order:
        operation.move_before(terminator)


def _place_after_needs(
    operation: ir.Operation, placed: set, order: list, before: dict[ir.Operation, ir.Operation]
) -> None:
    waiting = [operation]
    while waiting:
        current = waiting[-1]
        owners = [value.owner for value in [*current.operands, *captured(current)]]
        owners += [before[current]] if current in before else []
        missing = [owner for owner in owners if not isinstance(owner, ir.Block) and owner not in placed]
        if current in placed:
            waiting.pop()
        elif missing:
            waiting.extend(missing)
        else:
            placed.add(current)
            order.append(waiting.pop())


def _erase_unused(block: ir.Block) -> None:
    """Drop scalars, splats and views that only kernels needed."""
    for operation in reversed(list(block.operations)):
        operation = operation.operation
        if is_pure(operation) and not any(list(result.uses) for result in operation.results):
            operation.erase()
