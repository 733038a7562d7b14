"""What the parts of the host program that have a file of their own ask of it: memory for values."""

from __future__ import annotations

from typing import Protocol

from blu.dialects.core.mlir import ir
from blu.passes.host.bufferize.views import Root, View, ViewTable


class Host(Protocol):
    """The host program that a step is put into, which has memory."""

    views: ViewTable

    def new_root(self, shape: list[int], element: ir.Type) -> Root: ...
    def plain_root(self, value: ir.Value) -> Root: ...
    def checked_root(self, value: ir.Value) -> Root | None: ...
    def in_order(self, value: ir.Value) -> View: ...
    def memref_of(self, view: View) -> ir.Value: ...
    def copy(self, source: View, target: View) -> None: ...
