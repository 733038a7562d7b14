"""Roundings to halves, which are made before results of convolutions are copied to other places rather than after."""

from __future__ import annotations

import numpy as np

from blu.dialects.core.dtypes import DType
from blu.dialects.core.mlir import ir
from blu.passes.graph.simplify.rules import Site, emit, made_by, simplifies, splat_of

_COPIES = ("pad", "concatenate")
_MOVES = ("reshape", "transpose", "slice", *_COPIES)


@simplifies("convert")
def narrow_before_copies(site: Site) -> ir.Value | None:
    """Rows of products are rounded, and then put together: copies are of half as many bytes.

    %2 = "blu.concatenate"(%0, %1), %3 = "blu.convert"(%2) {dtype = bf16}      ->      one of a bf16 %0 and a bf16 %1
    """
    source, target = site.source_type.dtype, site.type.dtype
    if not (source.is_float and target.is_float and target.bits < source.bits) or not _has_copy(site.operands[0]):
        return None
    return _narrowed(site.operands[0], target) if all(map(_is_of_product, _sources(site.operands[0]))) else None


def _sources(value: ir.Value) -> list[ir.Value]:
    """Where elements come from."""
    site = _move(value)
    if site is None:
        return [value]
    given = site.operands[0] if site.name == "concatenate" else [site.operands[0]]
    return [source for item in given for source in _sources(item)]


def _is_of_product(value: ir.Value) -> bool:
    return any(made_by(value, name) is not None for name in ("row_windows", "matmul", "contract")) or (
        splat_of(value) is not None
    )


def _move(value: ir.Value) -> Site | None:
    """The op that has brought elements here for one reader."""
    if len(list(value.uses)) != 1:
        return None
    return next((site for name in _MOVES if (site := made_by(value, name)) is not None), None)


def _has_copy(value: ir.Value) -> bool:
    """Whether elements were copied on their way, around nothing but what a half holds as well."""
    site = _move(value)
    if site is None:
        return False
    if site.name == "pad":
        around = splat_of(site.operands[1])
        return around is not None and not any(around.tobytes())  # 0, not -0
    return site.name == "concatenate" or _has_copy(site.operands[0])


def _narrowed(value: ir.Value, dtype: DType) -> ir.Value:
    """The value in a dtype, rounded as early as moves allow."""
    site = _move(value)
    if site is None or (site.name == "pad" and not _has_copy(value)):
        return emit("convert", value, dtype=dtype)
    if site.name == "concatenate":
        return emit("concatenate", [_narrowed(item, dtype) for item in site.operands[0]], **site.attributes)
    if site.name == "pad":
        zero = emit("constant", value=np.zeros((), dtype.numpy))
        return emit("pad", _narrowed(site.operands[0], dtype), zero, **site.attributes)
    return emit(site.name, _narrowed(site.operands[0], dtype), **site.attributes)
