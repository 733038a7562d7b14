"""NumPy arrays as dense attributes and back."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import FLOAT8, as_dtype, bf16, tensor_type
from blu.dialects.core.mlir import ir

# Floats that the bindings do not know, and what their bits are.
_BITS = {dtype.numpy: np.dtype(f"u{dtype.bytes}") for dtype in (bf16, *FLOAT8)}


def encode(value: np.ndarray) -> ir.DenseElementsAttr:
    """A dense attribute with the array's shape and the `blu` element type of its dtype; a splat for strides of 0."""
    if value.size > 1 and not any(value.strides):
        type_ = ir.RankedTensorType.get(value.shape, as_dtype(value.dtype).to_mlir())
        return ir.DenseElementsAttr.get_splat(type_, encode(np.asarray(value.flat[0])).get_splat_value())
    value = np.ascontiguousarray(value) if value.ndim else value
    element = as_dtype(value.dtype).to_mlir()
    type_ = ir.RankedTensorType.get(value.shape, element)
    if value.size == 0:
        return ir.DenseElementsAttr(ir.Attribute.parse(f"dense<> : {type_}"))
    if value.dtype == np.bool_:
        return ir.DenseElementsAttr.get(value)
    bits = value.view(_BITS[value.dtype]) if value.dtype in _BITS else value
    return ir.DenseElementsAttr.get(bits, type=element, shape=value.shape)


def encode_signless(value: np.ndarray) -> ir.DenseElementsAttr:
    """The same with the signless element type of the linalg level (u8 becomes i8 of the same bits)."""
    return encode(value.view(f"int{8 * value.itemsize}") if value.dtype.kind == "u" else value)


def decode(attribute: ir.Attribute) -> np.ndarray:
    """The array of a dense attribute of any of Blu's dtypes. A splat's takes no memory: all its strides are 0."""
    dense = ir.DenseElementsAttr(attribute).maybe_downcast()
    type_ = tensor_type(dense.type)
    if type_.size == 0:
        return np.empty(type_.shape, type_.dtype.numpy)
    if dense.is_splat and type_.size > 1:
        element = ir.RankedTensorType(dense.type).element_type
        single = ir.RankedTensorType.get([], element, loc=ir.Location.unknown(element.context))
        return np.broadcast_to(decode(ir.DenseElementsAttr.get_splat(single, dense.get_splat_value())), type_.shape)
    if type_.dtype.numpy in _BITS:
        return _decode_text(str(dense), type_.size, type_.dtype.numpy).reshape(type_.shape)
    return np.array(dense).astype(type_.dtype.numpy, copy=False).reshape(type_.shape)


def _decode_text(text: str, size: int, dtype: np.dtype) -> np.ndarray:
    """Elements from the attribute's text, since the bindings cannot read them otherwise.

    MLIR prints raw bytes for many elements, else numbers, of which NaN and infinity are patterns of bits.
    """
    if raw := re.match(r'dense<"0x([0-9A-Fa-f]*)">', text):
        found = np.frombuffer(bytes.fromhex(raw[1]), dtype)
    else:
        literals = re.findall(r"0x[0-9A-Fa-f]+|[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?", text[: text.rindex(":")])
        found = np.array([_element(literal, dtype) for literal in literals], dtype)
    return np.broadcast_to(found, (size,)).copy()


def _element(literal: str, dtype: np.dtype) -> Any:
    if literal.startswith("0x"):
        return np.array(int(literal, 16), _BITS[dtype]).view(dtype)[()]
    return np.array(float(literal)).astype(dtype)[()]
