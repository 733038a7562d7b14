"""A function of the user's as a function of its own in the module that is being traced, and calls of its gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import tensor_type
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import operations_in
from blu.dialects.core.op import Effects, operation_class
from blu.dialects.core.regions import close_over
from blu.dialects.inside import inside
from blu.dialects.tensor.tensor import Tensor
from blu.errors import TraceError
from blu.frontend.tracing.flat_function import FlatFunction
from blu.frontend.tracing.messages import Messages, collecting
from blu.frontend.tracing.user_location import user_line, user_location

# How many gradients of gradients there may be.
MAX_DEPTH = 24
# On a function, and on its gradient: which of its results are what ops with effects in it have given.
EFFECTS = "blu.effects"
_depth: ContextVar[int] = ContextVar("gradients", default=0)


@dataclass(frozen=True)
class TracedFunction:
    """A private function, the tensors to call it with, and what it gives.

    After its results it gives what it tells, which who calls it tells then, and the results of all ops with effects in
    it: a gradient that is called for itself takes them, and does not let the effects happen again.
    """

    function: func.FuncOp
    operands: list[Tensor]
    # For each tensor leaf of the arguments its position among the function's arguments.
    places: dict[int, int]
    # For each result whether it is a Python number.
    weak_results: list[bool]
    messages: Messages

    def call(self) -> tuple[list[Tensor], list[Tensor]]:
        """The results, and what ops with effects have given."""
        types = self.function.type.results
        found = func.CallOp(types, self.function.name.value, self._values, loc=user_location()).results
        effects = len(self.weak_results) + len(self.messages.tensors)
        return self._results_of(found), [Tensor(value) for value in found[effects:]]

    def call_gradient(self, leaves: Sequence[int], weak_leaves: Sequence[bool]) -> tuple[list[Tensor], list[Tensor]]:
        """Declare the function's gradient and call it: all results, and the gradient for each leaf, weak as it is."""
        inputs, types = [value.type for value in self._values], self.function.type.results
        outputs = [*types, *(inputs[self.places[leaf]] for leaf in leaves)]
        declaration = self._declare("gradient", inputs, outputs, leaves)
        if EFFECTS in self.function.attributes:
            declaration.attributes[EFFECTS] = self.function.attributes[EFFECTS]
        found = func.CallOp(outputs, declaration.name.value, self._values, loc=user_location()).results
        gradients = zip(found[len(types) :], weak_leaves, strict=True)
        return self._results_of(found), [Tensor(*pair) for pair in gradients]

    def call_pullback(
        self, leaves: Sequence[int], weak_leaves: Sequence[bool], effects: list[Tensor], cotangents: dict[int, Tensor]
    ) -> list[Tensor]:
        """Declare what takes gradients back and call it: the gradient for each leaf.

        `effects` is what ops with effects gave in the call of the function that this belongs to; `cotangents` are
        gradients with respect to results, by their positions, each of its result's type.
        """
        values = [*self._values, *(tensor.value for tensor in (*effects, *cotangents.values()))]
        inputs = [value.type for value in values]
        outputs = [inputs[self.places[leaf]] for leaf in leaves]
        declaration = self._declare("pullback", inputs, outputs, leaves)
        declaration.attributes["blu.pulled_results"] = ir.DenseI64ArrayAttr.get(list(cotangents))
        found = func.CallOp(outputs, declaration.name.value, values, loc=user_location()).results
        return [Tensor(*pair) for pair in zip(found, weak_leaves, strict=True)]

    def call_batched(
        self, operands: Sequence[Tensor], batched: Sequence[bool], size: int, same: Sequence[int]
    ) -> list[Tensor]:
        """Declare the function that is done for `size` slices at once and call it: results with slices in front, but
        for those that are the `same` for all.

        The first operands take the place of the function's own, those which are `batched` with slices in front.
        TraceError for a function with effects, which happen once in each run.
        """
        if EFFECTS in self.function.attributes:
            message = f"vmap: {self.function.name.value} has effects, which would have to happen for each slice"
            raise TraceError(message, location=user_line(), advice="Do it outside of what blu.vmap is given.")
        values = [*(item.value for item in operands), *self._values[len(operands) :]]
        flags = [*map(int, batched), *[0] * (len(values) - len(operands))]
        types = map(tensor_type, self.function.type.results)
        shapes = (item if place in same else item.with_shape((size, *item.shape)) for place, item in enumerate(types))
        outputs = [type_.to_mlir() for type_ in shapes]
        declaration = self._declare("batch", [value.type for value in values], outputs, ())
        del declaration.attributes["blu.with_respect_to"]
        declaration.attributes["blu.batched"] = ir.DenseI64ArrayAttr.get(flags)
        declaration.attributes["blu.same_results"] = ir.DenseI64ArrayAttr.get(list(same))
        declaration.attributes["blu.batch_size"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), size)
        found = func.CallOp(outputs, declaration.name.value, values, loc=user_location()).results
        return self._results_of(found, size)

    @property
    def _values(self) -> list[ir.Value]:
        return [tensor.value for tensor in self.operands]

    def _results_of(self, found: Sequence[ir.Value], slices: int | None = None) -> list[Tensor]:
        """The results of a call, once it is told what the function tells, for each of `slices`."""
        tensors = list(map(Tensor, found))
        self.messages.tell_again(tensors[len(self.weak_results) :], None if slices is None else (slices, False))
        return [Tensor(*pair) for pair in zip(found, self.weak_results, strict=False)]

    def _declare(self, kind: str, inputs: list[ir.Type], outputs: list[ir.Type], leaves: Sequence[int]) -> func.FuncOp:
        name = self.function.name.value
        with ir.InsertionPoint(self.function):
            fresh = _fresh_name(self.function.operation.parent.operation, f"{name}_{kind}")
            declaration = func.FuncOp(fresh, (inputs, outputs), visibility="private", loc=user_location())
        declaration.attributes[f"blu.{kind}_of"] = ir.FlatSymbolRefAttr.get(name)
        places = [self.places[leaf] for leaf in leaves]
        declaration.attributes["blu.with_respect_to"] = ir.DenseI64ArrayAttr.get(places)
        return declaration


