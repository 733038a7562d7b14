"""Math functions on GPUs: in f64, by expansions that CPUs do not use, and in f32, most with the CPU's bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import blu
from bench.gpu.case import Case

ANYWHERE = (-6.0, 6.0)
# Where a function has moderate results.
DOMAINS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("exp", "exp2", "expm1", "tanh", "sinh", "cosh", "arcsinh", "erf", "erfc"), ANYWHERE),
    **dict.fromkeys(("sin", "cos", "arctan", "cbrt"), ANYWHERE),
    **dict.fromkeys(("log", "log2", "log10"), (1e-6, 10.0)),
    **dict.fromkeys(("arcsin", "arccos"), (-1.0, 1.0)),
    "log1p": (-0.99, 10.0),
    "arccosh": (1.0, 10.0),
    "arctanh": (-0.99, 0.99),
    "tan": (-1.5, 1.5),
    "rsqrt": (0.1, 10.0),
}
SPECIALS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, np.inf, -np.inf, np.nan, 5e-324, 1e-310, 710.4, 746.0, -746.0])
# One unit in the last place of f64 is 2.2e-16; both sides are a few units from the truth.
F64_ERROR = 1e-15
# What the GPU's own exponential makes in f32 is a few units of the result from the CPU's.
F32_ERRORS = dict.fromkeys(("exp", "exp2", "tanh"), 4 * 2.0**-23)


def cases() -> Iterator[Case]:
    """All cases of this file."""
    random = np.random.default_rng(11)
    for name, (low, high) in DOMAINS.items():
        x = random.uniform(low, high, 4096)
        yield Case(f"{name} f64", _function(name), (x,), F64_ERROR)
        yield Case(f"{name} f64 special", _function(name), (SPECIALS,), F64_ERROR)
        yield Case(f"{name} f32", _function(name), (x.astype(np.float32),), F32_ERRORS.get(name, 0.0))
    x, y = random.uniform(0.1, 5.0, 4096), random.uniform(-3.0, 3.0, 4096)
    pairs = tuple(grid.ravel() for grid in np.meshgrid(SPECIALS, SPECIALS))
    for name in ("power", "arctan2"):
        yield Case(f"{name} f64", _function(name), (x, y), F64_ERROR)
        yield Case(f"{name} f64 special", _function(name), pairs, F64_ERROR)
        yield Case(f"{name} f32", _function(name), (x.astype(np.float32), y.astype(np.float32)), 0.0)
    angles = random.uniform(1.0, 2.0, 4096)
    yield Case(
        "huge angles f64",
        lambda x: (blu.sin(x), blu.cos(x)),
        (angles * 2.0 ** random.integers(15, 1000, 4096),),
        F64_ERROR,
    )
    yield Case("decay to a power", lambda step: 1.0 - blu.power(0.999, step), (np.arange(1.0, 2000.0),), F64_ERROR)


def _function(name: str) -> Callable:
    function = getattr(blu, name)
    return lambda *operands: function(*operands)
