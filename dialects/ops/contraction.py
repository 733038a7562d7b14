"""Matrix products and their generalisation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from string import ascii_letters

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.batching import Batched
from blu.dialects.core.dtypes import (
    NUMBERS,
    TensorType,
    as_dtype,
    bool_,
    f8e4m3,
    f8e5m2,
    f32,
    f64,
    gradient_dtype,
    product,
)
from blu.dialects.core.op import ErrorSample, Op, Operand, Sample
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.dialects.tensor.tensor import Tensor
from blu.errors import BluError, DTypeError, ShapeError

# How precisely products of f32 are formed: in full, from operands rounded to tf32 (10 bits of fraction), or to bf16 (7
# bits) or f16. Sums and results are f32 or better; only "fast" leaves sums of fp8 to tensor cores that keep fewer bits.
# Other dtypes are not affected.
PRECISIONS = ("highest", "tf32", "bf16", "f16", "fast")
# The pass `autocast` makes this rounding of operands explicit.
ROUNDING = ("bf16", "f16")


def rounded(operand: Tensor, precision: str, rounds_gradient: bool = False) -> Tensor:
    """The operand of a contraction as its precision reads it, and maybe its gradient; tf32 is left to kernels."""
    if precision not in ROUNDING or operand.dtype != f32:
        return operand
    from blu.dialects.ops.precision import ReducePrecision

    return ReducePrecision(operand, dtype=as_dtype(precision), rounds_gradient=rounds_gradient)


def _check_operands(lhs: TensorType, rhs: TensorType, precision: str) -> None:
    if not are_float8(lhs, rhs) and lhs.dtype != rhs.dtype:
        raise DTypeError(f"operands must have one dtype, got {lhs} and {rhs}")
    if lhs.dtype == bool_:
        raise DTypeError(f"does not take bool, only {', '.join(map(str, NUMBERS))}")
    if precision not in PRECISIONS:
        raise BluError(f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")


def are_float8(lhs: TensorType, rhs: TensorType) -> bool:
    """Whether both factors are fp8, of one format or of two: their products are f32."""
    return lhs.dtype.is_stored_only and rhs.dtype.is_stored_only


def _result(lhs: TensorType, rhs: TensorType, shape: Iterable[int]) -> TensorType:
    return TensorType(tuple(shape), f32 if are_float8(lhs, rhs) else lhs.dtype)


def _widened(factor: Tensor) -> Tensor:
    """A factor for a product with what is no fp8."""
    return factor.astype(gradient_dtype(factor.dtype))


def _summed_to(gradient: Tensor, operand: Tensor) -> Tensor:
    """Sum over the batch dimensions that the operand was broadcast along."""
    extra = gradient.ndim - operand.ndim
    axes = [
        dim for dim, size in enumerate(gradient.shape) if dim < extra or (operand.shape[dim - extra] == 1 and size != 1)
    ]
    return gradient.sum(axis=tuple(axes)) if axes else gradient


class Matmul(Op, name="matmul"):
    """NumPy's matrix product: the last two dimensions are matrices, the others are broadcast; 1-d operands are vectors.

    f16 and bf16 are accumulated in f32 and rounded once; integers wrap. Of fp8, in both formats, the result is f32.
    """

    takes_float8 = True
    lhs: Operand
    rhs: Operand
    precision: str

    @staticmethod
    def reference(lhs: np.ndarray, rhs: np.ndarray, precision: str) -> np.ndarray:
        return np.matmul(lhs, rhs)

    @staticmethod
    def vjp(g: Tensor, lhs: Tensor, rhs: Tensor, result: Tensor, precision: str) -> tuple[Tensor, Tensor]:
        """Matrices throughout: vectors get a dimension, and lose it in their gradient."""
        left = lhs.reshape((1, *lhs.shape)) if lhs.ndim == 1 else lhs
        right = rhs.reshape((*rhs.shape, 1)) if rhs.ndim == 1 else rhs
        shape = [*result.shape]
        if lhs.ndim == 1:
            shape.insert(len(shape) - (rhs.ndim > 1), 1)
        if rhs.ndim == 1:
            shape.append(1)
        g = g.reshape(shape)
        if right.ndim == 2 and left.ndim > 2:  # all leading dimensions are rows of one matrix
            rows = product(left.shape[:-1])
            left, g = left.reshape((rows, left.shape[-1])), g.reshape((rows, g.shape[-1]))
        g = rounded(g, precision)  # the operands already are
        of_left = Matmul(g, _widened(right).swapaxes(-1, -2), precision=precision)
        of_right = Matmul(_widened(left).swapaxes(-1, -2), g, precision=precision)
        return _summed_to(of_left, left).reshape(lhs.shape), _summed_to(of_right, right).reshape(rhs.shape)

    @staticmethod
    def batch(op: Batched) -> list[Tensor]:
        """A vector becomes a matrix; what is before the matrices broadcasts."""
        left, right = op.operands
        ndim = max(len(left.shape), len(right.shape), 2)
        operands = []
        for item, vector in ((left, (1, *left.shape)), (right, (*right.shape, 1))):
            shape = vector if len(item.shape) == 1 else item.shape
            front = (op.size, *(1,) * (ndim - len(shape))) if item.is_batched else ()
            operands.append(item.tensor.reshape((*front, *shape)))
        return op.spread(op.emit(operands))

    @staticmethod
    def infer(lhs: TensorType, rhs: TensorType, precision: str) -> TensorType:
        _check_operands(lhs, rhs, precision)
        if not lhs.ndim or not rhs.ndim:
            raise ShapeError(
                f"operands must have at least one dimension, got {lhs} and {rhs}", advice="Use * for scalars."
            )
        rows = lhs.shape if lhs.ndim > 1 else (1, *lhs.shape)
        columns = rhs.shape if rhs.ndim > 1 else (*rhs.shape, 1)
        if rows[-1] != columns[-2]:
            raise ShapeError(
                f"inner sizes differ: {lhs} has {rows[-1]} along its last dimension, {rhs} has {columns[-2]} along its "
                f"{'second last' if rhs.ndim > 1 else 'only'} one"
            )
        batch = broadcast_shapes(rows[:-2], columns[:-2])
        matrix = (rows[-2],) * (lhs.ndim > 1) + (columns[-1],) * (rhs.ndim > 1)
        return _result(lhs, rhs, (*batch, *matrix))

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtypes in _SAMPLED_DTYPES:
            for shapes in _MATMUL_SHAPES:
                operands = [draw(rng, shape, dtype, -2, 2) for shape, dtype in zip(shapes, dtypes, strict=True)]
                yield Sample(tuple(operands), {"precision": "highest"})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        lhs, rhs, highest = TensorType((2, 3), f32), TensorType((4, 5), f32), {"precision": "highest"}
        yield ErrorSample((lhs, rhs), highest, "inner sizes differ: f32[2, 3] has 3")
        yield ErrorSample((lhs, rhs.with_shape((4,))), highest, "4 along its only one")
        yield ErrorSample((lhs, rhs.with_shape(())), highest, "at least one dimension")
        yield ErrorSample((lhs.with_shape((2, 4, 3)), rhs.with_shape((3, 3, 2))), highest, "do not broadcast")
        yield ErrorSample((lhs, lhs.with_dtype(f64)), highest, "one dtype")
        yield ErrorSample((lhs.with_dtype(bool_), lhs.with_dtype(bool_)), highest, "does not take bool")
        yield ErrorSample((lhs, rhs.with_shape((3, 1))), {"precision": "high"}, "not one of highest")


_SAMPLED_DTYPES = [*((dtype, dtype) for dtype in NUMBERS), (f8e4m3, f8e4m3), (f8e5m2, f8e4m3)]
_MATMUL_SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((1, 1), (1, 1)),
    ((5, 7), (7, 19)),
    ((33, 40), (40, 18)),
    ((2, 3, 4), (4, 5)),
    ((2, 1, 3, 4), (3, 4, 2)),
    ((2, 0), (0, 3)),
    ((0, 2), (2, 3)),
    ((3,), (2, 3, 4)),
]


@dataclass(frozen=True)
class Labels:
    """The letters of a two-operand einsum by role. `summed_*` occur in one operand only and not in the result."""

    lhs: str
    rhs: str
    result: str

    @property
    def batch(self) -> str:
        return "".join(letter for letter in self.result if letter in self.lhs and letter in self.rhs)

    @property
    def contracted(self) -> str:
        return "".join(letter for letter in self.lhs if letter in self.rhs and letter not in self.result)

    @property
    def rows(self) -> str:
        return "".join(letter for letter in self.result if letter in self.lhs and letter not in self.rhs)

    @property
    def columns(self) -> str:
        return "".join(letter for letter in self.result if letter in self.rhs and letter not in self.lhs)

    def summed(self, own: str) -> str:
        """Letters of the operand `own` that neither the other operand nor the result has."""
        everywhere = self.result + (self.rhs if own == self.lhs else self.lhs)
        return "".join(letter for letter in own if letter not in everywhere)


def parse_equation(equation: str) -> Labels:
    """Read "bij,bjk->bik". Raises ShapeError for another form, repeated letters, and unknown letters in the result."""
    inputs, arrow, result = equation.partition("->")
    lhs, comma, rhs = inputs.partition(",")
    if not (arrow and comma) or not all(part.isalpha() or not part for part in (lhs, rhs, result)):
        raise ShapeError(f"{equation!r} is not an equation of the form 'bij,bjk->bik'")
    for part in (lhs, rhs, result):
        if len(set(part)) != len(part):
            raise ShapeError(
                f"{equation!r} repeats a letter in {part!r}", advice="Take the diagonal before the einsum."
            )
    unknown = set(result) - set(lhs + rhs)
    if unknown:
        raise ShapeError(f"{equation!r} has {', '.join(sorted(unknown))} in the result but in no operand")
    return Labels(lhs, rhs, result)


def _letter_sizes(labels: Labels, lhs: TensorType, rhs: TensorType) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for letters, operand in ((labels.lhs, lhs), (labels.rhs, rhs)):
        if len(letters) != operand.ndim:
            raise ShapeError(f"{letters!r} names {len(letters)} dimensions, but {operand} has {operand.ndim}")
        for letter, size in zip(letters, operand.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ShapeError(f"{letter!r} is both {sizes[letter]} and {size} long, in {lhs} and {rhs}")
    return sizes


class Einsum(Op, name="einsum"):
    """The sum of products of two operands over all letters that the result lacks, as in numpy.einsum.

    Of fp8, in both formats, the result is f32.
    """

    takes_float8 = True
    lhs: Operand
    rhs: Operand
    equation: str
    precision: str

    @staticmethod
    def reference(lhs: np.ndarray, rhs: np.ndarray, equation: str, precision: str) -> np.ndarray:
        return np.einsum(equation, lhs, rhs)

    @staticmethod
    def batch(op: Batched) -> list[Tensor]:
        """Slices get a letter."""
        labels = parse_equation(op.attributes["equation"])
        letter = next(item for item in ascii_letters if item not in labels.lhs + labels.rhs)
        lhs, rhs = (
            letter + part if item.is_batched else part
            for part, item in zip((labels.lhs, labels.rhs), op.operands, strict=True)
        )
        return op.emit([item.tensor for item in op.operands], equation=f"{lhs},{rhs}->{letter}{labels.result}")

    @staticmethod
    def infer(lhs: TensorType, rhs: TensorType, equation: str, precision: str) -> TensorType:
        _check_operands(lhs, rhs, precision)
        labels = parse_equation(equation)
        sizes = _letter_sizes(labels, lhs, rhs)
        return _result(lhs, rhs, (sizes[letter] for letter in labels.result))

    @staticmethod
    def decompose(lhs: Tensor, rhs: Tensor, equation: str, precision: str) -> Tensor:
        """Sum away what only one operand has, then one matmul of [batch..., rows, inner] by [batch..., inner, columns].

        With nothing to contract it is a product with broadcasting.
        """
        from blu.dialects.tensor.arithmetic import matmul

        labels = parse_equation(equation)
        sizes = _letter_sizes(labels, lhs.type, rhs.type)
        batch, rows, inner, columns = labels.batch, labels.rows, labels.contracted, labels.columns
        if not inner or labels.summed(labels.lhs) or labels.summed(labels.rhs):
            lhs, rhs = _widened(lhs), _widened(rhs)
        groups = tuple(tuple(sizes[letter] for letter in group) for group in (batch, rows, columns))
        left = _arranged(lhs, labels.lhs, labels.summed(labels.lhs), (batch, rows, inner), sizes)
        right = _arranged(rhs, labels.rhs, labels.summed(labels.rhs), (batch, inner, columns), sizes)
        result = matmul(left, right, precision=precision) if inner else left * right
        result = result.reshape(sum(groups, ()))
        found = batch + rows + columns
        return result.transpose(*(found.index(letter) for letter in labels.result))

    @staticmethod
    def samples() -> Iterator[Sample]:
        return _samples_of(_EINSUM_CASES)

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        lhs, rhs = TensorType((2, 3), f32), TensorType((4, 5), f32)
        for equation, message in (
            ("ij,jk->ik", "'j' is both 3 and 4 long"),
            ("ij,jk", "of the form"),
            ("ij->ij", "of the form"),
            ("i...,jk->ik", "of the form"),
            ("ii,jk->jk", "repeats a letter"),
            ("ij,kl->im", "m in the result"),
            ("ijk,kl->il", "names 3 dimensions"),
        ):
            yield ErrorSample((lhs, rhs), {"equation": equation, "precision": "highest"}, message)
        yield ErrorSample((lhs, rhs.with_dtype(f64)), {"equation": "ij,kl->il", "precision": "highest"}, "one dtype")


class Contract(Op, name="contract"):
    """The sum of an einsum whose letters are in the result or in both operands, of operands that are read as they lie.

    Several letters may be summed over, whatever the strides of each: nothing is put together before.
    """

    takes_float8 = True
    lhs: Operand
    rhs: Operand
    equation: str
    precision: str

    reference = staticmethod(Einsum.reference)
    batch = staticmethod(Einsum.batch)

    @staticmethod
    def vjp(
        g: Tensor, lhs: Tensor, rhs: Tensor, result: Tensor, equation: str, precision: str
    ) -> tuple[Tensor, Tensor]:
        labels, g, lhs, rhs = parse_equation(equation), rounded(g, precision), _widened(lhs), _widened(rhs)
        of_left = Contract(g, rhs, equation=f"{labels.result},{labels.rhs}->{labels.lhs}", precision=precision)
        return of_left, Contract(lhs, g, equation=f"{labels.lhs},{labels.result}->{labels.rhs}", precision=precision)

    @staticmethod
    def infer(lhs: TensorType, rhs: TensorType, equation: str, precision: str) -> TensorType:
        found = Einsum.infer(lhs, rhs, equation, precision)
        labels = parse_equation(equation)
        lonely = labels.summed(labels.lhs) + labels.summed(labels.rhs)
        if lonely or not labels.contracted:
            what = f"sums {', '.join(lonely)} of one operand" if lonely else "sums over nothing"
            raise ShapeError(f"{equation!r} {what}: letters are in the result, or in both operands and summed over")
        return found

    @staticmethod
    def samples() -> Iterator[Sample]:
        return _samples_of(_CONTRACT_CASES)

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        lhs, rhs, highest = TensorType((2, 3), f32), TensorType((3, 5), f32), "highest"
        yield ErrorSample((lhs, rhs), {"equation": "ij,jk->k", "precision": highest}, "sums i of one operand")
        yield ErrorSample((lhs, rhs), {"equation": "ij,kl->ijkl", "precision": highest}, "sums over nothing")
        yield ErrorSample((lhs, rhs), {"equation": "ij,kj->ik", "precision": highest}, "'j' is both 3 and 5 long")
        yield ErrorSample((lhs, rhs), {"equation": "ij,jk->ik", "precision": "high"}, "not one of highest")


def _samples_of(cases: Sequence[tuple[str, tuple[int, ...], tuple[int, ...]]]) -> Iterator[Sample]:
    """Products by equations and the shapes of their operands, in every dtype."""
    rng = np.random.default_rng(0)
    for dtypes in _SAMPLED_DTYPES:
        for equation, *shapes in cases:
            operands = tuple(draw(rng, shape, dtype, -2, 2) for shape, dtype in zip(shapes, dtypes, strict=True))
            yield Sample(operands, {"equation": equation, "precision": "highest"})


_CONTRACT_CASES = [
    ("mk,kn->mn", (3, 4), (4, 5)),
    ("mijc,ijcf->mf", (5, 2, 3, 4), (2, 3, 4, 6)),
    ("gmjc,gjcf->mgf", (2, 3, 2, 4), (2, 2, 4, 5)),
    ("mijc,mf->ijcf", (5, 2, 3, 4), (5, 6)),
    ("mjc,jcf->fm", (0, 2, 3), (2, 3, 4)),
    ("mjc,jcf->mf", (2, 0, 3), (0, 3, 4)),
]


def _arranged(tensor: Tensor, letters: str, summed: str, order: tuple[str, str, str], sizes: dict[str, int]) -> Tensor:
    """The operand as [batch..., first, second]: letters in `summed` added up, the last groups one dimension each."""
    if summed:
        tensor = tensor.sum(axis=tuple(letters.index(letter) for letter in summed), dtype=tensor.dtype)
        letters = "".join(letter for letter in letters if letter not in summed)
    tensor = tensor.transpose(*(letters.index(letter) for letter in "".join(order)))
    batch, first, second = (tuple(sizes[letter] for letter in group) for group in order)
    return tensor.reshape((*batch, product(first), product(second)))


_EINSUM_CASES = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bthd,bshd->bhts", (2, 3, 2, 4), (2, 5, 2, 4)),
    ("ij,kj->ki", (3, 4), (2, 4)),
    ("i,j->ji", (3,), (4,)),
    ("i,i->", (5,), (5,)),
    (",i->i", (), (3,)),
    ("abc,cbd->da", (2, 3, 4), (4, 3, 5)),
    ("aij,jk->ik", (2, 3, 4), (4, 2)),
    ("ij,ij->ij", (2, 3), (2, 3)),
    ("ij,jk->k", (2, 3), (3, 2)),
    ("ij,jk->ik", (2, 0), (0, 3)),
]
