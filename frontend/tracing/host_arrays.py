"""Arrays of other libraries in host memory, as NumPy sees them."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

UNKNOWN_TO_NUMPY = {
    dtype.name: dtype for dtype in map(np.dtype, (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))
}


def as_host_array(value: Any) -> Any:
    """A PyTorch tensor in host memory as a NumPy array of its elements, without a copy; anything else as it is.

    A tensor that is more than its elements (sparse, quantised) stays one. Blu does not import torch: whoever passes
    its tensors has done so.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        return value
    if value.layout is not torch.strided or value.is_quantized:
        return value
    elements = value.detach().resolve_conj().resolve_neg()
    name = str(elements.dtype).removeprefix("torch.")
    if name in UNKNOWN_TO_NUMPY:
        bits = torch.int16 if elements.element_size() == 2 else torch.uint8
        return elements.view(bits).numpy().view(UNKNOWN_TO_NUMPY[name])
    return elements.numpy()
