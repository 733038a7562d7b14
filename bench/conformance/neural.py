"""Layers, losses, convolutions and windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import blu
from bench.conformance.spelling import several, spells

spells("nn.functional.linear")(lambda x, w, b=None: x @ w.T if b is None else x @ w.T + b)
spells("nn.functional.mse_loss")(lambda x, y, reduction="mean", **_: blu.mse_loss(x, y, reduction=reduction))


def _convolves(function: Callable[..., Any]) -> Callable[..., Any]:
    def convolve(x: Any, w: Any, b: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1):
        return function(x, w, b, stride=stride, padding=padding, dilation=dilation, groups=groups)

    return convolve


spells("nn.functional.conv1d")(_convolves(blu.conv1d))
spells("nn.functional.conv2d")(_convolves(blu.conv2d))


@spells("nn.functional.avg_pool2d")
def _avg_pool(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: Any = None,
) -> Any:
    return blu.avg_pool2d(
        x,
        _both(kernel_size),
        _both(stride) if stride else None,
        _both(padding),
        count_include_pad,
        ceil_mode=ceil_mode,
        divisor_override=divisor_override,
    )


@spells("nn.functional.max_pool2d", results=1)
def _max_pool(x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, **options: Any) -> Any:
    ceil_mode = options.get("ceil_mode", False)
    return blu.max_pool2d(x, _both(kernel_size), _both(stride) if stride else None, _both(padding), dilation, ceil_mode)


def _both(sizes: Any) -> Any:
    """A size for both axes, which PyTorch also takes as a tuple of one."""
    return sizes[0] if isinstance(sizes, tuple | list) and len(sizes) == 1 else several(sizes)


def _channels(x: Any, values: Any) -> Any:
    """A vector as it broadcasts over the channels of x [N, C, ...]."""
    return values.reshape((-1,) + (1,) * (x.ndim - 2))


def _scaled(x: Any, weight: Any, bias: Any) -> Any:
    x = x if weight is None else x * _channels(x, weight)
    return x if bias is None else x + _channels(x, bias)


@spells("nn.functional.batch_norm")
def _batch_norm(x: Any, mean: Any, var: Any, weight: Any = None, bias: Any = None, *options: Any, **named: Any) -> Any:
    named = dict(zip(("training", "momentum", "eps"), options, strict=False)) | named
    if named.get("training", False):
        axes = (0, *range(2, x.ndim))
        mean, var = blu.mean(x, axis=axes), blu.var(x, axis=axes)
    scale = blu.rsqrt(_channels(x, var) + named.get("eps", 1e-5))
    return _scaled((x - _channels(x, mean)) * scale, weight, bias)


@spells("nn.functional.group_norm")
def _group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    grouped = x.reshape((x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    rows = blu.layer_norm(grouped, eps=eps, axis=tuple(range(2, grouped.ndim)))
    return _scaled(rows.reshape(x.shape), weight, bias)


@spells("nn.functional.layer_norm")
def _layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    return blu.layer_norm(x, weight, bias, eps=eps, axis=tuple(range(-len(shape), 0)))


@spells("nn.functional.rms_norm")
def _rms_norm(x: Any, shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    own = 2.0**-52  # of float64, where PyTorch is given none
    return blu.rms_norm(x, weight, eps=own if eps is None else eps, axis=tuple(range(-len(shape), 0)))


def _classes_last(x: Any) -> Any:
    return blu.moveaxis(x, 1, -1) if x.ndim > 1 else x


@spells("nn.functional.nll_loss")
def _nll(x: Any, targets: Any, weight: Any = None, *, ignore_index: int = -100, reduction: str = "mean") -> Any:
    return blu.nll_loss(_classes_last(x), targets, weight, ignore_index=ignore_index, reduction=reduction)


@spells("nn.functional.cross_entropy")
def _cross_entropy(x: Any, targets: Any, **options: Any) -> Any:
    soft = x.shape == targets.shape
    return blu.cross_entropy(_classes_last(x), _classes_last(targets) if soft else targets, **options)


@spells("nn.functional.dropout", is_random=lambda given: given.get("training", True) and 0 < given.get("p", 0.5) < 1)
def _dropout(x: Any, p: float = 0.5, training: bool = True, **_: Any) -> Any:
    return blu.dropout(x, p, blu.random.key(0)) if training else +x


@spells("nn.functional.scaled_dot_product_attention", is_random=lambda given: given.get("dropout_p", 0) > 0)
def _attention(
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    **_: Any,
) -> Any:
    rows: dict[str, Any] = {"offset": 0} if is_causal else {}  # PyTorch's triangle begins at the first query
    key = blu.random.key(0)
    return blu.attention(q, k, v, attn_mask, causal=is_causal, scale=scale, dropout=dropout_p, dropout_key=key, **rows)
