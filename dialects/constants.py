"""NumPy arrays as dense attributes and back."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from blu.dialects.dtypes import as_dtype, tensor_type
from blu.dialects.mlir import ir


def encode(value: np.ndarray) -> ir.DenseElementsAttr:
    """A dense attribute with the array's shape and the `blu` element type of its dtype."""
    value = np.ascontiguousarray(value) if value.ndim else value
    element = as_dtype(value.dtype).to_mlir()
    type_ = ir.RankedTensorType.get(value.shape, element)
    if value.size == 0:
        return ir.DenseElementsAttr(ir.Attribute.parse(f"dense<> : {type_}"))
    if value.dtype == np.bool_:
        return ir.DenseElementsAttr.get(value)
    bits = value.view(np.uint16) if value.dtype == ml_dtypes.bfloat16 else value
    return ir.DenseElementsAttr.get(bits, type=element, shape=value.shape)


def decode(attribute: ir.Attribute) -> np.ndarray:
    """The array of a dense attribute of any of Blu's dtypes."""
    dense = ir.DenseElementsAttr(attribute).maybe_downcast()
    type_ = tensor_type(dense.type)
    if type_.size == 0:
        return np.empty(type_.shape, type_.dtype.numpy)
    if type_.dtype.numpy == ml_dtypes.bfloat16:
        flat = [dense[index] for index in range(len(dense))]
        return np.array(flat, np.float32).astype(ml_dtypes.bfloat16).reshape(type_.shape)
    return np.array(dense).astype(type_.dtype.numpy, copy=False).reshape(type_.shape)
