"""Ops that move elements: those that move nothing, and chains that are one op."""

from __future__ import annotations

import numpy as np

from blu.dialects.core.dtypes import DType, bool_, f32, f64
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import value_type
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.passes.graph.simplify.rules import Site, emit, made_by, simplifies, splat_of

# How many bits of an integer each float dtype holds exactly.
_EXACT_BITS = {"f8e4m3": 4, "f8e5m2": 3, "f16": 11, "bf16": 8, "f32": 24, "f64": 53}


# Whoever moves elements on, or multiplies them as they are: not a sum of parts, which widens each on the way.
_MOVED = tuple(
    f"blu.{name}" for name in ("reshape", "transpose", "slice", "row_windows", "convert", "matmul", "contract")
)


@simplifies("convert", "broadcast_to", "reshape", "slice", "pad")
def drop_without_change(site: Site) -> ir.Value | None:
    """For these ops, the operand's type as result type means the operand itself.

    %1 = "blu.reshape"(%0) {shape = [2, 3]} : (tensor<2x3xf32>) -> tensor<2x3xf32>      ->      %0
    """
    return site.operands[0] if site.source_type == site.type else None


@simplifies("stop_gradient")
def nothing_to_stop(site: Site) -> ir.Value | None:
    """Gradients are there already.

    %1 = "blu.stop_gradient"(%0)      ->      %0
    """
    return site.operands[0]


@simplifies("transpose")
def transpose_without_move(site: Site) -> ir.Value | None:
    """Moving dimensions of size 1 moves no element.

    %1 = "blu.transpose"(%0) {permutation = [1, 0]} : (tensor<1x5xf32>) -> tensor<5x1xf32>   ->   "blu.reshape"(%0)
    """
    permutation, shape = site.attributes["permutation"], site.source_type.shape
    moved = [axis for axis in permutation if shape[axis] != 1]
    if moved != sorted(moved):
        return None
    return emit("reshape", site.operands[0], shape=site.type.shape)


@simplifies("reverse")
def reverse_of_nothing(site: Site) -> ir.Value | None:
    """%1 = "blu.reverse"(%0) {axes = [0]} : (tensor<1x5xf32>) -> tensor<1x5xf32>      ->      %0"""
    sizes = site.source_type.shape
    return site.operands[0] if all(sizes[axis] <= 1 for axis in site.attributes["axes"]) else None


@simplifies("concatenate")
def concatenate_without_empty(site: Site) -> ir.Value | None:
    """%2 = "blu.concatenate"(%0, %1) {axis = 0} : (tensor<2xf32>, tensor<0xf32>) -> tensor<2xf32>      ->      %0"""
    axis, operands = site.attributes["axis"], site.operands[0]
    present = [value for value in operands if value_type(value).shape[axis]] or operands[:1]
    if len(present) == 1:
        return present[0]
    return emit("concatenate", present, axis=axis) if len(present) < len(operands) else None


@simplifies("transpose")
def transpose_of_parts(site: Site) -> ir.Value | None:
    """Whoever makes parts writes them where they belong, so that nothing is copied. Rows stay in one piece.

    %2 = "blu.concatenate"(%0, %1) {axis = 3}, %3 = "blu.transpose"(%2) {permutation = [0, 2, 1, 3]}
        ->      "blu.concatenate" of the transposes of %0 and %1
    """
    whole, permutation = made_by(site.operands[0], "concatenate"), site.attributes["permutation"]
    if whole is None or len(list(site.operands[0].uses)) != 1 or permutation[-1] != len(permutation) - 1:
        return None
    parts = [emit("transpose", part, permutation=permutation) for part in whole.operands[0]]
    return emit("concatenate", parts, axis=permutation.index(whole.attributes["axis"]))


@simplifies("reshape")
def reshape_of_reshape(site: Site) -> ir.Value | None:
    """%1 = "blu.reshape"(%0) {shape = [6]}, %2 = "blu.reshape"(%1) {shape = [3, 2]}      ->      "blu.reshape"(%0)"""
    inner = made_by(site.operands[0], "reshape")
    return emit("reshape", inner.operands[0], shape=site.type.shape) if inner else None


@simplifies("broadcast_to")
def broadcast_of_broadcast(site: Site) -> ir.Value | None:
    """%1 = "blu.broadcast_to"(%0) {shape = [3]}, %2 = "blu.broadcast_to"(%1) {shape = [2, 3]}      ->      one of %0"""
    inner = made_by(site.operands[0], "broadcast_to")
    return emit("broadcast_to", inner.operands[0], shape=site.type.shape) if inner else None


@simplifies("transpose")
def transpose_of_transpose(site: Site) -> ir.Value | None:
    """%1 = "blu.transpose"(%0) {permutation = [1, 2, 0]}, %2 = the same of %1      ->      [2, 0, 1] of %0"""
    inner = made_by(site.operands[0], "transpose")
    if inner is None:
        return None
    first = inner.attributes["permutation"]
    return emit("transpose", inner.operands[0], permutation=[first[axis] for axis in site.attributes["permutation"]])