def trace_function(flat: FlatFunction) -> TracedFunction:
    """Run a function once, on the arguments of a private function of the module, which keeps what it computes."""
    operands = flat.tensors
    module = _module_of(ir.InsertionPoint.current.block)
    types = [tensor.value.type for tensor in operands]
    with ir.InsertionPoint(module.regions[0].blocks[0]):
        name = _fresh_name(module, flat.__name__)
        traced = func.FuncOp(name, (types, []), visibility="private", loc=user_location())
    block = traced.add_entry_block([user_location()] * len(operands))
    with ir.InsertionPoint(block), one_gradient_deeper(name), collecting() as messages:
        results = [tensor.value for tensor in flat(*map(Tensor, block.arguments))]
        results += [tensor.value for tensor in messages.tensors]
        effects = list(_given_by_effects(block, module))
        func.ReturnOp([*results, *effects], loc=user_location())
    operands += map(Tensor, close_over([block]))
    inputs, outputs = ([item.type for item in values] for values in (block.arguments, [*results, *effects]))
    traced.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, outputs))
    if effects:
        traced.attributes[EFFECTS] = ir.DenseI64ArrayAttr.get([len(results), len(effects)])
    places = {leaf: place for place, leaf in enumerate(flat.places)}
    return TracedFunction(traced, operands, places, flat.weak_results, messages)


def _given_by_effects(block: ir.Block, module: ir.Operation) -> Iterator[ir.Value]:
    """The results of a block's ops that have effects, their bodies' included, and of those in what it calls."""
    for operation in (item.operation for item in block.operations):
        if operation.name == "func.call":
            start, count = _effects_of_callee(operation, module)
            yield from operation.results[start : start + count]
        elif any(_acts(item, module) for item in (operation, *operations_in(operation))):
            yield from operation.results


def _acts(operation: ir.Operation, module: ir.Operation) -> bool:
    if operation.name == "func.call":
        return _effects_of_callee(operation, module)[1] > 0
    cls = operation_class(operation)
    return cls is not None and cls.effects is not Effects.NONE


def _effects_of_callee(call: ir.Operation, module: ir.Operation) -> tuple[int, int]:
    """Which results of a call are what ops with effects have given: the first, and how many."""
    name = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
    functions = (item.operation for item in module.regions[0].blocks[0].operations)
    callee = next(item for item in functions if ir.StringAttr(item.attributes["sym_name"]).value == name)
    if EFFECTS not in callee.attributes:
        return 0, 0
    start, count = ir.DenseI64ArrayAttr(callee.attributes[EFFECTS])
    return start, count


def one_gradient_deeper(name: str) -> AbstractContextManager[None]:
    """Count the gradients that are being traced one inside of another: a function may ask for its own without end."""
    depth = _depth.get() + 1
    if depth > MAX_DEPTH:
        message = f"{name} is {MAX_DEPTH} gradients deep: its gradient asks for itself, or gradients are nested too far"
        raise TraceError(message, location=user_line())
    return inside(_depth, depth)


def _module_of(block: ir.Block) -> ir.Operation:
    operation = block.owner.operation
    while operation.name != "builtin.module":
        operation = operation.parent.operation
    return operation


def _fresh_name(module: ir.Operation, wish: str) -> str:
    taken = {
        ir.StringAttr(item.operation.attributes["sym_name"]).value for item in module.regions[0].blocks[0].operations
    }
    base = wish if wish.isidentifier() and wish != "main" else "function"
    names = [base, *(f"{base}_{number}" for number in range(1, len(taken) + 2))]
    return next(name for name in names if name not in taken)
