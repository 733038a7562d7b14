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
