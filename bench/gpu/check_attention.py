"""Checks of attention and its gradient: dtypes, masks, grouped heads, odd lengths, row lengths, decoding; and speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import ml_dtypes
import numpy as np

import blu
from bench.gpu.case import Case

DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "tf32": np.float32}
TOLERANCES = {"bf16": 6e-3, "f16": 1e-3, "f32": 1e-5, "tf32": 3e-3}


def cases() -> Iterator[Case]:
    """Small cases, of which every element is compared."""
    yield from _row_lengths()
    yield from _lengths()
    yield from _tf32()
    yield from _parts()
    yield from _masks()
    yield from _decoding()
    yield from _layouts()


def _random(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    return rng.standard_normal(shape, dtype=np.float32).astype(DTYPES[dtype])


def _both(
    name: str,
    dtype: str,
    query: tuple[int, ...],
    key: tuple[int, ...],
    width: int | None = None,
    rest: tuple[np.ndarray, ...] = (),
    **options: object,
) -> Iterator[Case]:
    """Attention and its three gradients; `rest` is a mask."""
    width = key[-1] if width is None else width
    shapes = (query, key, (*key[:-1], width))
    operands = tuple(_random(shape, dtype, place) for place, shape in enumerate(shapes))
    g = _random((*query[:-1], width), dtype, 3)
    name = f"{name} {dtype} {query} {key} {width}"

    def forward(query, key, value, *mask):
        return blu.attention(query, key, value, *mask, **options)

    def backward(query, key, value, g, *mask):
        _, pull = blu.vjp(lambda *operands: forward(*operands, *mask), query, key, value)
        return pull(g)

    yield Case(f"attention {name}", forward, (*operands, *rest), TOLERANCES[dtype])
    yield Case(f"attention gradient {name}", backward, (*operands, g, *rest), 2 * TOLERANCES[dtype])


def _row_lengths() -> Iterator[Case]:
    for width in (5, 64, 128):
        yield from _both("f32", "f32", (2, 2, 200, width), (2, 1, 220, width), causal=True)
    for width in (16, 32, 64, 80, 96, 128, 192, 256):
        shape = (2, 2, 200, width)
        yield from _both("causal", "bf16" if width in (32, 64, 128) else "f16", shape, shape, causal=True)
    for queries, keys, width in ((127, 79, 256), (129, 81, 200), (300, 513, 256), (128, 80, 136)):
        yield from _both("long rows", "f16", (2, 4, queries, width), (2, 2, keys, width), causal=queries > 128)
    for causal in (False, True):  # so many heads that groups share tiles
        for width in (80, 128):
            shape = (9, 11, 150, width)
            yield from _both(f"two groups{' causal' * causal}", "f16", shape, shape, causal=causal)
    yield from _both("rows added up by blocks", "bf16", (1, 4, 4100, 128), (1, 2, 4097, 128))
    yield from _both("full", "bf16", (2, 3, 256, 64), (2, 3, 256, 64))
    yield from _both("odd rows", "bf16", (3, 100, 5), (3, 90, 5), 7, causal=True)
    yield from _both("different rows", "f16", (2, 3, 100, 40), (2, 3, 130, 40), 72)


def _lengths() -> Iterator[Case]:
    for queries, keys in ((1, 1), (63, 65), (65, 63), (128, 129), (130, 1), (300, 1000), (1000, 300)):
        causal = queries % 2 == 0 or keys == 1000
        dtype = "bf16" if causal else "f16"
        yield from _both("lengths", dtype, (2, 2, queries, 64), (2, 2, keys, 64), causal=causal)
    yield from _both("grouped causal", "bf16", (2, 8, 300, 64), (2, 2, 300, 64), causal=True)
    yield from _both("one key head", "f16", (2, 6, 150, 128), (2, 1, 170, 128))
    yield from _both("many heads", "bf16", (9, 11, 70, 32), (9, 11, 70, 32), causal=True)
    yield from _both("large scores", "bf16", (2, 2, 200, 64), (2, 2, 200, 64), causal=True, scale=4.0)
    yield from _both("negative scale", "bf16", (2, 2, 200, 64), (2, 2, 200, 64), causal=True, scale=-0.2)


def _tf32() -> Iterator[Case]:
    """Numbers that are rounded to tf32, which the reference's are not."""
    lengths = ((64, 64, True), (63, 65, False), (129, 200, True), (300, 100, True), (513, 640, True))
    for queries, keys, causal in lengths:
        for width in (64, 40) if queries < 100 else (64,):
            shapes = (2, 4, queries, width), (2, 2, keys, width)
            yield from _both("of rounded numbers", "tf32", *shapes, causal=causal, precision="tf32")
    yield from _both("of rows of two lengths", "tf32", (2, 130, 32), (2, 127, 32), 56, scale=-0.2, precision="tf32")


def _parts() -> Iterator[Case]:
    """Rows of f32, and of tf32, whose gradients warpgroups find of parts."""
    for queries, keys, width, causal in ((64, 64, 128, True), (129, 200, 128, False), (300, 100, 80, True)):
        shapes = (2, 4, queries, width), (2, 2, keys, width)
        yield from _both("of parts", "f32", *shapes, causal=causal)
        yield from _both("of two parts", "tf32", *shapes, causal=causal, precision="tf32")
    yield from _both("of parts, rows of two lengths", "f32", (9, 17, 130, 72), (9, 17, 127, 72), 96, scale=-0.2)


