"""Bodies of ops whose gradients are taken: what gradients read is saved, and a step back is written into a body."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.fields import on_operand
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import operations_in
from blu.dialects.core.op import attributes_of, emitting_at, operands_of, operation_class
from blu.dialects.core.remat import ATTRIBUTE
from blu.dialects.ops.control.custom_vjp import UNSAVED
from blu.dialects.ops.control.scan import floats_of, or_zeros
from blu.dialects.tensor.tensor import Tensor
from blu.passes.framework.bodies import Body, bodies_of
from blu.passes.graph.decompose import decompose_operation

RULE = "blu.custom_vjp"
Pull = Callable[[ir.Block, Sequence[ir.Value], Mapping[ir.Value, Sequence[Tensor]]], "list[Tensor | None]"]


@dataclass(frozen=True)
class DifferentiableBody:
    """A body that can be called, as any, and walked back through."""

    body: Body
    pull: Pull

    def __call__(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        return self.body(*arguments)

    def gradients(
        self, arguments: Sequence[Tensor], cotangents: Mapping[int, Tensor], kept: Sequence[Tensor] = ()
    ) -> list[Tensor | None]:
        """Write the body and its gradient into the body that is being traced.

        `cotangents` are the gradients of results, by their numbers; `kept` are the last of the results, which are known
        and not computed again. One for each argument; None where there is none.
        """
        results = self(*arguments)
        given: dict[ir.Value, list[Tensor]] = {}
        for place, share in cotangents.items():
            given.setdefault(results[place].value, []).append(share)
        wanted = [tensor for tensor in arguments if tensor.dtype.has_gradient]
        block = ir.InsertionPoint.current.block
        found = dict(
            zip((item.value for item in wanted), self.pull(block, [i.value for i in wanted], given), strict=True)
        )
        known = {result.value: tensor for result, tensor in zip(results[len(results) - len(kept) :], kept, strict=True)}
        shares = [found.get(tensor.value) for tensor in arguments]
        shares = [None if share is None else known.get(share.value, share) for share in shares]
        for value, tensor in known.items():
            _put_in_place(value, tensor.value)
        return shares

    def directional(
        self, arguments: Sequence[Tensor], directions: Mapping[int, Tensor]
    ) -> tuple[tuple[Tensor, ...], dict[int, Tensor]]:
        """Write the body into the body that is being traced: its results, and how each float among them moves where
        arguments move along `directions`, both by their places.

        What takes gradients back is linear in them: its own gradient takes directions forward.
        """
        results = self(*arguments)
        block = ir.InsertionPoint.current.block
        zeros = {place: or_zeros(None, results[place]) for place in floats_of(results)}
        back: dict[ir.Value, list[Tensor]] = {}
        for place, zero in zeros.items():
            back.setdefault(results[place].value, []).append(zero)
        wanted = {place: arguments[place].value for place in directions}
        first = len(block.operations)
        found = self.pull(block, list(wanted.values()), back)
        known = [
            (share, direction) for share, direction in zip(found, directions.values(), strict=True) if share is not None
        ]
        shares = _saved(block, first, [share.value for share, _ in known])
        forward: dict[ir.Value, list[Tensor]] = {}
        for share, (_, direction) in zip(shares, known, strict=True):
            forward.setdefault(share, []).append(direction)
        moved = self.pull(block, [zero.value for zero in zeros.values()], forward)
        return results, {
            place: zero if move is None else move for (place, zero), move in zip(zeros.items(), moved, strict=True)
        }


def _saved(block: ir.Block, first: int, values: Sequence[ir.Value]) -> list[ir.Value]:
    """Let ops of a block, from the first so many on, save what their gradients read; what some values are then."""
    holding = func.ReturnOp(list(values))  # whose operands change with them
    for operation in [item.operation for item in block.operations][first:]:
        _save(operation)
    found = list(holding.operation.operands)
    holding.operation.erase()
    return found


def _put_in_place(value: ir.Value, known: ir.Value) -> None:
    """Let those that read a value read one that is known, and drop what has computed it, if nobody reads that."""
    value.replace_all_uses_with(known)
    owner = value.owner
    if isinstance(owner, ir.Operation) and not any(list(result.uses) for result in owner.results):
        owner.erase()


def bodies_with_gradients(operation: ir.Operation, pull: Pull) -> dict[str, DifferentiableBody]:
    """The bodies of an op by the names of its regions."""
    return {name: DifferentiableBody(body, pull) for name, body in bodies_of(operation).items()}


def prepare(function: func.FuncOp) -> None:
    """Let ops with bodies save what their gradients read. Composites in bodies that have no gradient are written as
    what they are made of."""
    while found := [item for item in operations_in(function.operation) if is_opaque(item) and _is_in_body(item)]:
        for operation in reversed(found):  # inner ones first: outer ones are copied
            decompose_operation(operation)
    for operation in reversed([item for item in operations_in(function.operation) if len(item.regions)]):
        if not _is_in_rule(operation):
            _save(operation)


def write_out_rules(function: func.FuncOp) -> None:
    """Ops whose users gave them a gradient become what they compute: nobody asks for that gradient any more."""
    while found := [item for item in operations_in(function.operation) if item.name == RULE]:
        for operation in reversed(found):
            decompose_operation(operation)


def write_out_taken_rules(function: func.FuncOp) -> None:
    """Those of which the gradient has been written become what they compute for it, where gradients of this gradient
    find the rules that are in there."""
    for operation in reversed([item for item in operations_in(function.operation) if item.name == RULE]):
        if attributes_of(operation)["saved"] != UNSAVED:
            decompose_operation(operation)


def _is_in_body(operation: ir.Operation) -> bool:
    return not isinstance(operation.parent.opview, func.FuncOp)


def _is_in_rule(operation: ir.Operation) -> bool:
    """Whether an op is in a body of one whose gradient is not that of its bodies."""
    around = operation.parent
    while around is not None and around.name != RULE:
        around = around.operation.parent
    return around is not None


def is_opaque(operation: ir.Operation) -> bool:
    """Whether an op is differentiated through what it is made of."""
    cls = operation_class(operation)
    return cls is not None and cls.vjp is None and cls.decompose is not None


def _save(operation: ir.Operation) -> None:
    cls = operation_class(operation)
    if cls is None or cls.saving is None:
        return
    with ir.InsertionPoint(operation), emitting_at(operation.location):
        operands = [on_operand(Tensor, item) for item in operands_of(operation)]
        results = cls.saving(*operands, **attributes_of(operation), **bodies_of(operation))
    if results is None:
        return
    if ATTRIBUTE in operation.attributes:
        results[0].value.owner.operation.attributes[ATTRIBUTE] = operation.attributes[ATTRIBUTE]
    for before, after in zip(operation.results, results, strict=False):
        before.replace_all_uses_with(after.value)
    operation.erase()
