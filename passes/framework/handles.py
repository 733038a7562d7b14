"""Operations that a user's pass keeps beyond its run: made to raise, because MLIR would read freed memory.

MLIR's Python handles do not know when the operation behind them is erased, and printing such a handle ends the process.
After each pass that is not ours, all operation views it has made and kept are marked invalid: any use of one raises
`RuntimeError: the operation has been invalidated`, which the driver reports as "op no longer valid".
Limit: this finds views (what `find`, `module.body` and `op.parent` give) of ops with a class, which all have but those
of `async` and of dialects that MLIR does not know. Bare `ir.Operation`, `ir.Value` and `ir.Block` objects cannot be
found and stay dangerous; a process of its own (`--isolate`) survives those too.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from blu.dataclass import dataclass
from blu.dialects.core import mlir
from blu.dialects.core.dialect import BluDialect
from blu.dialects.core.mlir import ir
from blu.dialects.plan import PlanDialect


@contextmanager
def invalidating_kept_operations(context: ir.Context) -> Iterator[None]:
    """Invalidate the operation views of `context` that are made inside of the block and outlive it.

    They are the young ones: nothing grows old meanwhile, since the collector waits. All objects of a process are looked
    at only if a pass asks it to collect.
    """
    _give_classes()
    before = _Before({id(view): view for view in _live_views(_YOUNG)})
    was_enabled = gc.isenabled()
    gc.disable()
    gc.callbacks.append(before.notice)
    try:
        yield
    finally:
        gc.callbacks.remove(before.notice)
        for view in _live_views(*((_YOUNG, *_OLDER) if before.is_all else (_YOUNG,))):
            if id(view) not in before.views and view.operation.context is context:
                view.operation._set_invalid()
        if was_enabled:
            gc.enable()


def _give_classes() -> None:
    """Let all ops have classes: MLIR's own view of an op without one is unknown to the collector.

    Those of `llvm`, which other programs for processors do without, take 45 ms, once.
    """
    for dialect in (BluDialect, PlanDialect):
        dialect.register_views()
    _ = mlir.llvm


_YOUNG, _OLDER = 0, (1, 2)
"""Generations of the collector. An object grows older when it outlives a collection."""


@dataclass
class _Before:
    """The views that were there before the block, by their numbers: the young ones, or all of them."""

    views: dict[int, ir.OpView]
    is_all: bool = False

    def notice(self, phase: str, about: dict[str, int]) -> None:
        """Note the older views before the first collection, after which those of the block are among them."""
        if not self.is_all:
            self.views |= {id(view): view for view in _live_views(*_OLDER)}
            self.is_all = True


def _live_views(*generations: int) -> list[ir.OpView]:
    # By type alone: isinstance would ask objects for their __class__, and dead weak proxies raise.
    return [
        item for generation in generations for item in gc.get_objects(generation) if issubclass(type(item), ir.OpView)
    ]
