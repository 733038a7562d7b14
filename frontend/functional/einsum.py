"""einsum for any number of operands, `...` and an implicit result, on the `blu.einsum` op of exactly two."""

from __future__ import annotations

import string
from collections import Counter
from typing import Any

from blu.dialects.core.dtypes import as_dtype, bool_, i32
from blu.dialects.ops.contraction import Einsum
from blu.dialects.tensor.arithmetic import as_bool, factors
from blu.dialects.tensor.arrangement import moveaxis, squeeze, transpose
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import converted, promoted
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError

__all__ = [
    "einsum",
]

# A tensor and the letter of each of its dimensions.
Lettered = tuple[str, Tensor]


@public
def einsum(equation: str, *operands: Any, precision: str = "highest", dtype: Any = None) -> Tensor:
    """numpy.einsum: products summed over the letters that the result lacks, with `...` for broadcast dimensions.

    Operands are combined from left to right. Of a letter that repeats within one operand, the diagonal is taken. Two
    operands may be fp8, as those of blu.matmul, and `dtype` is that of their result then, f32 if it is not given.
    ArgumentError where the equation does not come first; ShapeError where it is for other operands, or a letter stands
    for two sizes.
    """
    tensors = factors(*operands, dtype) if len(operands) == 2 else promoted(*operands) if operands else []
    is_bool = bool(tensors) and tensors[0].dtype == bool_
    tensors = [converted(tensor, i32) for tensor in tensors] if is_bool else tensors
    inputs, result = _explicit(equation, tensors)
    remaining = _without_ones([_on_diagonals(*item) for item in zip(inputs, tensors, strict=True)])
    first, *others = remaining
    while others:
        other, *others = others
        first = _combined(first, other, result, others, precision)
    combined = _arranged(first, result)
    combined = combined if dtype is None else converted(combined, as_dtype(dtype))
    return as_bool(combined) if is_bool else combined


def _combined(first: Lettered, other: Lettered, result: str, later: list[Lettered], precision: str) -> Lettered:
    """The product of two operands, summed over the letters that nothing needs any more."""
    needed = result + "".join(letters for letters, _ in later)
    both = "".join(dict.fromkeys(first[0] + other[0]))
    kept = "".join(letter for letter in (both if later else result) if letter in needed and letter in both)
    equation = f"{first[0]},{other[0]}->{kept}"
    return kept, Einsum(first[1], other[1], equation=equation, precision=precision)


def _arranged(operand: Lettered, result: str) -> Tensor:
    """Sum over the letters that the result lacks and put the others in its order."""
    letters, tensor = operand
    gone = tuple(axis for axis, letter in enumerate(letters) if letter not in result)
    tensor = tensor.sum(axis=gone, dtype=tensor.dtype) if gone else tensor
    left = [letter for letter in letters if letter in result]
    return transpose(tensor, tuple(left.index(letter) for letter in result)) if left else tensor


def _explicit(equation: str, tensors: list[Tensor]) -> tuple[list[str], str]:
    """The letters of every operand and of the result, with `...` and a missing result written out."""
    if not isinstance(equation, str):
        given = equation.type if isinstance(equation, Tensor) else f"a {type(equation).__name__}"
        raise ArgumentError(f"einsum: the equation, as 'ij,jk->ik', comes before the operands; it is {given}")
    written, arrow, result = equation.replace(" ", "").partition("->")
    parts = written.split(",")
    if len(parts) != len(tensors):
        raise ShapeError(f"einsum: {equation!r} is for {len(parts)} operands, got {len(tensors)}")
    counts = Counter(written.replace("...", "").replace(",", ""))
    hidden = [_hidden_count(part, tensor, equation) for part, tensor in zip(parts, tensors, strict=True)]
    free = [letter for letter in string.ascii_letters if letter not in equation][: max(hidden)]
    inputs = [
        part.replace("...", "".join(free[len(free) - count :])) for part, count in zip(parts, hidden, strict=True)
    ]
    if not arrow:
        result = "..." + "".join(sorted(letter for letter, count in counts.items() if count == 1))
    result = result.replace("...", "".join(free))
    known = set("".join(inputs))
    if len(set(result)) != len(result) or not set(result) <= known:
        raise ShapeError(f"einsum: the result of {equation!r} must consist of different letters of the operands")
    return inputs, result


def _hidden_count(part: str, tensor: Tensor, equation: str) -> int:
    """How many dimensions of one operand `...` stands for."""
    named = part.replace("...", "", 1)
    count = tensor.ndim - len(named)
    if not (named.isalpha() or not named) or count < 0 or (count and "..." not in part):
        raise ShapeError(f"einsum: {part!r} of {equation!r} does not fit {tensor.type}")
    return count


def _on_diagonals(letters: str, tensor: Tensor) -> Lettered:
    """The operand where indices of the same letter are equal, with each letter once."""
    for letter in dict.fromkeys(letters):
        while letters.count(letter) > 1:
            first, second = [axis for axis, item in enumerate(letters) if item == letter][:2]
            if tensor.shape[first] != tensor.shape[second]:
                raise ShapeError(f"einsum: {letter!r} stands for two sizes in {tensor.type}")
            tensor = moveaxis(tensor, (first, second), (-2, -1)).diagonal()
            letters = letters[:first] + letters[first + 1 : second] + letters[second + 1 :] + letter
    return letters, tensor


def _without_ones(operands: list[Lettered]) -> list[Lettered]:
    """The operands less their dimensions of size 1 whose letter is longer elsewhere: these broadcast."""
    longest: dict[str, int] = {}
    for letters, tensor in operands:
        for letter, size in zip(letters, tensor.shape, strict=True):
            longest[letter] = size if longest.get(letter, 1) == 1 else longest[letter]
    return [_squeezed(letters, tensor, longest) for letters, tensor in operands]


def _squeezed(letters: str, tensor: Tensor, longest: dict[str, int]) -> Lettered:
    gone = [axis for axis, size in enumerate(tensor.shape) if size == 1 != longest[letters[axis]]]
    kept = "".join(letter for axis, letter in enumerate(letters) if axis not in gone)
    return kept, squeeze(tensor, gone) if gone else tensor
