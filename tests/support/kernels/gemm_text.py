"""Text of GEMM kernels as the emitters receive them, for the tests and for measuring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Buffer:
    """A memref argument: shape, element type, and a layout that numpy can view (strides in elements)."""

    shape: tuple[int, ...]
    element: str = "f32"
    strides: tuple[int, ...] | None = None
    offset: int = 0

    @property
    def memref(self) -> str:
        layout = ""
        if self.strides is not None or self.offset:
            layout = f", strided<{list(self.steps)}, offset: {self.offset}>"
        return f"memref<{'x'.join([*map(str, self.shape), self.element])}{layout}>"

    @property
    def tensor(self) -> str:
        return f"tensor<{'x'.join([*map(str, self.shape), self.element])}>"

    @property
    def steps(self) -> tuple[int, ...]:
        if self.strides is not None:
            return self.strides
        return tuple(int(np.prod(self.shape[i + 1 :])) for i in range(len(self.shape)))

    @property
    def length(self) -> int:
        """Elements of the allocation that the memref lies in."""
        return self.offset + 1 + sum(max(size - 1, 0) * step for size, step in zip(self.shape, self.steps, strict=True))

    def view(self, memory: np.ndarray) -> np.ndarray:
        """The memref's elements as a view of the flat array behind it."""
        steps = [step * memory.itemsize for step in self.steps]
        return np.lib.stride_tricks.as_strided(memory[self.offset :], self.shape, steps)


def gemm_text(
    left: Buffer, right: Buffer, output: Buffer, maps: Sequence[str], epilogue: str = "", extra: Sequence[Buffer] = (),
    result: str = "%sum", accumulator: str = "", outputs: Sequence[tuple[str, Buffer]] = (), shape: Sequence[int] = (),
) -> str:  # fmt: skip
    """A kernel `@gemm`: one linalg.contract with `maps` (left, right, result), then the text `epilogue`.

    The epilogue names the sums %sum, a tensor.empty of the output's type %empty, and extra inputs %x0, %x1, ...; the
    tensor named `result` goes to `output`, those of `outputs` to further buffers.
    """
    inputs = [left, right, *extra]
    stores = [(result, output), *outputs]
    total = Buffer(tuple(shape) or output.shape, accumulator or output.element)
    names = ["%a", "%b", *(f"%x{i}" for i in range(len(extra)))]
    arguments = [f"{name}_m: {buffer.memref}" for name, buffer in zip(names, inputs, strict=True)]
    arguments += [f"%out{i}: {buffer.memref}" for i, (_, buffer) in enumerate(stores)]
    reads = [
        f"{name} = bufferization.to_tensor {name}_m restrict : {buffer.memref} to {buffer.tensor}"
        for name, buffer in zip(names, inputs, strict=True)
    ]
    writes = [
        f"bufferization.materialize_in_destination {name} in restrict writable %out{i} : "
        f"({buffer.tensor}, {buffer.memref}) -> ()"
        for i, (name, buffer) in enumerate(stores)
    ]
    affine = ", ".join(f"affine_map<{map_}>" for map_ in maps)
    zero = "0" if total.element.startswith("i") else "0.0"
    return f"""module {{
  func.func private @gemm({", ".join(arguments)}) attributes {{blu.kernel = "gemm"}} {{
    %zero = arith.constant {zero} : {total.element}
    {chr(10).join(reads)}
    %empty_sum = tensor.empty() : {total.tensor}
    %empty = tensor.empty() : {output.tensor}
    %init = linalg.fill ins(%zero : {total.element}) outs(%empty_sum : {total.tensor}) -> {total.tensor}
    %sum = linalg.contract indexing_maps = [{affine}] ins(%a, %b : {left.tensor}, {right.tensor})
      outs(%init : {total.tensor}) -> {total.tensor}
    {epilogue}
    {chr(10).join(writes)}
    return
  }}
}}"""


NN = ("(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)")
NT = ("(m, n, k) -> (m, k)", "(m, n, k) -> (n, k)", "(m, n, k) -> (m, n)")
TN = ("(m, n, k) -> (k, m)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)")
TT = ("(m, n, k) -> (k, m)", "(m, n, k) -> (n, k)", "(m, n, k) -> (m, n)")


def plain_text(orientation: Sequence[str], rows: int, columns: int, depth: int, element: str = "f32") -> str:
    """A kernel without epilogue on contiguous buffers."""
    sizes = {"m": rows, "n": columns, "k": depth}
    result = "f64" if element == "f64" else "i32" if element == "i32" else "f32"
    shapes = [tuple(sizes[letter] for letter in map_.split("->")[1] if letter in sizes) for map_ in orientation]
    left, right, output = (Buffer(shape, kind) for shape, kind in zip(shapes, (element, element, result), strict=True))
    return gemm_text(left, right, output, orientation)
