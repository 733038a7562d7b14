"""The pass that lets gradients of attention be written in the bits in which they are read."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.framework.base import Pass, find
from blu.passes.loops.sink_widening import is_whole_view, view_again


@dataclass(frozen=True)
class NarrowAttention(Pass):
    """Gradients of attention that are only rounded to the dtype of their operands come out rounded.

        %1:3 = "blu.attention_gradient"(%g, %q, ..) {narrow = false} : (bf16 ..) -> (f32, f32, f32)
        %2 = linalg.generic ins(%1#0 : f32) { truncf }

    becomes

        %1:3 = "blu.attention_gradient"(%g, %q, ..) {narrow = true} : (bf16 ..) -> (bf16, bf16, bf16)

    GPU kernels keep sums in registers, in f32, so that rounding them there is the same.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        for operation in list(find(module, "blu.attention_gradient")):
            operation = operation.operation
            readers = [_Rounding.of(result, operation.operands[1]) for result in operation.results]
            found = [reader for reader in readers if reader is not None]
            if len(found) < len(readers):
                continue
            element = ir.RankedTensorType(operation.operands[1].type).element_type
            with ir.InsertionPoint(operation), operation.location:
                attributes = {name: operation.attributes[name] for name in operation.attributes}
                attributes["narrow"] = ir.BoolAttr.get(True)
                types = [ir.RankedTensorType.get(result.type.shape, element) for result in operation.results]
                operands = list(operation.operands)
                narrow = ir.Operation.create(operation.name, results=types, operands=operands, attributes=attributes)
            for reader, result in zip(found, narrow.results, strict=True):
                reader.read_instead(result)
            operation.erase()
            self.count("gradients")


@dataclass(frozen=True)
class _Rounding:
    """The one reader of a value: an op that rounds it, or views of it that end in one."""

    views: tuple[ir.Operation, ...]
    rounding: ir.Operation

    @classmethod
    def of(cls, value: ir.Value, like: ir.Value) -> _Rounding | None:
        """That of a value, where it rounds to the element type of another one."""
        views: list[ir.Operation] = []
        while (user := _only_user(value)) is not None and len(user.results) == 1 and is_whole_view(user.results[0]):
            views.append(user)
            value = user.results[0]
        if user is None or user.name != "linalg.generic" or len(user.operands) != 2:
            return None
        body = [item.operation.name for item in user.regions[0].blocks[0].operations]
        element = ir.RankedTensorType(user.results[0].type).element_type
        is_like = element == ir.RankedTensorType(like.type).element_type
        return cls(tuple(views), user) if body == ["arith.truncf", "linalg.yield"] and is_like else None

    def read_instead(self, value: ir.Value) -> None:
        """Let what reads the rounded value read `value`, seen in the same way."""
        with ir.InsertionPoint(self.rounding), self.rounding.location:
            for view in self.views:
                value = view_again(view, value)
        self.rounding.results[0].replace_all_uses_with(value)
        for operation in (self.rounding, *reversed(self.views)):
            operation.erase()


def _only_user(value: ir.Value) -> ir.Operation | None:
    uses = list(value.uses)
    return uses[0].owner.operation if len(uses) == 1 else None