def _masks() -> Iterator[Case]:
    rng = np.random.default_rng(0)
    query, key = (2, 4, 150, 64), (2, 2, 170, 64)
    for shape in ((2, 1, 1, 170), (150, 170), (2, 4, 150, 170), (150, 1)):
        flags = rng.integers(0, 2, shape).astype(np.bool_)
        yield from _both(f"flags {shape}", "bf16", query, key, rest=(flags,), causal=len(shape) == 2)
        yield from _both(
            f"added {shape}", "bf16", query, key, rest=(rng.standard_normal(shape).astype(DTYPES["bf16"]),)
        )


def _decoding() -> Iterator[Case]:
    def decode(query, key, value, offset):
        return blu.attention(query, key, value, causal=True, offset=offset)

    for dtype in ("bf16", "f16", "f32"):
        for batch, queries, position in ((1, 1, 0), (1, 1, 700), (8, 1, 1023), (2, 4, 300), (2, 8, 1016), (1, 2, -1)):
            query = _random((batch, 12, queries, 64), dtype, 0)
            key, value = (_random((batch, 12, 1024, 64), dtype, seed) for seed in (1, 2))
            name = f"decode {dtype} {batch}x{queries} at {position}"
            yield Case(name, decode, (query, key, value, np.array(position, np.int32)), TOLERANCES[dtype])
    yield from _caching()


def _caching() -> Iterator[Case]:
    def step(query, key, value, keys, values, position):
        keys, values = (
            blu.dynamic_update_slice(cache, new, (0, 0, position, 0)) for cache, new in ((keys, key), (values, value))
        )
        return blu.attention(query, keys, values, causal=True, offset=position), keys, values

    for dtype in ("bf16", "f16", "f32"):
        for batch, heads, queries, position in ((1, 12, 1, 0), (1, 12, 1, 700), (8, 12, 1, 1023), (32, 4, 3, 300)):
            new = [_random((batch, count, queries, 64), dtype, seed) for seed, count in enumerate((12, heads, heads))]
            caches = [_random((batch, heads, 1024, 64), dtype, seed) for seed in (3, 4)]
            arguments = (*new, *caches, np.array(position, np.int32))
            name = f"decode into a cache {dtype} {batch}x{queries} at {position}"
            yield Case(name, step, arguments, TOLERANCES[dtype], donate=("keys", "values"))


def _layouts() -> Iterator[Case]:
    packed = _random((2, 200, 3, 4, 64), "bf16", 0)
    rows = _random((2, 200, 4 * 3 * 64), "bf16", 1)
    yield Case("attention packed", packed_attention, (packed,), TOLERANCES["bf16"])
    yield Case("attention packed by rows", _split_rows, (rows,), TOLERANCES["bf16"])
    turned = _random((2, 4, 64, 200), "bf16", 2)
    yield Case("attention of transposed rows", _of_transposed, (turned,), TOLERANCES["bf16"])
    g = _random((2, 4, 200, 64), "bf16", 3)
    yield Case("attention gradient packed", packed_gradient, (packed, g), 2 * TOLERANCES["bf16"])


def packed_attention(packed: blu.Tensor) -> blu.Tensor:
    """Causal attention of [B, T, 3, H, D]."""
    return blu.attention(*(packed[:, :, place].swapaxes(1, 2) for place in range(3)), causal=True)


def packed_gradient(packed: blu.Tensor, g: blu.Tensor) -> blu.Tensor:
    """The gradient of packed_attention."""
    _, pull = blu.vjp(packed_attention, packed)
    return pull(g)


def _split_rows(rows: blu.Tensor) -> blu.Tensor:
    parts = (rows[:, :, place * 256 : (place + 1) * 256].reshape((2, 200, 4, 64)) for place in range(3))
    return blu.attention(*(part.swapaxes(1, 2) for part in parts), causal=True)


def _of_transposed(turned: blu.Tensor) -> blu.Tensor:
    rows = turned.swapaxes(2, 3)
    return blu.attention(rows, rows, rows, causal=True)


# Batch, heads, length, columns.
SIZES = (
    (1, 12, 512, 64), (4, 12, 1024, 64), (8, 16, 1024, 64), (16, 12, 1024, 64), (64, 12, 1024, 64), (1, 16, 2048, 64),
    (1, 32, 2048, 128), (4, 32, 2048, 128),
)  # fmt: skip


def speed() -> Iterator[Case]:
    """The problems that Blu is measured by, of random numbers; one is read from packed operands, as in GPT-2."""
    for batch, heads, length, columns in SIZES:
        operand = blu.spec((batch, heads, length, columns), "bf16")
        for causal in (False, True):
            name = f"{'causal' if causal else 'full'} {batch}x{heads}x{length}x{columns}"
            forward = partial(blu.attention, causal=causal)
            yield Case(f"attention {name}", forward, (operand,) * 3, TOLERANCES["bf16"])
            backward = partial(gradients_of, forward)
            yield Case(f"attention gradient {name}", backward, (operand,) * 4, 2 * TOLERANCES["bf16"])
    packed, g = blu.spec((64, 1024, 3, 12, 64), "bf16"), blu.spec((64, 12, 1024, 64), "bf16")
    yield Case("attention packed 64x12x1024x64", packed_attention, (packed,), TOLERANCES["bf16"])
    yield Case("attention gradient packed 64x12x1024x64", packed_gradient, (packed, g), 2 * TOLERANCES["bf16"])


def gradients_of(forward: Callable, query: blu.Tensor, key: blu.Tensor, value: blu.Tensor, g: blu.Tensor) -> tuple:
    """The three gradients of attention by `forward`."""
    _, pull = blu.vjp(forward, query, key, value)
    return pull(g)
