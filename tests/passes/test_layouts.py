"""In which layout bufferization stores what is read transposed."""

from __future__ import annotations

import re

import blu

ROWS, COLUMNS, WIDTH = 8192, 512, 2048


def layer(x: blu.Array, scale: blu.Array, weight: blu.Array, other: blu.Array) -> blu.Array:
    """A normalization that is computed again for the gradients, where a product reads it transposed."""
    with blu.autocast("tf32"):
        with blu.checkpoint("contractions"):
            y = blu.matmul(blu.layer_norm(x, scale, scale), weight)
        return blu.sum(blu.matmul(blu.gelu(y), other) * x)


def test_rows_that_are_copied_for_a_product_are_written_as_rows() -> None:
    """A warp that writes a row as a column touches a line of memory for each number: six times slower."""
    specs = [blu.spec(shape, "f32") for shape in ((ROWS, COLUMNS), (COLUMNS,), (COLUMNS, WIDTH), (WIDTH, COLUMNS))]
    gradients = blu.jit(blu.grad(layer, argnums=(0, 1, 2, 3))).trace(*specs)
    module = gradients.lower("sm_90a", stop="blu-bufferize").module
    calls = re.findall(r"call @rows_\d+\(([^)]*)\).*?: \((.*?)\) -> \(\)", str(module))
    column = f"memref<{ROWS}x{COLUMNS}xf32, strided<[1, {ROWS}]>>"
    assert calls
    assert not [types for _, types in calls if column in types]
    assert all(len({*values}) == len(values) for values in (text.split(", ") for text, _ in calls))


def head(x: blu.Array, words: blu.Array, targets: blu.Array) -> blu.Array:
    """The loss of logits that are too large to be had whole: products have two halves of x as factors."""
    with blu.autocast("tf32"):
        return blu.cross_entropy(blu.matmul(x, blu.transpose(words)), targets)


def test_a_factor_that_is_turned_around_lies_so_for_products_of_its_parts() -> None:
    """The copy would be one of memory onto itself otherwise, and the products left to single warps."""
    specs = blu.spec((8192, 768), "f32"), blu.spec((50304, 768), "f32"), blu.spec((8192,), "i32")
    module = blu.jit(blu.grad(head, argnums=(0, 1))).trace(*specs).lower("sm_90a", stop="memref").module
    x = "memref<768x8192xf32, strided<[1, 768]>>"
    assert re.findall(rf"\({re.escape(x)}, (.*?)\) -> \(\)", str(module)) == ["memref<768x8192xf32>"]
