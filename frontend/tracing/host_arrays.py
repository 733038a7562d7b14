"""Arrays of other libraries in host memory, as NumPy sees them."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np


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
    if elements.dtype is torch.bfloat16:  # which NumPy has no name for
        return elements.view(torch.int16).numpy().view(np.dtype(ml_dtypes.bfloat16))
    return elements.numpy()
