"""Numbers of many distributions, each a function of uniform or normal ones drawn with its key.

Parameters are numbers or tensors, which broadcast; where `shape` is not given it is theirs. Computed in f32 for halves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from blu.dialects.core.dtypes import DType, as_dtype, computing_dtype, f64
from blu.dialects.ops.identity import stop_gradient
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.dialects.tensor.arithmetic import (
    absolute,
    clip,
    erf,
    exp,
    floor,
    log,
    log1p,
    logaddexp,
    minimum,
    sqrt,
    tan,
    where,
)
from blu.dialects.tensor.arrangement import as_shape, broadcast_to, expand_dims
from blu.dialects.tensor.folding import all as all_of
from blu.dialects.tensor.folding import max as largest
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor, converted
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, DTypeError, ShapeError
from blu.frontend.branches import cond
from blu.frontend.functional.creation import zeros
from blu.frontend.functional.draws import UNIFORM_BITS, categorical, fold_in, integers, normal, permutation, unit
from blu.frontend.functional.special import erfinv, lgamma
from blu.frontend.loops import fori_loop
from blu.frontend.random.implicit import with_slope

# From this mean on, numbers of Poisson's distribution are drawn by rejection, below it by adding up probabilities.
_REJECTED_FROM = 10.0
# Rejection takes 19 of 20 numbers in each round, or 6 of 7: one in 10^13 or fewer is left after so many.
_ROUNDS_OF_GAMMA, _ROUNDS_OF_POISSON = 10, 16
# Below the mean from which on they are rejected, as many counts as there are to be told from none.
_COUNTS = 64


def _float(dtype: Any) -> tuple[DType, DType]:
    """A float dtype, and that to compute in."""
    target = as_dtype(dtype)
    if not target.is_float:
        raise DTypeError(f"numbers of this distribution are of a float dtype, not {target}")
    return target, computing_dtype(target)


def _shape_of(shape: Any, *parameters: Tensor) -> tuple[int, ...]:
    """The shape asked for, or that of the parameters together. ShapeError where these do not broadcast to it."""
    common = broadcast_shapes(*(parameter.shape for parameter in parameters))
    if shape is None:
        return common
    wanted = as_shape(shape)
    if broadcast_shapes(common, wanted) != wanted:
        raise ShapeError(f"parameters of shape {list(common)} do not broadcast to {list(wanted)}")
    return wanted


def _above_zero(name: str, value: Any) -> None:
    """ArgumentError for a number that is known and not above 0."""
    if isinstance(value, float | int) and not value > 0:
        raise ArgumentError(f"{name} must be above 0, got {value}")


def _between(key: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Uniform numbers between 0 and 1, neither of which they are."""
    step = 2.0 ** -UNIFORM_BITS[dtype]
    return minimum(unit(key, shape, dtype) + step / 2, 1 - step)


@public
def exponential(key: Any, shape: Any = (), dtype: Any = "f32") -> Tensor:
    """Numbers of density exp(-x) from 0 on; divide by the rate for others.

    DTypeError for a dtype that is no float's.
    """
    target, wide = _float(dtype)
    return converted(-log1p(-unit(key, as_shape(shape), wide)), target)


@public
def laplace(key: Any, shape: Any = (), dtype: Any = "f32") -> Tensor:
    """Numbers of density exp(-|x|) / 2. DTypeError for a dtype that is no float's."""
    target, wide = _float(dtype)
    pairs = unit(key, (2, *as_shape(shape)), wide)
    return converted(where(pairs[0] < 0.5, 1.0, -1.0) * log1p(-pairs[1]), target)


@public
def gumbel(key: Any, shape: Any = (), dtype: Any = "f32") -> Tensor:
    """Numbers of the distribution function exp(-exp(-x)), as the largest of many have it.

    DTypeError for a dtype that is no float's.
    """
    target, wide = _float(dtype)
    return converted(-log(-log(_between(key, as_shape(shape), wide))), target)


@public
def logistic(key: Any, shape: Any = (), dtype: Any = "f32") -> Tensor:
    """Numbers of the distribution function sigmoid(x). DTypeError for a dtype that is no float's."""
    target, wide = _float(dtype)
    share = _between(key, as_shape(shape), wide)
    return converted(log(share) - log1p(-share), target)


@public
def cauchy(key: Any, shape: Any = (), dtype: Any = "f32") -> Tensor:
    """Numbers of density 1 / (pi (1 + x^2)), which have no mean. DTypeError for a dtype that is no float's."""
    target, wide = _float(dtype)
    return converted(tan((_between(key, as_shape(shape), wide) - 0.5) * math.pi), target)


