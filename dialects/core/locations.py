"""Source locations: the user's file and line, and the path of the module that emitted the op."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.errors import TraceError


def user_location(file: str, line: int, path: str = "") -> ir.Location:
    """A location at `file:line`, named by the module path ("h.3.mlp.c_fc") where there is one."""
    place = ir.Location.file(file, line, 1)
    return ir.Location.name(path, place) if path else place


def called_as(name: str, location: ir.Location) -> ir.Location:
    """A location that tells as well which function was called there."""
    return ir.Location.fused([location], ir.StringAttr.get(name))


def called_at(location: ir.Location) -> str:
    """The function that was called at a location, or nothing where it does not tell."""
    if not isinstance(location, ir.FusedLoc):
        return ""
    told = str(location.metadata or "")
    if told.startswith('"'):  # compilers fuse locations as well, some with what is no name
        return told.strip('"')
    return next((name for name in map(called_at, location.locations) if name), "")


@dataclass(frozen=True)
class SourcePlace:
    """A position in a file and the module path ("h.0.attn") that it was traced under; line 0 is unknown."""

    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""

    def __str__(self) -> str:
        """`file:line:column (path)`. Python locations have no column; an unknown place is empty."""
        column = f":{self.column}" if self.column and not self.file.endswith(".py") else ""
        spot = f"{self.file}:{self.line}{column}" if self.line else self.file
        return f"{spot} ({self.path})" if self.path and spot else spot or self.path


def place_of(location: ir.Location) -> SourcePlace:
    """The place that a location names; of fused ones, the first that is known."""
    if isinstance(location, ir.FileLineColLoc):
        # MLIR gives the module of a file without `module` the line 0.
        return SourcePlace(
            location.filename, max(location.start_line, 1), location.start_col or int(not location.start_line)
        )
    if isinstance(location, ir.NameLoc):
        return replace(place_of(location.child_loc), path=location.name_str)
    if isinstance(location, ir.CallSiteLoc):
        return place_of(location.callee)
    if isinstance(location, ir.FusedLoc):
        return next((place for place in map(place_of, location.locations) if str(place)), SourcePlace())
    return SourcePlace()


def unknown_location() -> ir.Location:
    """The location of what nobody has written. TraceError where there is no program that it could be in."""
    if ir.Context.current is None:
        raise TraceError(
            "an op is a step of a program, and none is traced here",
            advice="Call it in a function for blu.jit, which may then be called on arrays.",
        )
    return ir.Location.unknown()


def describe(location: ir.Location) -> str | None:
    """`model.py:12 (h.0.attn)` or `x.mlir:3:7`, or None where the location is unknown."""
    return str(place_of(location)) or None


def short(location: ir.Location) -> str:
    """`model.py:12 h.0.attn`: a location without the folders of its file, empty where it is unknown."""
    place = place_of(location)
    spot = replace(place, file=PurePath(place.file).name, path="")
    return f"{spot} {place.path}".strip()
