"""The walk back through a function: each operation turns the gradients of its results into those of its operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import computing_dtype, gradient_dtype
from blu.dialects.core.evaluation import on_operand
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import Op, attributes_of, emitting_at, operands_of, operation_class
from blu.dialects.ops.creation import Constant
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError
from blu.passes.framework.base import Pass
from blu.passes.graph.decompose import decompose_operation
from blu.passes.graph.differentiate.bodies import bodies_with_gradients, is_opaque


class Backward:
    """Gradients of a scalar, or of several values, with respect to some values of a block, written at its end."""

    def __init__(self, owner: Pass, block: ir.Block, wanted: Sequence[ir.Value], is_body: bool = False):
        self.owner = owner
        # Of a body, gradients are written of all that it takes, whether or not they are asked for.
        self.is_body = is_body
        self.block = block
        self.wanted = wanted
        # The shares that are known; of halves all of them, which are added up together.
        self.gradients: dict[ir.Value, list[Tensor]] = {}
        # How many ops of the block are those that gradients are taken of.
        self.num_forward = 0

    def run(self, scalar: ir.Value) -> list[ir.Value]:
        """The gradients of `scalar` with respect to the wanted values; zeros where it does not depend on one."""
        self._check_scalar(scalar)
        return self._walk({scalar: lambda: _full(Tensor(scalar), 1)})

    def pull(self, values: Sequence[ir.Value], cotangents: Sequence[ir.Value]) -> list[ir.Value]:
        """The gradients with respect to the wanted values, given those with respect to some values of the block."""
        given: dict[ir.Value, list[ir.Value]] = {}
        for value, cotangent in zip(values, cotangents, strict=True):
            given.setdefault(value, []).append(cotangent)
        return self._walk({value: partial(_total, list(map(Tensor, shares))) for value, shares in given.items()})

    def _walk(self, given: Mapping[ir.Value, Callable[[], Tensor]]) -> list[ir.Value]:
        operations = [operation.operation for operation in self.block.operations]
        self.num_forward = len(operations)
        active = self._active(operations)
        for value, share in given.items():
            if value in active:
                self.gradients[value] = [share()]
        ends = set(self.wanted)  # in a body, what ops have made as well
        for operation in reversed(operations):
            results = operation.results
            if any(result in self.gradients for result in results) and not any(result in ends for result in results):
                self._step(operation, active)
        return [self._gradient_of(value).value for value in self.wanted]

    def _check_scalar(self, scalar: ir.Value) -> None:
        type_ = Tensor(scalar).type
        if type_.shape or not type_.dtype.has_gradient:
            self.owner.fail(
                self.block.owner,
                f"only a float scalar has a gradient, the function's first result is {type_}",
                advice="Reduce it, for example with blu.mean or blu.sum.",
            )

    def decompose(self, results: Sequence[ir.Value]) -> list[ir.Value]:
        """Composite ops without a gradient of their own are differentiated through what they are made of: what some
        results are then."""
        ending = func.ReturnOp(list(results))  # whose operands change with them
        while found := [item.operation for item in self.block.operations if is_opaque(item.operation)]:
            for operation in found:
                decompose_operation(operation)
        found = list(ending.operation.operands)
        ending.operation.erase()
        return found

    def _active(self, operations: list[ir.Operation]) -> set[ir.Value]:
        """The float values that depend on a wanted one."""
        active = set(self.wanted)
        for operation in operations:
            cls = operation_class(operation)
            if cls is None or not any(value in active for value in operation.operands):
                continue
            if cls.vjp is None:
                self._check_rule(operation, cls)
                continue
            self._check_fields(operation, cls, active)
            self._check_stored(operation, active)
            active.update(result for result in operation.results if Tensor(result).dtype.is_float)
        return active

    def _check_rule(self, operation: ir.Operation, cls: type[Op]) -> None:
        """Floats that are computed of floats have a gradient, unless an op says why that is zero."""
        if cls.without_gradient:
            [reason, *_] = cls.without_gradient.values()
            advice = "Or stop gradients before it with blu.stop_gradient."
            self.owner.fail(operation, f"{cls.name}: {reason}", advice=advice)
        if "vjp" not in cls.deliberate and any(Tensor(result).dtype.is_float for result in operation.results):
            advice = "Give its class a vjp or a decompose, or stop gradients before it with blu.stop_gradient."
            self.owner.fail(operation, f"{operation.name} has no gradient", advice=advice)

    def _check_stored(self, operation: ir.Operation, active: set[ir.Value]) -> None:
        """Bodies take and give no gradients of what is only stored in its dtype: a zero would be silent."""
        stored = [value for value in operation.operands if value in active and Tensor(value).dtype.is_stored_only]
        if len(operation.regions) and stored:
            advice = "Cast it in the function that reads it, or stop its gradient with blu.stop_gradient."
            self.owner.fail(operation, f"{operation.name} has no gradient of a {Tensor(stored[0]).type}", advice=advice)

    def _check_fields(self, operation: ir.Operation, cls: type[Op], active: set[ir.Value]) -> None:
        """Whether an op gives a gradient for all that one is asked for."""
        if self.is_body or not cls.without_gradient:
            return
        for item, content in zip(cls.operand_fields(), operands_of(operation), strict=True):
            if item.name in cls.without_gradient and any(value in active for value in _flat([content])):
                advice = "Pass it as an argument, or stop its gradient with blu.stop_gradient."
                self.owner.fail(operation, f"{cls.name}: {cls.without_gradient[item.name]}", advice=advice)

    def _step(self, operation: ir.Operation, active: set[ir.Value]) -> None:
        """Add one operation's share to the gradients of its active operands."""
        cls = operation_class(operation)
        assert cls is not None and cls.vjp is not None, operation.name
        fields = operands_of(operation)
        with emitting_at(operation.location):
            is_told = cls.saving is not None
            upstream = [
                None if is_told and result not in self.gradients else self._gradient_of(result)
                for result in operation.results
            ]
            given = upstream[0] if len(upstream) == 1 and cls.num_results else tuple(upstream)
            results = [Tensor(result) for result in operation.results]
            results = results if cls.num_results else [tuple(results)]
            operands = [on_operand(Tensor, item) for item in fields]
            shares = cls.vjp(given, *operands, *results, **attributes_of(operation), **self._bodies_of(operation))
            shares, values = _flat(shares if isinstance(shares, tuple) else (shares,)), _flat(fields)
            if len(shares) != len(values):
                said = f"the gradient of {cls.name} (its vjp) gives {len(shares)} gradients for {len(values)} operands"
                self.owner.fail(operation, said)
            for value, share in zip(values, shares, strict=True):
                if share is not None and value in active:
                    self._add(value, _fitted(share, value, cls))

    def _bodies_of(self, operation: ir.Operation) -> Mapping[str, Any]:
        return bodies_with_gradients(operation, self._pull_into)

    def _pull_into(
        self, block: ir.Block, wanted: Sequence[ir.Value], given: Mapping[ir.Value, Sequence[Tensor]]
    ) -> list[Tensor | None]:
        """The gradients with respect to some values of another block, written at its end; None for what has none."""
        backward = Backward(self.owner, block, wanted, is_body=True)
        backward.pull(list(given), [_total(list(shares)).value for shares in given.values()])
        return [backward._gradient_of(value) if value in backward.gradients else None for value in wanted]

    def _add(self, value: ir.Value, share: Tensor) -> None:
        known = self.gradients.setdefault(value, [])
        if known and computing_dtype(share.dtype) == share.dtype:
            known[0] = known[0] + share
        else:
            known.append(share)

    def _gradient_of(self, value: ir.Value) -> Tensor:
        known = self.gradients.get(value)
        if known is None:
            return _full(Tensor(value), 0)
        self.gradients[value] = [_total(known)]
        return self.gradients[value][0]


