"""What arranges elements anew, and makes tensors."""

from __future__ import annotations

from itertools import accumulate
from math import prod
from typing import Any

import blu
from bench.conformance.spelling import along, several, sizes_of, spell_alike, spells

spell_alike({"swapaxes": "swapaxes", "transpose": "swapaxes"}, 3)
spell_alike({"unsqueeze": "expand_dims", "tril": "tril", "triu": "triu"}, 2)
spells("t")(lambda x: x.T)
spells("einsum")(lambda tensors, equation: blu.einsum(equation, *tensors))
spells("stack")(lambda tensors, dim=0: blu.stack(tensors, axis=dim))
spells("unbind")(lambda x, dim=0: blu.unstack(x, dim))
spells("flip")(lambda x, dims: blu.flip(x, axis=tuple(dims)))
spells("movedim")(lambda x, source, destination: blu.moveaxis(x, several(source), several(destination)))
spells("permute")(lambda x, *axes: blu.transpose(x, sizes_of(axes)))
spells("repeat", "tile")(lambda x, *counts: blu.tile(x, sizes_of(counts)))
spells("reshape", "view")(lambda x, *shape: blu.reshape(x, sizes_of(shape)))
spells("broadcast_to")(lambda x, shape: blu.broadcast_to(x, tuple(shape)))
spells("select")(along)
spells("slice")(lambda x, dim=0, start=None, end=None, step=1: along(x, dim, slice(start, end, step)))
spells("roll")(lambda x, shifts, dims=None: blu.roll(x, several(shifts), several(dims)))


@spells("tensordot")
def _tensordot(x: Any, y: Any, dims: Any = 2) -> Any:
    """PyTorch stretches an axis of one element to the other's size, also where both are summed."""
    if not isinstance(dims, int):
        shape, other = list(x.shape), list(y.shape)
        for first, second in zip(*dims, strict=True):
            shape[first] = other[second] = max(shape[first], other[second])
        x, y = blu.broadcast_to(x, shape), blu.broadcast_to(y, other)
    return blu.tensordot(x, y, dims)


@spells("expand")
def _expand(x: Any, *shape: Any) -> Any:
    shape = sizes_of(shape)
    lead = len(shape) - x.ndim
    return blu.broadcast_to(x, tuple(x.shape[at - lead] if size == -1 else size for at, size in enumerate(shape)))


@spells("cat")
def _cat(tensors: Any, dim: int = 0) -> Any:
    """PyTorch leaves out tensors of shape [0] among others."""
    most = max(item.ndim for item in tensors)
    return blu.concatenate([item for item in tensors if item.shape != (0,) or most == 1], axis=dim)


@spells("chunk")
def _chunk(x: Any, count: int, dim: int = 0) -> Any:
    return _split(x, -(-x.shape[dim] // count), dim)


@spells("split")
def _split(x: Any, sizes: Any, dim: int = 0) -> Any:
    """Of PyTorch's sizes, NumPy has the positions between."""
    ends = range(sizes, x.shape[dim], sizes) if isinstance(sizes, int) else [*accumulate(sizes)][:-1]
    return blu.split(x, list(ends), axis=dim)


@spells("flatten")
def _flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if x.ndim == 0:
        return x.reshape(1)
    first, last = start_dim % x.ndim, end_dim % x.ndim
    return x.reshape((*x.shape[:first], prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


@spells("squeeze")
def _squeeze(x: Any, dim: Any = None) -> Any:
    """PyTorch leaves axes that are not 1 as they are."""
    if dim is None:
        return blu.squeeze(x)
    axes = (dim,) if isinstance(dim, int) else dim
    return blu.squeeze(x, tuple(axis for axis in axes if x.ndim and x.shape[axis] == 1))


MODES = {"replicate": "edge", "circular": "wrap", "reflect": "reflect"}


@spells("nn.functional.pad")
def _pad(x: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """PyTorch names pairs from the last dimension on."""
    pairs = [tuple(pad[at : at + 2]) for at in range(0, len(pad), 2)]
    widths = [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]
    if mode == "constant":
        return blu.pad(x, widths, 0.0 if value is None else value)
    return blu.pad(x, widths, mode=MODES[mode])


def _typed(dtype: Any) -> dict[str, Any]:
    return {} if dtype is None else {"dtype": dtype}


spells("eye")(lambda n, m=None, dtype=None, **_: blu.eye(n, m, dtype=dtype))
spells("full")(lambda shape, value, dtype=None, **_: blu.full(tuple(shape), value, dtype=dtype))
spells("full_like")(lambda x, value, dtype=None, **_: blu.full_like(x, value, dtype=dtype))
spells("ones")(lambda *shape, dtype=None, **_: blu.ones(sizes_of(shape), dtype=dtype))
spells("zeros")(lambda *shape, dtype=None, **_: blu.zeros(sizes_of(shape), dtype=dtype))
spells("ones_like")(lambda x, dtype=None, **_: blu.ones_like(x, **_typed(dtype)))
spells("zeros_like")(lambda x, dtype=None, **_: blu.zeros_like(x, **_typed(dtype)))


@spells("arange", concrete=True)
def _arange(*bounds: Any, start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, device: Any = None) -> Any:
    if end is not None:
        bounds = ((bounds or (start,))[0], end, step)
    return blu.arange(*bounds, **_typed(dtype))


@spells("linspace", concrete=True)
def _linspace(start: Any, end: Any, steps: int, dtype: Any = None, **_: Any) -> Any:
    return blu.linspace(float(start), float(end), steps, **_typed(dtype))
