"""The pass that adds up many tensors over ranks at once, as soon as they are there."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass, field
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import VARIADIC_SLOTS, attributes_of, emitting_at
from blu.dialects.ops.collective import AllReduce
from blu.dialects.ops.shape import Concatenate
from blu.dialects.tensor.arrangement import reshape
from blu.dialects.tensor.tensor import Tensor
from blu.passes.framework.base import Pass, find
from blu.plan.schema import ALIGNMENT

MEGABYTE = 1 << 20


@dataclass(frozen=True)
class BucketCollectives(Pass):
    """Sums over ranks that nobody needs yet become one of all their elements, in the order in which these are made.

        %2 = "blu.all_reduce"(%0) {axis = "dp", reduction = "sum"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
        %3 = "blu.all_reduce"(%1) {axis = "dp", reduction = "sum"} : (tensor<8xf32>) -> tensor<8xf32>

    becomes

        %a = "blu.reshape"(%1) {shape = [8]}                     -- %1 was there before %0
        %b = "blu.reshape"(%0) {shape = [32]}
        %c = "blu.concatenate"(%a, %b) {axis = 0}
        %d = "blu.all_reduce"(%c) {axis = "dp", reduction = "sum"} : (tensor<40xf32>) -> tensor<40xf32>
        %3, %2 = slices of %d

    A tensor of `megabytes` or more travels alone, as it is: to join others it would have to be copied where its kernel
    adds to what is there, as for weights of embeddings that are those of the head too. Tensors of whole lines of memory
    come first, so that each begins at one: kernels write and read rows by vectors. A bucket ends with the tensor that
    makes it `megabytes` large, or before one that is made after a result of the bucket is read. Kernels write what is
    concatenated where it belongs, so that few and large exchanges cost no copies; the backward pass makes gradients
    from the last layer to the first, and goes on while a bucket travels.
    """

    level = "blu"
    megabytes: int = 128

    def run(self, module: ir.Module) -> None:
        for function in find(module, func.FuncOp):
            if not function.is_external:
                self._bucket(function.entry_block)

    def _bucket(self, block: ir.Block) -> None:
        operations = [item.operation for item in block.operations]
        positions = {operation: number for number, operation in enumerate(operations)}
        found = [_Sum(item, positions) for item in operations if _is_sum(item)]
        enough = self.megabytes * MEGABYTE
        open_buckets: dict[tuple, _Bucket] = {}
        for item in sorted(found, key=lambda item: item.made):
            for bucket in open_buckets.values():
                if bucket.members and item.made >= bucket.first_read:
                    self._close(bucket)
            bucket = _Bucket() if item.bytes >= enough else open_buckets.setdefault(item.key, _Bucket())
            bucket.add(item)
            if bucket.bytes >= enough:
                self._close(bucket)
        for bucket in open_buckets.values():
            self._close(bucket)

    def _close(self, bucket: _Bucket) -> None:
        """Write the bucket's sum behind the last tensor of it, and empty it."""
        if bucket.members:
            bucket.write()
            self.count("buckets")
        bucket.empty()


def _is_sum(operation: ir.Operation) -> bool:
    if operation.name != "blu.all_reduce":
        return False
    attributes = attributes_of(operation)
    return attributes["reduction"] in ("sum", "mean") and attributes["ranks"] > 1


class _Sum:
    """One sum over ranks: where its operand is made, and its result first read, among the ops of the block.

    A sum of a sum (over another axis) stays behind that: it is taken to be made where it stands.
    """

    def __init__(self, operation: ir.Operation, positions: dict[ir.Operation, int]):
        self.operation = operation
        owner = operation.operands[0].owner
        self.maker = None if isinstance(owner, ir.Block) else operation if _is_sum(owner) else owner.operation
        self.made = -1 if self.maker is None else positions[self.maker]
        users = [_outermost(use.owner.operation, positions) for use in operation.results[0].uses]
        self.first_read = min((positions[user] for user in users), default=len(positions))
        tensor = Tensor(operation.operands[0])
        self.bytes = tensor.size * tensor.dtype.bytes
        attributes = attributes_of(operation)
        self.key = (*sorted(attributes.items()), tensor.dtype)


def _outermost(operation: ir.Operation, positions: dict[ir.Operation, int]) -> ir.Operation:
    """The op of the block that an op is, or is in a body of."""
    while operation not in positions:
        operation = operation.parent.operation
    return operation


@dataclass
class _Bucket:
    """Sums that travel together, in the order in which their operands are made."""

    members: list[_Sum] = field(default_factory=list)
    bytes: int = 0

    @property
    def first_read(self) -> int:
        return min(member.first_read for member in self.members)

    def add(self, member: _Sum) -> None:
        """Take one more sum."""
        self.members.append(member)
        self.bytes += member.bytes

    def empty(self) -> None:
        """Have none."""
        self.members, self.bytes = [], 0

    def write(self) -> None:
        """One sum in the place of all."""
        last, maker = self.members[-1].operation, self.members[-1].maker
        members = sorted(self.members, key=lambda member: member.bytes % ALIGNMENT != 0)
        with _behind(maker, last.block), emitting_at(last.location):
            operands = [Tensor(member.operation.operands[0]) for member in members]
            results = _summed(operands, attributes_of(last))
        for member, result in zip(members, results, strict=True):
            member.operation.results[0].replace_all_uses_with(result.value)
            member.operation.erase()


def _behind(maker: ir.Operation | None, block: ir.Block) -> ir.InsertionPoint:
    return ir.InsertionPoint.at_block_begin(block) if maker is None else ir.InsertionPoint.after(maker)


def _summed(operands: Sequence[Tensor], attributes: dict) -> list[Tensor]:
    if len(operands) == 1:
        return [AllReduce(operands[0], **attributes)]
    total = AllReduce(_joined([reshape(operand, (operand.size,)) for operand in operands]), **attributes)
    results, start = [], 0
    for operand in operands:
        end = start + product(operand.shape)
        results.append(reshape(total[start:end], operand.shape))
        start = end
    return results


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """Vectors one after the other; an op takes so many."""
    while len(parts) > 1:
        groups = [parts[start : start + VARIADIC_SLOTS] for start in range(0, len(parts), VARIADIC_SLOTS)]
        parts = [Concatenate(list(group), axis=0) if len(group) > 1 else group[0] for group in groups]
    return parts[0]
