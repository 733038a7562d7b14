"""Where in a pipeline a module is, written on the module itself so that a printed file knows where to continue.

Who has written the file stands beside it (`written_by.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from blu.compiler.driver.written_by import ATTRIBUTE as VERSION
from blu.compiler.driver.written_by import this_version
from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import attribute_names
from blu.errors import ParseError

_LEVEL = "blu.level"
_DONE = "blu.passes_done"


@dataclass(frozen=True)
class PipelinePosition:
    """`done` passes of the stage that leads to `level` have run."""

    level: str
    done: int

    def before(self) -> PipelinePosition:
        """The position one pass earlier."""
        return PipelinePosition(self.level, self.done - 1)


START = PipelinePosition("", 0)
"""Where no pass has run."""


def read_position(module: ir.Module) -> PipelinePosition | None:
    """The position that a module carries, or None for hand-written IR."""
    names = attribute_names(module)
    if _LEVEL not in names:
        return None
    attributes = module.operation.attributes
    try:
        done = ir.IntegerAttr(attributes[_DONE]).value if _DONE in names else 0
        return PipelinePosition(ir.StringAttr(attributes[_LEVEL]).value, done)
    except ValueError:
        advice = f'As in {_LEVEL} = "linalg", {_DONE} = 1 : i64; hand-written IR needs neither.'
        raise ParseError(f"{_LEVEL} and {_DONE} do not say where the module is", advice=advice) from None


def write_position(module: ir.Module, position: PipelinePosition | None) -> None:
    """Set the position of a module and the version of this Blu, or remove them."""
    attributes = module.operation.attributes
    for name in attribute_names(module):
        if name in (_LEVEL, _DONE, VERSION):
            del attributes[name]
    if position is None or not position.level:
        return
    sign(module)
    with module.context:
        attributes[_LEVEL] = ir.StringAttr.get(position.level)
        attributes[_DONE] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), position.done)


def sign(module: ir.Module) -> None:
    """Say on a module that this Blu has written it."""
    module.operation.attributes[VERSION] = ir.StringAttr.get(this_version(), module.context)


@contextmanager
def positioned(module: ir.Module, position: PipelinePosition) -> Iterator[None]:
    """The module with that position for the time of the block, and signed; as it was afterwards."""
    before = read_position(module)
    write_position(module, position if position.level else before)
    sign(module)
    try:
        yield
    finally:
        write_position(module, before)
