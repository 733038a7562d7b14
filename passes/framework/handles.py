"""Operations that a user's pass keeps beyond its run: made to raise, because MLIR would read freed memory.

MLIR's Python handles do not know when the operation behind them is erased, and printing such a handle ends the process.
After each pass that is not ours, all operation views it has made and kept are marked invalid: any use of one raises
`RuntimeError: the operation has been invalidated`, which the driver reports as "op no longer valid".
Limit: this finds views (what `find`, `module.body` and `op.parent` give). Bare `ir.Operation`, `ir.Value` and
`ir.Block` objects cannot be found and stay dangerous; a process of its own (`--isolate`) survives those too.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from blu.dialects.core.mlir import ir


@contextmanager
def invalidating_kept_operations(context: ir.Context) -> Iterator[None]:
    """Invalidate the operation views of `context` that are made inside of the block and outlive it."""
    before = {id(view): view for view in _live_views()}
    try:
        yield
    finally:
        for view in _live_views():
            if id(view) not in before and view.operation.context is context:
                view.operation._set_invalid()


def _live_views() -> list[ir.OpView]:
    # By type alone: isinstance would ask objects for their __class__, and dead weak proxies raise.
    return [item for item in gc.get_objects() if issubclass(type(item), ir.OpView)]