@simplifies("slice")
def slice_of_slice(site: Site) -> ir.Value | None:
    """%1 = "blu.slice"(%0) [2:9:2], %2 = "blu.slice"(%1) [1:3:1]      ->      "blu.slice"(%0) [4:7:2]"""
    inner = made_by(site.operands[0], "slice")
    if inner is None or not site.type.size:
        return None
    first, second = inner.attributes, site.attributes
    strides = [one * two for one, two in zip(first["strides"], second["strides"], strict=True)]
    pairs = zip(first["starts"], first["strides"], second["starts"], strict=True)
    starts = [start + stride * further for start, stride, further in pairs]
    sizes = zip(starts, strides, site.type.shape, strict=True)
    limits = [start + stride * (size - 1) + 1 for start, stride, size in sizes]
    return emit("slice", inner.operands[0], starts=starts, limits=limits, strides=strides)


@simplifies("convert")
def convert_of_convert(site: Site) -> ir.Value | None:
    """A first conversion that loses nothing is left out.

    %1 = "blu.convert"(%0) {dtype = f32}, %2 = "blu.convert"(%1) {dtype = i8}      ->      one convert of a bf16 %0
    """
    inner = made_by(site.operands[0], "convert")
    if inner is None or not _is_detour(inner.source_type.dtype, inner.type.dtype, site.type.dtype):
        return None
    return emit("convert", inner.operands[0], dtype=site.type.dtype)


@simplifies("reshape", "transpose", "slice", "reverse")
def move_before_widening(site: Site) -> ir.Value | None:
    """What only looks at elements looks at the narrow ones, which a later conversion may want back.

    %1 = "blu.convert"(%0) {dtype = f32}, %2 = "blu.reshape"(%1)      ->      first "blu.reshape", of a bf16 %0
    """
    inner = made_by(site.operands[0], "convert")
    if inner is None:
        return None
    narrow, wide = inner.source_type.dtype, inner.type.dtype
    if not (narrow.is_float and _holds_all(wide, narrow)):
        return None
    moved = emit(site.name, inner.operands[0], **site.attributes)
    return emit("convert", moved, dtype=wide)


@simplifies("pad")
def pad_before_widening(site: Site) -> ir.Value | None:
    """Narrow elements are padded where they hold the number that stands around them, and nobody computes with that.

    %1 = "blu.convert"(%0) {dtype = f32}, %2 = "blu.pad"(%1, 0.0)      ->      first "blu.pad", of a bf16 %0
    """
    if not all(use.owner.name in _MOVED for use in site.operation.results[0].uses):
        return None
    kept = made_by(site.operands[0], "barrier")
    inner, value = made_by((kept or site).operands[0], "convert"), splat_of(site.operands[1])
    if inner is None or value is None:
        return None
    narrow, wide = inner.source_type.dtype, inner.type.dtype
    if not (narrow.is_float and _holds_all(wide, narrow)):
        return None
    with np.errstate(over="ignore"):
        around = value.astype(narrow.numpy)
    if around.astype(wide.numpy).tobytes() != value.tobytes():
        return None
    source = emit("barrier", inner.operands[0]) if kept else inner.operands[0]
    moved = emit("pad", source, emit("constant", value=np.asarray(around)), **site.attributes)
    return emit("convert", moved, dtype=wide)


def _is_detour(source: DType, middle: DType, target: DType) -> bool:
    """Whether conversion through `middle` always gives what a direct one gives.

    A float may be saturated or rounded on its way to the target where an integer wraps or is rounded twice.
    """
    if not _holds_all(middle, source):
        return False
    return middle.is_float == source.is_float or target in (bool_, f32, f64)


def _holds_all(wide: DType, narrow: DType) -> bool:
    """Whether a dtype holds all numbers of another one."""
    if narrow == bool_ or wide == narrow:
        return True
    if wide == bool_ or (narrow.is_float and not wide.is_float):
        return False
    if narrow.is_float:
        return wide.bits > narrow.bits
    if wide.is_float:
        return _EXACT_BITS[wide.name] >= narrow.bits
    return wide.bits > narrow.bits and wide.kind == "signed"


def broadcasting(site: Site) -> ir.Value | None:
    """Elementwise ops broadcast by themselves.

    %1 = "blu.broadcast_to"(%0) {shape = [4, 3]}, %2 = "blu.add"(%x, %1)      ->      "blu.add"(%x, %0)
    """
    for place, value in enumerate(site.operands):
        inner = made_by(value, "broadcast_to")
        if inner is None:
            continue
        operands = [*site.operands[:place], inner.operands[0], *site.operands[place + 1 :]]
        if broadcast_shapes(*(value_type(operand).shape for operand in operands)) == site.type.shape:
            return emit(site.name, *operands, **site.attributes)
    return None
