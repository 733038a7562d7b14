"""Memory for what the host computes."""

from __future__ import annotations

from blu.dialects import plan
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import attributes_of
from blu.passes.host.bufferize.host import Host
from blu.passes.host.bufferize.views import whole


def place_routine(operation: ir.Operation, host: Host) -> None:
    """Emit the call, from memory where all elements lie in order to memory of its own, which a check may look at."""
    sources = [host.memref_of(host.in_order(value)) for value in operation.operands]
    for value in operation.results:
        host.views[value] = whole(host.checked_root(value) or host.plain_root(value))
    targets = [host.memref_of(host.views[value]) for value in operation.results]
    plan.host_call(operation.name.removeprefix("blu."), sources, targets, attributes_of(operation))
