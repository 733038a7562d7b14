"""Roundings to halves, made before sums are copied to other places: of convolutions, and of heads that are turned."""

from __future__ import annotations

import numpy as np

from blu.dialects.core.dtypes import DType
from blu.dialects.core.mlir import ir
from blu.passes.graph.simplify.rules import Site, emit, made_by, simplifies, splat_of

_COPIES = ("pad", "concatenate", "row_windows")
_SUMS = ("matmul", "contract", "add", "subtract")
_MOVES = ("reshape", "transpose", "slice", *_COPIES)


@simplifies("convert")
def narrow_before_copies(site: Site) -> ir.Value | None:
    """Sums are rounded, and then put together: copies are of half as many bytes.

    %2 = "blu.concatenate"(%0, %1), %3 = "blu.convert"(%2) {dtype = bf16}      ->      one of a bf16 %0 and a bf16 %1
    """
    source, target = site.source_type.dtype, site.type.dtype
    if not (source.is_float and target.is_float and target.bits < source.bits) or not _has_copy(site.operands[0]):
        return None
    return _narrowed(site.operands[0], target) if all(map(_is_sum, _sources(site.operands[0]))) else None


def _sources(value: ir.Value) -> list[ir.Value]:
    """Where elements come from."""
    site = _move(value)
    if site is None:
        return [value]
    given = site.operands[0] if site.name == "concatenate" else [site.operands[0]]
    return [source for item in given for source in _sources(item)]


def _is_sum(value: ir.Value) -> bool:
    """Whether a value is made of sums, of two terms or of a product's, by a kernel that rounds them as well."""
    return splat_of(value) is not None or any(made_by(value, name) is not None for name in _SUMS)


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
    return site.name in _COPIES or _has_copy(site.operands[0])


def _narrowed(value: ir.Value, dtype: DType) -> ir.Value:
    """The value in a dtype, rounded as early as moves allow."""
    site = _move(value)
    if site is None or (site.name == "pad" and not _has_copy(value)):
        return _rounded(value, dtype)
    if site.name == "concatenate":
        return emit("concatenate", [_narrowed(item, dtype) for item in site.operands[0]], **site.attributes)
    if site.name == "pad":
        zero = emit("constant", value=np.zeros((), dtype.numpy))
        return emit("pad", _narrowed(site.operands[0], dtype), zero, **site.attributes)
    return emit(site.name, _narrowed(site.operands[0], dtype), **site.attributes)


def _rounded(value: ir.Value, dtype: DType) -> ir.Value:
    """The value in a dtype, right behind what makes it: a kernel is where its last op is, and keeps what it reads."""
    with ir.InsertionPoint.after(value.owner.operation):
        return emit("convert", value, dtype=dtype)
