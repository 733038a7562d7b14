"""Random numbers from keys: a key always gives the same numbers, on every target and with any number of threads.

key = blu.random.key(0)
first, second = blu.random.split(key, 2)        # independent keys; use every key for one draw
noise = blu.random.normal(first, (2, 3))
"""

from blu import errors
from blu.frontend.functional.draws import (
    bernoulli,
    bits,
    categorical,
    fold_in,
    integers,
    key,
    normal,
    permutation,
    split,
    uniform,
)
from blu.frontend.random.distributions import (
    beta,
    cauchy,
    choice,
    dirichlet,
    exponential,
    gamma,
    gumbel,
    laplace,
    logistic,
    poisson,
    trunc_normal,
)

__all__ = [
    "bernoulli",
    "beta",
    "bits",
    "categorical",
    "cauchy",
    "choice",
    "dirichlet",
    "exponential",
    "fold_in",
    "gamma",
    "gumbel",
    "integers",
    "key",
    "laplace",
    "logistic",
    "normal",
    "permutation",
    "poisson",
    "split",
    "trunc_normal",
    "uniform",
]

__getattr__ = errors.guessing(globals())