@public
def trunc_normal(key: Any, low: Any, high: Any, shape: Any = None, dtype: Any = "f32") -> Tensor:
    """Numbers of mean 0 and deviation 1 before those outside of [low, high] are left out, by the inverse of their
    distribution function, in f64. Bounds more than seven deviations out leave few different numbers.

    ArgumentError unless low is below high, ShapeError where they do not broadcast to `shape`, DTypeError for a dtype
    that is no float's.
    """
    target, _ = _float(dtype)
    if isinstance(low, float | int) and isinstance(high, float | int) and not low < high:
        raise ArgumentError(f"trunc_normal needs low < high, got {low} and {high}")
    start, end = as_tensor(low, f64), as_tensor(high, f64)
    first, last = erf(start * math.sqrt(0.5)), erf(end * math.sqrt(0.5))
    share = unit(key, _shape_of(shape, start, end), f64)
    values = erfinv(first + (last - first) * share) * math.sqrt(2)
    return converted(clip(values, start, end), target)


@public
def gamma(key: Any, concentration: Any, shape: Any = None, dtype: Any = "f32") -> Tensor:
    """Numbers of density x^(a - 1) exp(-x) / gamma(a), where a is the concentration, above 0; divide by the rate.

    By Marsaglia and Tsang's rejection (2000), below 1 from those of a + 1. The gradient with respect to a is that of a
    number whose share of the distribution stays; those of `beta` and `dirichlet` follow from it. ArgumentError for an a
    that is not above 0, ShapeError where it does not broadcast to `shape`, DTypeError for a dtype that is no float's.
    """
    target, wide = _float(dtype)
    return converted(exp(_log_gamma(key, "gamma", concentration, shape, wide)), target)


@public
def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = "f32") -> Tensor:
    """Numbers between 0 and 1 of density proportional to x^(a - 1) (1 - x)^(b - 1), of two of `gamma`'s.

    ArgumentError for an a or b that is not above 0, ShapeError where they do not broadcast to `shape`, DTypeError for a
    dtype that is no float's.
    """
    target, wide = _float(dtype)
    sizes = _shape_of(shape, as_tensor(a), as_tensor(b))
    first = _log_gamma(fold_in(key, 0), "beta", a, sizes, wide)
    second = _log_gamma(fold_in(key, 1), "beta", b, sizes, wide)
    return converted(exp(first - logaddexp(first, second)), target)


@public
def dirichlet(key: Any, concentration: Any, shape: Any = None, dtype: Any = "f32") -> Tensor:
    """Numbers [..., K] above 0 that add up to 1 along the last axis, for a concentration [..., K].

    `shape` is that of the dimensions before the last. ArgumentError for a concentration that is not above 0, ShapeError
    for one without dimensions or of another shape, DTypeError for a dtype that is no float's.
    """
    target, wide = _float(dtype)
    given = as_tensor(concentration)
    if not given.shape:
        raise ShapeError("dirichlet needs a concentration for each of its numbers, got one without dimensions")
    sizes = given.shape if shape is None else (*as_shape(shape), given.shape[-1])
    logarithms = _log_gamma(key, "dirichlet", concentration, sizes, wide)
    shares = exp(logarithms - stop_gradient(largest(logarithms, -1, keepdims=True))) if sizes[-1] else logarithms
    return converted(shares / shares.sum(axis=-1, keepdims=True), target)


def _log_gamma(key: Any, name: str, concentration: Any, shape: Any, wide: DType) -> Tensor:
    """Logarithms of numbers of the gamma distribution, which are there also where the numbers are below all others."""
    _above_zero(f"{name}'s concentration", concentration)
    given = as_tensor(concentration, None if isinstance(concentration, Tensor) else wide)
    sizes = _shape_of(shape, given)
    moved = broadcast_to(converted(given, wide), sizes)
    a = stop_gradient(moved)
    is_low = a < 1
    d = where(is_low, a + 1.0, a) - 1 / 3
    c = 1.0 / sqrt(9.0 * d)
    draws, shares = fold_in(key, 0), fold_in(key, 1)

    def attempt(step: Any, found: Any, is_done: Any) -> tuple[Any, Any]:
        x = normal(fold_in(draws, step), sizes, wide)
        root = 1.0 + c * x
        cubed = where(root > 0, root * root * root, 1.0)
        accepts = log(_between(fold_in(shares, step), sizes, wide)) < 0.5 * x * x + d - d * cubed + d * log(cubed)
        fits = (root > 0) & accepts & ~is_done
        return where(fits, cubed, found), is_done | fits

    # A concentration that is no number, or not above 0, is given up, and gives NaN.
    cubed = _rejected(_ROUNDS_OF_GAMMA, attempt, zeros(sizes, wide) + 1.0, ~(a > 0))
    boost = log(_between(fold_in(key, 2), sizes, wide)) / where(is_low, a, 1.0)
    found = log(d * cubed) + where(is_low, boost, 0.0)
    return with_slope(moved, stop_gradient(where(a > 0, found, math.nan)))


def _rejected(rounds: int, attempt: Callable[..., Any], found: Tensor, is_done: Tensor) -> Tensor:
    """What attempts find, which go on until all is done: `attempt(step, found, is_done)` gives both anew."""

    def body(step: Any, state: tuple[Any, Any]) -> Any:
        return cond(all_of(state[1]), lambda: state, lambda: attempt(step, *state))

    return fori_loop(0, rounds, body, (found, is_done))[0]


