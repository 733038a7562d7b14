"""What a kernel computes at its beginning from memory that nobody writes: it need not wait for other kernels before."""

from __future__ import annotations

from dataclasses import dataclass, field

from blu.dialects.core.mlir import ir

_LOADS = ("llvm.load", "memref.load", "vector.load")
_PURE = (
    "arith.",
    "vector.extract",
    "vector.bitcast",
    "nvvm.read.ptx.sreg.",
    "llvm.inttoptr",
    "llvm.extractelement",
    "memref.extract_aligned_pointer_as_index",
)


@dataclass
class EarlyReads:
    """What a kernel's beginning computes and loads from the arguments numbered `constant`.

    `read` are those of them that loads were found of.
    """

    constant: frozenset[int]
    read: set[int] = field(default_factory=set)

    def gather(self, block: ir.Block) -> ir.Operation:
        """Move it all to the top of the block; the first op that is left. Nothing is moved where nothing is loaded."""
        early, late, made = [], [], set()
        for operation in (item.operation for item in block.operations):
            is_load = operation.name in _LOADS
            if operation.regions or not (is_load or operation.name.startswith(_PURE)):
                break
            has_operands = all(isinstance(value.owner, ir.Block) or value.owner in made for value in operation.operands)
            if has_operands and (not is_load or self._is_constant(operation.operands[0])):
                early.append(operation)
                made.add(operation)
            else:
                late.append(operation)
        if not self.read:
            return block.operations[0].operation
        last = early[-1]
        for operation in late:
            operation.move_after(last)
            last = operation
        return block.operations[len(early)].operation

    def _is_constant(self, address: ir.Value) -> bool:
        """Whether all memory that an address comes from is constant; then it is noted as read."""
        found: set[int] = set()
        waiting, seen = [address], set()
        while waiting:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            if isinstance(value.owner, ir.Block):
                number = ir.BlockArgument(value).arg_number
                if number not in self.constant:
                    return False
                found.add(number)
            elif value.owner.name in _LOADS:
                return False
            else:
                waiting.extend(value.owner.operands)
        self.read |= found
        return bool(found)
