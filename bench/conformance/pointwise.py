"""Functions of elements: arithmetic, comparisons, activations."""

from __future__ import annotations

from typing import Any

import blu
from bench.conformance.spelling import spell_alike, spells

UNARY = (
    "ceil cos cosh erf exp exp2 expm1 floor isfinite isinf isnan log log1p log2 logical_not reciprocal rsqrt sigmoid "
    "sign sin sinh sqrt square tan tanh trunc"
)
BINARY = "logical_and logical_or logical_xor maximum minimum remainder floor_divide fmod matmul dot outer"

spell_alike({name: name for name in UNARY.split()} | {"abs": "absolute", "neg": "negative"}, 1)
spell_alike({f"nn.functional.{name}": name for name in ("relu", "silu")}, 1)
spell_alike({name: name for name in BINARY.split()}, 2)
spell_alike(
    {
        "atan2": "arctan2",
        "eq": "equal",
        "ge": "greater_equal",
        "gt": "greater",
        "le": "less_equal",
        "lt": "less",
        "ne": "not_equal",
        "mul": "multiply",
        "pow": "power",
        "true_divide": "divide",
        "mm": "matmul",
        "mv": "matmul",
        "bmm": "matmul",
        "max.binary": "maximum",
        "min.binary": "minimum",
        "clamp": "clip",
        "clamp_min": "clip",
    },
    3,
)
spells("__radd__")(lambda x, y: y + x)
spells("__rsub__")(lambda x, y: y - x)
spells("__rmul__")(lambda x, y: y * x)
spells("__rdiv__")(lambda x, y: y / x)
spells("__rpow__")(lambda x, y: y**x)
spells("__rmatmul__")(lambda x, y: y @ x)
spells("nn.functional.softplus")(lambda x, beta=1.0, threshold=20.0: blu.softplus(x, beta, threshold))
spells("clamp_max")(lambda x, most: blu.clip(x, None, most))
spells("clone")(lambda x, **_: +x)
spells("round")(lambda x, decimals=0: blu.round(x, decimals))
spells("masked_fill")(lambda x, mask, value: blu.where(mask, value, x))
spells("where")(lambda x, condition, y: blu.where(condition, x, y))
spells("nn.functional.leaky_relu")(lambda x, negative_slope=0.01, **_: blu.leaky_relu(x, negative_slope))


@spells("nn.functional.gelu")
def _gelu(x: Any, approximate: str = "none") -> Any:
    return blu.gelu(x, approximate="erf" if approximate == "none" else approximate)


@spells("add")
def _add(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x + (y if alpha == 1 else y * alpha)


@spells("sub")
def _sub(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x - (y if alpha == 1 else y * alpha)


@spells("addmm", "baddbmm")
def _addmm(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    return x * beta + a @ b * alpha


@spells("div")
def _div(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return blu.floor_divide(x, y)
    return blu.trunc(x / y) if rounding_mode == "trunc" else x / y


@spells("to")
def _to(x: Any, *arguments: Any, **keywords: Any) -> Any:
    given = [item for item in arguments if isinstance(item, str) and item != "cpu"]
    return blu.astype(x, given[0] if given else keywords.get("dtype") or x.dtype)