@public
def poisson(key: Any, rate: Any, shape: Any = None, dtype: Any = "i32") -> Tensor:
    """Integers that are k with the probability rate^k exp(-rate) / k!, for rates from 0 on; -1 for others. As counts,
    they have no gradient.

    Rates below 10 by adding up probabilities until a uniform number is passed, others by Hoermann's transformed
    rejection (PTRS, 1993). Computed in f64. ArgumentError for a Python number below 0, ShapeError where it does not
    broadcast to `shape`, DTypeError for a dtype that is no integer's.
    """
    target = as_dtype(dtype)
    if target.is_float:
        raise DTypeError(f"numbers of Poisson's distribution are of an integer dtype, not {target}")
    if isinstance(rate, float | int) and not rate >= 0:
        raise ArgumentError(f"poisson's rate must not be below 0, got {rate}")
    given = as_tensor(rate)
    mean = stop_gradient(broadcast_to(converted(given, f64), _shape_of(shape, given)))
    is_small = mean < _REJECTED_FROM
    few = _few(fold_in(key, 0), where(is_small & (mean >= 0), mean, 0.0))
    many = _many(fold_in(key, 1), where(is_small | ~(mean < math.inf), _REJECTED_FROM, mean), is_small)
    found = where(is_small, few, many)
    return converted(where((mean >= 0) & (mean < math.inf), found, -1.0), target)


def _few(key: Any, mean: Tensor) -> Tensor:
    """The first k up to which probabilities are more than a uniform number."""
    share = unit(key, mean.shape, f64)

    def body(step: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        probability, total, found = state
        probability = probability * mean / converted(step, f64)
        return probability, total + probability, where(total <= share, converted(step, f64), found)

    first = exp(-mean)
    return fori_loop(1, _COUNTS, body, (first, first, zeros(mean.shape, f64)))[2]


def _many(key: Any, mean: Tensor, is_done: Tensor) -> Tensor:
    b = 0.931 + 2.53 * sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    always = 0.9277 - 3.6224 / (b - 2.0)
    log_mean = log(mean)

    def attempt(step: Any, found: Any, is_done: Any) -> tuple[Any, Any]:
        pairs = _between(fold_in(key, step), (2, *mean.shape), f64)
        u, v = pairs[0] - 0.5, pairs[1]
        height = 0.5 - absolute(u)
        k = floor((2.0 * a / height + b) * u + mean + 0.43)
        is_count = k >= 0
        count = where(is_count, k, 0.0)
        limit = count * log_mean - mean - lgamma(count + 1.0)
        fits = log(v * inverse_alpha / (a / (height * height) + b)) <= limit
        quickly = (height >= 0.07) & (v <= always)
        never = (height < 0.013) & (v > height)
        taken = is_count & (quickly | (fits & ~never)) & ~is_done
        return where(taken, k, found), is_done | taken

    return _rejected(_ROUNDS_OF_POISSON, attempt, floor(mean), is_done)


def _first_size(values: Tensor) -> int:
    if not values.ndim:
        raise ShapeError(f"values are {values.type}, which has no elements along an axis", advice="Give a Python int.")
    return values.shape[0]


@public
def choice(key: Any, values: Any, shape: Any = (), replace: bool = True, probabilities: Any = None) -> Tensor:
    """Elements of `values` along its first axis (or of 0 up to an integer), each as likely, or as `probabilities` say.

    Without `replace` no element comes twice. Probabilities are in proportion; those of 0 are never drawn as long as
    there are others. ShapeError where there are too few elements, or not as many probabilities; DTypeError for
    probabilities that are no floats.
    """
    sizes = as_shape(shape)
    count = values if isinstance(values, int) else _first_size(as_tensor(values))
    wanted = math.prod(sizes)
    if wanted and (count < 1 or (not replace and wanted > count)):
        raise ShapeError(f"choice: there are {count} elements, and {wanted} are to be drawn")
    places = _places(key, count, wanted, replace, probabilities).reshape(sizes)
    return places if isinstance(values, int) else as_tensor(values)[places]


def _places(key: Any, count: int, wanted: int, replace: bool, probabilities: Any) -> Tensor:
    if probabilities is None:
        if not replace:
            return permutation(key, count)[:wanted]
        return integers(key, 0, max(count, 1), (wanted,), "i64")
    weights = as_tensor(probabilities)
    if weights.shape != (count,):
        raise ShapeError(f"choice: {count} elements have as many probabilities, got {weights.type}")
    scores = log(converted(weights, f64))
    if replace:
        return categorical(key, broadcast_to(expand_dims(scores, 0), (wanted, count)))
    # The largest of scores with Gumbel's noise are a draw without replacement (Yellott, 1977).
    return (scores + gumbel(key, (count,), "f64")).argsort(descending=True)[:wanted]
