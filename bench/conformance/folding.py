"""What folds or carries along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import blu
from bench.conformance.spelling import several, spells


def _folds(function: Callable[..., Any]) -> Callable[..., Any]:
    def fold(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None, **_: Any) -> Any:
        typed = {} if dtype is None else {"dtype": dtype}
        return function(x, axis=several(dim), keepdims=keepdim, **typed)

    return fold


for _name in ("all", "any", "mean", "sum", "prod", "argmax", "argmin", "logsumexp"):
    spells(_name)(_folds(getattr(blu, _name)))
spells("amax")(_folds(blu.max))
spells("amin")(_folds(blu.min))


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    def spread(x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, correction: Any = None) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        count = int(unbiased) if correction is None else correction
        return function(x, axis=several(dim), correction=count, keepdims=keepdim)

    return spread


spells("var")(_spread(blu.var))
spells("std")(_spread(blu.std))


def _typed(x: Any, dtype: Any) -> Any:
    return x if dtype is None else x.astype(dtype)


@spells("softmax")
def _softmax(x: Any, dim: Any = None, dtype: Any = None, **_: Any) -> Any:
    return blu.softmax(_typed(x, dtype), axis=-1 if dim is None else dim)


@spells("log_softmax")
def _log_softmax(x: Any, dim: Any = None, dtype: Any = None, **_: Any) -> Any:
    return blu.log_softmax(_typed(x, dtype), axis=-1 if dim is None else dim)


@spells("nn.functional.softmin")
def _softmin(x: Any, dim: Any = None, dtype: Any = None, **_: Any) -> Any:
    return _softmax(-x, dim, dtype)


spells("cumsum")(lambda x, dim, dtype=None: blu.cumsum(_typed(x, dtype), axis=dim))
spells("cumprod")(lambda x, dim, dtype=None: blu.cumprod(_typed(x, dtype), axis=dim))


@spells("nn.functional.normalize")
def _normalize(x: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, **_: Any) -> Any:
    return x / blu.maximum(blu.vector_norm(x, axis=several(dim), keepdims=True, ord=p), eps)
