"""What an associative function makes of all elements up to each, in logarithmically many steps."""

from __future__ import annotations

from collections.abc import Callable

from blu.dialects.tensor.arrangement import concatenate, stack
from blu.dialects.tensor.tensor import Tensor


def prefixes(
    joined: Callable[[list[Tensor], list[Tensor]], list[Tensor]], elems: list[Tensor], places: list[int]
) -> list[Tensor]:
    """What `joined`, which must be associative, makes of all elements up to each along `places`, in a tree."""
    count = elems[0].shape[places[0]]
    if count < 2:
        return elems

    def part(tensors: list[Tensor], start: int, stop: int | None, step: int) -> list[Tensor]:
        pairs = zip(tensors, places, strict=True)
        return [tensor[(slice(None),) * place + (slice(start, stop, step),)] for tensor, place in pairs]

    odd = prefixes(joined, joined(part(elems, 0, count - 1, 2), part(elems, 1, None, 2)), places)
    later = part(elems, 2, None, 2)
    even = part(elems, 0, 1, 1)
    if count > 2:
        more = joined(part(odd, 0, (count - 1) // 2, 1), later)
        even = [concatenate(list(pair), axis=place) for *pair, place in zip(even, more, places, strict=True)]
    return [_alternating(*item) for item in zip(even, odd, places, strict=True)]


def _alternating(even: Tensor, odd: Tensor, place: int) -> Tensor:
    """Elements of both in turn, beginning with an even one; there may be one more of those."""
    count, total = odd.shape[place], even.shape[place] + odd.shape[place]
    before = (slice(None),) * place
    pairs = stack([even[(*before, slice(0, count))], odd], axis=place + 1)
    shape = (*odd.shape[:place], 2 * count, *odd.shape[place + 1 :])
    found = pairs.reshape(shape)
    return found if total == 2 * count else concatenate([found, even[(*before, slice(count, None))]], axis=place)
