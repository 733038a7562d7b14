"""Source locations: the user's file and line, and the path of the module that emitted the op."""

from __future__ import annotations

from blu.dialects.mlir import ir


def user_location(file: str, line: int, path: str = "") -> ir.Location:
    """A location at `file:line`, named by the module path ("h.3.mlp.c_fc") where there is one."""
    place = ir.Location.file(file, line, 1)
    return ir.Location.name(path, place) if path else place


def describe(location: ir.Location) -> str | None:
    """`model.py:12 (h.0.attn)`, or None where the location is unknown. Of fused locations, the first that is known."""
    if isinstance(location, ir.FileLineColLoc):
        return f"{location.filename}:{location.start_line}"
    if isinstance(location, ir.NameLoc):
        inner = describe(location.child_loc)
        return f"{inner} ({location.name_str})" if inner else location.name_str
    if isinstance(location, ir.CallSiteLoc):
        return describe(location.callee)
    if isinstance(location, ir.FusedLoc):
        return next((text for text in map(describe, location.locations) if text), None)
    return None
