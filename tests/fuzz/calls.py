"""The calls that random programs are made of: a function each that draws one, by kind."""

from __future__ import annotations

import string
from collections.abc import Callable
from math import prod

import blu

from .generate import DTYPES, FLOATS, Draft, Unsuitable

Maker = Callable[[Draft], None]

SMOOTH = """exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh
    erf erfc sigmoid sqrt rsqrt cbrt reciprocal silu relu absolute negative square gelu""".split()
STEPS = "sign floor ceil trunc round isnan isinf isfinite logical_not stop_gradient".split()
BINARY = "add subtract multiply divide maximum minimum power arctan2 logaddexp remainder copysign".split()
COMPARISONS = """equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor floor_divide
    """.split()
OF_INTEGERS = "bitwise_and bitwise_or bitwise_xor left_shift right_shift".split()
REDUCTIONS = "sum prod max min mean var std logsumexp".split()


def is_float(tensor: blu.Tensor) -> bool:
    return tensor.dtype.is_float


def is_number(tensor: blu.Tensor) -> bool:
    return tensor.dtype.name != "bool"


def is_integer(tensor: blu.Tensor) -> bool:
    return is_number(tensor) and not is_float(tensor)


def has_dims(least: int, most: int = 9) -> Callable[[blu.Tensor], bool]:
    return lambda tensor: least <= tensor.ndim <= most


def axis_of(draft: Draft, tensor: blu.Tensor) -> int:
    """Any axis, from either end."""
    if not tensor.ndim:
        raise Unsuitable
    return int(draft.rng.integers(-tensor.ndim, tensor.ndim))


