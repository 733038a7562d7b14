"""Complex arrays as arguments and results: programs have an array of their parts, side by side in a last dimension.

That is the memory of an array of complex numbers as it is, so that nothing is copied. Inside of a program, the parts
are tensors of their own, and a complex tensor is a container of two leaves, `real` and `imag`: whatever takes nested
values (gradients, loops, branches, `blu.vmap`) takes complex ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import COMPLEX, DType, TensorType, check_size, part_dtype
from blu.dialects.hooks import HOOKS
from blu.dialects.tensor.arrangement import stack
from blu.dialects.tensor.complex_tensor import Complex, is_complex, joined
from blu.dialects.tensor.tensor import Tensor
from blu.frontend.complexes.parts import parts_of
from blu.frontend.tracing.tree import Node, flatten, register_family


@dataclass(frozen=True)
class PairsType(TensorType):
    """The type of an argument that is an array of complex numbers, or a Python number: that of their parts."""

    is_number: bool = False

    def __str__(self) -> str:
        return "a Python complex number" if self.is_number else str(TensorType(self.shape[:-1], COMPLEX[self.dtype]))

    __repr__ = __str__


def pairs_type(shape: tuple[int, ...], dtype: DType, is_number: bool = False) -> PairsType:
    """The type of an array of complex numbers. ShapeError where it has too many dimensions or elements."""
    found = PairsType((*shape, 2), part_dtype(dtype), is_number)
    check_size(found)
    return found


def complex_argument(pairs: Tensor, is_number: bool) -> Complex:
    """The complex tensor of an argument that holds its parts."""
    return Complex(*(Tensor(pairs[..., part].value, is_number) for part in (0, 1)))


@dataclass(frozen=True)
class Pairs:
    """A result that is an array of complex numbers: its parts, side by side."""

    parts: Any


def with_pairs(result: Any) -> Any:
    """What a program returns, with complex tensors in the form that their arrays have."""
    leaves, tree = flatten(result, Complex)
    if not any(map(is_complex, leaves)):
        return result
    return tree.unflatten([_paired(leaf) if is_complex(leaf) else leaf for leaf in leaves])


def _paired(value: Any) -> Any:
    if isinstance(value, str | type | np.dtype | DType):
        return value  # which as_results says to be no result
    return Pairs(stack(list(parts_of(value)), -1))


def _rebuilt_pairs(children: dict[Any, Any], _: Node) -> Any:
    parts = children["parts"]
    return HOOKS.compiler.as_whole(parts) if hasattr(parts, "in_host_memory") else Pairs(parts)


def _rebuilt_complex(children: dict[Any, Any], _: Node) -> Any:
    """None where both parts are, of what has no gradient; an array of NumPy's of such."""
    real, imag = children["real"], children["imag"]
    if real is None and imag is None:
        return None
    if isinstance(real, np.ndarray | np.generic):
        return joined(np.asarray(real), np.asarray(imag))
    return Complex(real, imag)


_Children = Callable[[Any], tuple[dict[str, Any], None]]
_children: _Children = lambda value: ({"real": value.real, "imag": value.imag}, None)  # noqa: E731
register_family(Complex, _children, _rebuilt_complex)
register_family(Pairs, lambda value: ({"parts": value.parts}, None), _rebuilt_pairs)
