"""What becomes of a value in the host program: where it is seen transposed, inserted or returned."""

from __future__ import annotations

from blu.dialects.mlir import ir

_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")


def transposed_layout(value: ir.Value) -> list[int] | None:
    """The permutation of the transposes that use a value, where all are alike.

    What is used otherwise too gets their layout only where its last dimension stays the last, so that rows stay whole.
    """
    users = _users_behind_barriers(value)
    transposes = [user for user in users if user.name == "linalg.transpose"]
    orders = {tuple(ir.DenseI64ArrayAttr(user.attributes["permutation"])) for user in transposes}
    if len(orders) != 1:
        return None
    order = list(orders.pop())
    are_kernels = all(user.name in ("linalg.transpose", "func.call") for user in users)
    return order if len(transposes) == len(users) or (are_kernels and order[-1] == len(order) - 1) else None


def _users_behind_barriers(value: ir.Value) -> list[ir.Operation]:
    users = [use.owner.operation for use in value.uses]
    found = [user for user in users if user.name != "blu.barrier"]
    for user in users:
        if user.name == "blu.barrier":
            found += _users_behind_barriers(user.results[0])
    return found


def is_empty(value: ir.Value) -> bool:
    """Whether a value is memory that nothing has been written to yet."""
    return not isinstance(value.owner, ir.Block) and value.owner.name == "tensor.empty"


def is_destination(value: ir.Value, operation: ir.Operation) -> bool:
    """Whether an insertion writes into a copy of `value` rather than reading it."""
    return operation.name == "tensor.insert_slice" and list(operation.operands).index(value) == 1


def only_gives_a_shape(empty: ir.Value, user: ir.Operation) -> bool:
    """Whether an op asks of an empty value only how large it is, and writes all that it reads of it."""
    return user.name == "linalg.transpose" or is_destination(empty, user)


def followed_to_return(value: ir.Value, returned: list[ir.Value]) -> ir.Value | None:
    """The returned value that is this one, as it is, reshaped, or filled further; None where it is not returned."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value in returned:
            return value
        users = [use.owner.operation for use in value.uses]
        waiting.extend(user.results[0] for user in users if user.name in _RESHAPES)
        if len(users) == 1 and is_destination(value, users[0]):
            waiting.append(users[0].results[0])
    return None
