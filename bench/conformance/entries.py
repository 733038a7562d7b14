"""Which operators of torch.testing are compared."""

from __future__ import annotations

import importlib.util
import sys
import types
import unittest
from collections.abc import Iterator
from functools import cache
from typing import Any

# Those that models use most; with their variants 174 entries.
NAMES = """
    __getitem__ __radd__ __rdiv__ __rmatmul__ __rmul__ __rpow__ __rsub__ abs add addmm all amax amin any arange argmax
    argmin atan2 baddbmm bmm broadcast_to cat ceil chunk clamp clamp_max clamp_min clone cos cosh cumprod cumsum div dot
    einsum eq erf exp exp2 expand expm1 eye flatten flip floor floor_divide fmod full full_like gather ge gt index_add
    index_select isfinite isinf isnan le linspace log log1p log2 log_softmax logical_and logical_not logical_or
    logical_xor logsumexp lt masked_fill matmul max.binary maximum mean min.binary minimum mm movedim mul mv narrow ne
    neg nn.functional.avg_pool2d nn.functional.batch_norm nn.functional.conv1d nn.functional.conv2d
    nn.functional.cross_entropy nn.functional.dropout nn.functional.embedding nn.functional.gelu
    nn.functional.group_norm nn.functional.layer_norm nn.functional.leaky_relu nn.functional.linear
    nn.functional.max_pool2d nn.functional.mse_loss nn.functional.nll_loss nn.functional.normalize
    nn.functional.one_hot nn.functional.pad nn.functional.relu nn.functional.rms_norm
    nn.functional.scaled_dot_product_attention nn.functional.silu nn.functional.softmin nn.functional.softplus one_hot
    ones ones_like outer permute pow prod reciprocal remainder repeat reshape roll round rsqrt scatter_add select
    sigmoid sign sin sinh slice softmax split sqrt square squeeze stack std sub sum swapaxes t take_along_dim tan tanh
    tensordot tile to transpose tril triu true_divide trunc unbind unsqueeze var view where zeros zeros_like
""".split()

# Without a gradient of their own in float64: the same function on complex numbers, and one that needs a GPU.
LEFT_OUT = {("nn.functional.silu", "complex"), ("bmm", "triton_optimized")}
ALIASES = {"one_hot": "nn.functional.one_hot", "swapaxes": "transpose"}


@cache
def table() -> list[Any]:
    """PyTorch's table of operators.

    The module it is in takes the base of its test cases, of which there are none here, from a package that PyTorch does
    not bring with it: unittest's will do where that is not installed.
    """
    if importlib.util.find_spec("expecttest") is None:
        base = types.ModuleType("expecttest")
        vars(base)["TestCase"] = unittest.TestCase
        sys.modules["expecttest"] = base
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def entries_of(name: str) -> Iterator[Any]:
    """The entries of PyTorch's table of a name, which may have a variant's after a dot."""
    own = ALIASES.get(name, name)
    for entry in table():
        full = f"{entry.name}.{entry.variant_test_name}"
        if own in (entry.name, full) and (entry.name, entry.variant_test_name) not in LEFT_OUT:
            yield entry


def samples_of(entry: Any, of_complex: bool = False) -> list[Any]:
    """Its samples in float64 (of int64 where it takes only whole numbers), with gradients where it has some; or those
    in complex128, none where it does not take that."""
    import torch

    if of_complex:
        if torch.complex128 not in entry.dtypes:
            return []
        torch.manual_seed(0)
        learns = entry.supports_autograd and torch.complex128 in entry.backward_dtypes
        return list(entry.sample_inputs("cpu", torch.complex128, requires_grad=learns))
    whole = entry.dtypes and torch.float64 not in entry.dtypes
    dtype = torch.int64 if whole else torch.float64
    torch.manual_seed(0)
    learns = dtype.is_floating_point and entry.supports_autograd
    return list(entry.sample_inputs("cpu", dtype, requires_grad=learns))