def broadcastable(draft: Draft, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts with another: dimensions left out at the front, or 1."""
    shape = shape[int(draft.rng.integers(len(shape) + 1)) :] if draft.chance(0.4) else shape
    return tuple(1 if draft.chance(0.25) else extent for extent in shape)


def second(draft: Draft, first: int, numbers: bool = True) -> object:
    """Another operand of an elementwise op: a value of the same shape, a new input that broadcasts, or a number."""
    tensor = draft.tensor(first)
    if numbers and draft.chance(0.15) and is_number(tensor):
        return {"float": float(draft.rng.normal())} if is_float(tensor) else {"int": int(draft.rng.integers(1, 5))}
    if draft.chance(0.4):
        return draft.pick(lambda other: other.shape == tensor.shape)
    return draft.add(broadcastable(draft, tensor.shape))


def smooth(draft: Draft) -> None:
    draft.call(draft.one_of(SMOOTH), draft.pick(is_float))


def steps(draft: Draft) -> None:
    draft.call(draft.one_of(STEPS), draft.pick())


def binary(draft: Draft) -> None:
    first, name = draft.pick(is_number), draft.one_of(BINARY)
    if name == "power" and not is_float(draft.tensor(first)):  # negative powers of integers are errors
        shape = broadcastable(draft, draft.tensor(first).shape)
        draft.call(name, first, draft.add(shape, draft.tensor(first).dtype.name, "positive"))
        return
    pair = [first, second(draft, first)]
    if draft.chance(0.3) and name != "power":
        pair.reverse()
    draft.call(name, *pair)


def comparison(draft: Draft) -> None:
    first = draft.pick()
    draft.call(draft.one_of(COMPARISONS), first, second(draft, first))


def of_integers(draft: Draft) -> None:
    first = draft.pick(is_integer)
    if draft.chance(0.2):
        draft.call("invert", first)
        return
    name = draft.one_of(OF_INTEGERS)
    other = draft.add(broadcastable(draft, draft.tensor(first).shape), draft.tensor(first).dtype.name, "positive")
    draft.call(name, first, other if "shift" in name else second(draft, first))


def where(draft: Draft) -> None:
    first = draft.pick()
    condition = draft.add(broadcastable(draft, draft.tensor(first).shape), "bool")
    draft.call("where", condition, first, second(draft, first))


def clip(draft: Draft) -> None:
    draft.call("clip", draft.pick(is_float), {"float": -0.5}, {"float": 0.75} if draft.chance(0.7) else None)


def reduction(draft: Draft) -> None:
    name = draft.one_of(REDUCTIONS)
    value = draft.pick(is_float if name in ("var", "std", "logsumexp") else is_number)
    draft.call(name, value, axis=_axes(draft, draft.tensor(value).ndim), keepdims=draft.chance(0.3))


def _axes(draft: Draft, dims: int) -> object:
    if not dims or draft.chance(0.2):
        return None
    if draft.chance(0.6):
        return int(draft.rng.integers(-dims, dims))
    return [int(axis) for axis in draft.rng.permutation(dims)[: int(draft.rng.integers(1, dims + 1))]]


def truth(draft: Draft) -> None:
    value = draft.pick()
    draft.call(draft.one_of(("any", "all")), value, axis=_axes(draft, draft.tensor(value).ndim))


def search(draft: Draft) -> None:
    value = draft.pick(lambda tensor: is_number(tensor) and tensor.ndim > 0 and prod(tensor.shape) > 0)
    axis = None if draft.chance(0.2) else axis_of(draft, draft.tensor(value))
    draft.call(draft.one_of(("argmax", "argmin")), value, axis=axis, keepdims=draft.chance(0.3))


def scan(draft: Draft) -> None:
    value = draft.pick(lambda tensor: is_number(tensor) and tensor.ndim > 0)
    draft.call("cumsum", value, axis=axis_of(draft, draft.tensor(value)))


def sorting(draft: Draft) -> None:
    value = draft.pick(lambda tensor: is_number(tensor) and tensor.ndim > 0)
    name, axis = draft.one_of(("sort", "argsort", "sort")), axis_of(draft, draft.tensor(value))
    draft.call(name, value, axis=axis, descending=draft.chance(0.4))


def top_k(draft: Draft) -> None:
    value = draft.pick(lambda tensor: is_number(tensor) and tensor.ndim > 0 and tensor.shape[-1] > 0)
    draft.call("top_k", value, k=int(draft.rng.integers(1, draft.tensor(value).shape[-1] + 1)))


def reshape(draft: Draft) -> None:
    value = draft.pick()
    shape, size = [], prod(draft.tensor(value).shape)
    while size > 1 and draft.chance(0.8):
        factor = draft.one_of([item for item in range(1, size + 1) if size % item == 0][:40])
        shape.append(int(factor))
        size //= factor
    shape.insert(int(draft.rng.integers(len(shape) + 1)), size)
    draft.call("reshape", value, {"ints": list(draft.tensor(value).shape[::-1]) if size == 0 else shape})


def transpose(draft: Draft) -> None:
    value = draft.pick(has_dims(1))
    axes = draft.rng.permutation(draft.tensor(value).ndim)
    draft.call("transpose", value, {"ints": [int(axis) for axis in axes]})


def arrangement(draft: Draft) -> None:
    value = draft.pick(has_dims(1))
    tensor, axis = draft.tensor(value), axis_of(draft, draft.tensor(value))
    name = draft.one_of(("swapaxes", "moveaxis", "flip", "roll", "repeat", "expand_dims", "flatten", "tile"))
    options = {
        "swapaxes": {"first": axis, "second": axis_of(draft, tensor)},
        "moveaxis": {"source": axis, "destination": axis_of(draft, tensor)},
        "flip": {"axis": axis},
        "roll": {"shift": int(draft.rng.integers(-9, 9)), "axis": axis},
        "repeat": {"repeats": int(draft.rng.integers(1, 4)), "axis": axis},
        "expand_dims": {"axis": axis},
        "flatten": {},
        "tile": {"repeats": [int(item) for item in draft.rng.integers(1, 3, tensor.ndim)]},
    }
    draft.call(name, value, **options[name])


def matrices(draft: Draft) -> None:
    value = draft.pick(has_dims(2))
    name = draft.one_of(("tril", "triu", "diagonal"))
    draft.call(name, value, offset=int(draft.rng.integers(-3, 4)))


def broadcast(draft: Draft) -> None:
    value = draft.pick(has_dims(0, 4))
    front = [int(item) for item in draft.rng.integers(0, 4, int(draft.rng.integers(0, 3)))]
    shape = [int(draft.rng.integers(0, 9)) if extent == 1 else extent for extent in draft.tensor(value).shape]
    draft.call("broadcast_to", value, shape=[*front, *shape])


def squeeze(draft: Draft) -> None:
    draft.call("squeeze", draft.pick(lambda tensor: 1 in tensor.shape))


def pad(draft: Draft) -> None:
    value = draft.pick(has_dims(1))
    widths = draft.rng.integers(0, 4, (draft.tensor(value).ndim, 2)).tolist()
    draft.call("pad", value, widths=[tuple(item) for item in widths], value=1 if draft.chance(0.3) else 0)


def joining(draft: Draft) -> None:
    value = draft.pick(has_dims(1))
    tensor = draft.tensor(value)
    axis = axis_of(draft, tensor)
    others = [draft.pick(lambda other: other.shape == tensor.shape, tensor.dtype.name) for _ in range(2)]
    draft.call(draft.one_of(("concatenate", "stack")), [value, *others], axis=axis)


def split(draft: Draft) -> None:
    value = draft.pick(has_dims(1))
    axis = axis_of(draft, draft.tensor(value))
    extent = draft.tensor(value).shape[axis]
    parts = [item for item in range(1, 6) if extent % item == 0]
    draft.call("split", value, sections=draft.one_of(parts), axis=axis)


def index(draft: Draft) -> None:
    """`x[...]` with numbers, slices, new dimensions, an ellipsis, and at most two arrays."""
    value = draft.pick(has_dims(1))
    items: list[object] = []
    arrays: list[int] = []
    shape = draft.shape(2)
    for extent in draft.tensor(value).shape[: int(draft.rng.integers(1, draft.tensor(value).ndim + 1))]:
        if draft.chance(0.1):
            items.append(None)
        items.append(_index_item(draft, extent, arrays, shape))
    if draft.chance(0.2):
        items.append("...")
    draft.call("index", value, *arrays, items=items)


def _index_item(draft: Draft, extent: int, arrays: list[int], shape: tuple[int, ...]) -> object:
    if extent and draft.chance(0.25):
        return int(draft.rng.integers(-extent, extent))
    if extent and len(arrays) < 2 and draft.chance(0.25):
        arrays.append(draft.add(shape, draft.one_of(("i32", "i64")), f"index {extent}"))
        return {"array": len(arrays) - 1}
    ends = sorted(int(item) for item in draft.rng.integers(-extent - 1, extent + 2, 2))
    step = draft.one_of((1, 1, 1, 2, 3, -1, -2))
    return {"slice": [None if draft.chance(0.3) else end for end in ends[:: step // abs(step)]] + [step]}


def _indexed(draft: Draft) -> tuple[int, int]:
    value = draft.pick(lambda tensor: tensor.ndim > 0 and prod(tensor.shape) > 0)
    return value, axis_of(draft, draft.tensor(value))


def take(draft: Draft) -> None:
    value, axis = _indexed(draft)
    extent = draft.tensor(value).shape[axis]
    draft.call("take", value, draft.add(draft.shape(2), "i64", f"index {extent}"), axis=axis)


def take_along(draft: Draft) -> None:
    value, axis = _indexed(draft)
    shape = list(draft.tensor(value).shape)
    extent, shape[axis] = shape[axis], int(draft.rng.integers(0, 9))
    draft.call("take_along_axis", value, draft.add(shape, "i32", f"index {extent}"), axis=axis)


def scatter(draft: Draft) -> None:
    """Sums into places that may be the same for many."""
    value = draft.pick(lambda tensor: is_number(tensor) and tensor.ndim > 0 and prod(tensor.shape) > 0)
    tensor, axis = draft.tensor(value), axis_of(draft, draft.tensor(value))
    shape, position = tensor.shape, axis % tensor.ndim
    indices = draft.shape(1)
    updates = (*shape[:position], *indices, *shape[position + 1 :])
    if prod(updates) > 12_000:
        raise Unsuitable
    places = draft.add(indices, "i64", f"index {draft.one_of((1, shape[position]))}")
    draft.call("scatter_add", value, places, draft.add(updates, tensor.dtype.name, "normal"), axis=axis)


def one_hot(draft: Draft) -> None:
    depth = int(draft.rng.integers(1, 9))
    draft.call("one_hot", draft.add(draft.shape(2), "i32", f"index {depth}"), depth=depth)


def matmul(draft: Draft) -> None:
    """Vectors, matrices, and batches that broadcast; operands may be transposed views."""
    rows, inner, columns = (int(draft.one_of((0, 1, 2, 3, 5, 8, 16, 17, 33, 64, 65, 100, 129))) for _ in range(3))
    batch = draft.shape(2) if draft.chance(0.3) else ()
    if prod(batch) * max(rows * inner, inner * columns, rows * columns) > 12_000:
        raise Unsuitable
    left = (inner,) if draft.chance(0.15) else (*broadcastable(draft, batch), rows, inner)
    right = (inner,) if draft.chance(0.15) else (*broadcastable(draft, batch), inner, columns)
    dtype = draft.one_of([name for name in draft.dtypes if name != "bool"] or ["f32"])
    pair = [_matrix(draft, shape, dtype) for shape in (left, right)]
    draft.call("matmul", *pair)


def _matrix(draft: Draft, shape: tuple[int, ...], dtype: str) -> int:
    if len(shape) < 2 or draft.chance(0.6):
        return draft.pick(lambda tensor: tensor.shape == shape, dtype) if draft.chance(0.3) else draft.add(shape, dtype)
    draft.call("swapaxes", draft.add((*shape[:-2], shape[-1], shape[-2]), dtype), first=-1, second=-2)
    return sum(draft.counts) - 1


def product_of(draft: Draft) -> None:
    """A value times a matrix that fits it, as in a layer."""
    value = draft.pick(lambda tensor: tensor.ndim >= 1 and is_number(tensor))
    tensor, columns = draft.tensor(value), int(draft.one_of((1, 3, 8, 17, 64)))
    if tensor.shape[-1] * columns > 12_000:
        raise Unsuitable
    draft.call("matmul", value, draft.add((tensor.shape[-1], columns), tensor.dtype.name, "normal"))


def einsum(draft: Draft) -> None:
    letters = string.ascii_lowercase[: int(draft.rng.integers(1, 5))]
    extents = {letter: int(draft.one_of((0, 1, 2, 3, 5, 7, 8, 16))) for letter in letters}
    sides = ["".join(letter for letter in letters if draft.chance(0.7)) for _ in range(2)]
    there = [letter for letter in letters if letter in "".join(sides)]
    result = "".join(str(item) for item in draft.rng.permutation(there) if draft.chance(0.6)) if there else ""
    dtype = draft.one_of([name for name in draft.dtypes if name != "bool"] or ["f32"])
    operands = [draft.add(tuple(extents[letter] for letter in side), dtype) for side in sides]
    draft.call("einsum", {"text": f"{sides[0]},{sides[1]}->{result}"}, *operands)


def row_ops(draft: Draft) -> None:
    value = draft.pick(lambda tensor: is_float(tensor) and tensor.ndim > 0)
    draft.call(draft.one_of(("softmax", "log_softmax")), value, axis=axis_of(draft, draft.tensor(value)))


def norms(draft: Draft) -> None:
    value = draft.pick(lambda tensor: is_float(tensor) and tensor.ndim > 0)
    tensor = draft.tensor(value)
    name = draft.one_of(("layer_norm", "rms_norm"))
    weights = [draft.add(tensor.shape[-1:], tensor.dtype.name, "normal") for _ in range(1 + (name == "layer_norm"))]
    draft.call(name, value, *weights[: int(draft.rng.integers(0, 3))])


def attention(draft: Draft) -> None:
    dtype = draft.one_of([name for name in draft.dtypes if name in FLOATS] or ["f32"])
    heads, queries, keys = (int(draft.one_of(items)) for items in ((1, 2, 3), (1, 2, 7, 33, 65), (1, 2, 7, 33, 65, 70)))
    width = int(draft.one_of((1, 4, 8, 16, 24)))
    shapes = [(1, heads, queries, width), *[(1, heads, keys, width)] * 2]
    operands = [draft.add(shape, dtype, "normal") for shape in shapes]
    mask = draft.add((queries, keys), draft.one_of(("bool", dtype)), "normal") if draft.chance(0.4) else None
    draft.call("attention", *operands, mask, causal=draft.chance(0.4) and mask is None and queries <= keys)


def cross_entropy(draft: Draft) -> None:
    value = draft.pick(lambda tensor: is_float(tensor) and tensor.ndim == 2 and tensor.shape[-1] > 1)
    rows, classes = draft.tensor(value).shape
    targets = draft.add((rows,), "i32", f"index {classes}")
    draft.call("remainder", targets, {"int": classes})
    draft.call("cross_entropy", value, sum(draft.counts) - 1, reduction=draft.one_of(("mean", "sum", "none")))


def convert(draft: Draft) -> None:
    draft.call("astype", draft.pick(), dtype=draft.one_of(DTYPES))


def widen(draft: Draft) -> None:
    draft.call("astype", draft.pick(is_float), dtype="f64")


def windows(draft: Draft) -> None:
    """A slice from where numbers at run time say, or written there."""
    value = draft.pick(has_dims(1, 3))
    tensor = draft.tensor(value)
    sizes = [int(draft.rng.integers(0, extent + 1)) for extent in tensor.shape]
    starts = [draft.add((), "i32", f"index {extent + 2}") for extent in tensor.shape]
    if draft.chance(0.5):
        draft.call("dynamic_slice", value, starts, sizes=sizes)
        return
    draft.call("dynamic_update_slice", value, draft.add(sizes, tensor.dtype.name), starts)


DIFFERENTIABLE: tuple[Maker, ...] = (
    smooth, smooth, smooth, binary, binary, binary, where, clip, reduction, reduction, scan, reshape, transpose,
    arrangement, arrangement, matrices, broadcast, squeeze, pad, joining, split, index, index, take, take_along,
    scatter, matmul, product_of, product_of, einsum, row_ops, norms, norms, attention, cross_entropy, windows, widen,
    sorting,
)  # fmt: skip
MAKERS: tuple[Maker, ...] = (
    *DIFFERENTIABLE, steps, comparison, comparison, of_integers, truth, search, search, sorting, top_k, one_hot,
    convert, convert,
)  # fmt: skip