def _total(shares: list[Tensor]) -> Tensor:
    """The sum of shares, rounded once (that of two is, as it is)."""
    if len(shares) <= 2:
        return reduce(add, shares)
    dtype = shares[0].dtype
    return reduce(add, (share.astype(computing_dtype(dtype)) for share in shares)).astype(dtype)


def _flat(fields: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for item in fields:
        flat.extend(item if isinstance(item, (list, tuple)) else [item])
    return flat


def _full(like: Tensor, number: float) -> Tensor:
    """A gradient of a tensor with one number everywhere."""
    scalar = Constant(value=np.asarray(number, gradient_dtype(like.dtype).numpy))
    return scalar.broadcast_to(like.shape) if like.shape else scalar


def _fitted(share: Tensor, value: ir.Value, cls: type[Op]) -> Tensor:
    """Sum the gradient of a broadcast operand over what it was broadcast along."""
    wanted = Tensor(value).type
    shape = wanted.shape
    extra = share.ndim - len(shape)
    fits = extra >= 0 and all(size in (1, own) for size, own in zip(shape, share.shape[extra:], strict=True))
    if share.dtype != gradient_dtype(wanted.dtype) or not fits:
        raise DTypeError(f"the gradient of {cls.name} (its vjp) gives {share.type} for an operand of {wanted}")
    if share.shape == shape:
        return share
    axes = tuple(range(extra)) + tuple(
        dim + extra for dim, size in enumerate(shape) if size == 1 and share.shape[dim + extra] != 1
    )
    summed = share.sum(axis=axes) if axes else share
    return summed.reshape(shape)
