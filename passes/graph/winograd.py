"""Convolutions with windows of 3 x 3 by fewer multiplications, where these take longer than the memory for it."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import f32, product
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import emitting_at, value_type
from blu.dialects.ops.contraction import parse_equation
from blu.dialects.ops.convolution.winograd import TILE, WINDOW, Images, convolved, weight_gradient
from blu.dialects.tensor.tensor import Tensor
from blu.passes.framework.base import Pass, find
from blu.passes.framework.bodies import blocks_of
from blu.passes.graph.simplify.rules import Site, made_by


@dataclass(frozen=True)
class Winograd(Pass):
    """Products with windows of 3 x 3, and those that give their weight's gradient, are 16 for tiles of 2 x 2 results.

        %1 = "blu.row_windows"(%rows) {sizes = [16, 32, 32, 3, 3], steps = [1156, 34, 1, 34, 1], start = 0}
        %2 = "blu.contract"(%1, %weight) {equation = "abcABC,ABCf->abcf"} : (tensor<16x32x32x3x3x64xf32>, ..)

    becomes sums of what tiles see, 16 products of tensor<16x16x16x64xf32>, and sums of these. That takes 4
    multiplications for a result in place of 9, and the memory of what tiles see and of the products, four times that of
    the operand and the result: `least_width` is how many channels and features (of both, half of the harmonic mean) are
    worth it, `most_bytes` what it may take.
    """

    level = "blu"
    least_width: int = 32
    most_bytes: int = 64 * 1024 * 1024

    def run(self, module: ir.Module) -> None:
        for block in [block for function in find(module, func.FuncOp) for block in blocks_of(function)]:
            for operation in [item.operation for item in block.operations if item.name == "blu.contract"]:
                if (found := self._worthwhile(Site(operation))) is None:
                    continue
                with ir.InsertionPoint(operation), emitting_at(operation.location):
                    value = found.by_tiles(operation.attributes["precision"].value)
                operation.results[0].replace_all_uses_with(value.value)
                operation.erase()
                self.count("convolutions")

    def _worthwhile(self, site: Site) -> _Windows | None:
        """The windows of a product that is made so."""
        found = _windows_of(site)
        if found is None:
            return None
        channels, features = found.widths
        tiles = (TILE + WINDOW - 1) ** 2 * product(found.images.tiles)
        is_small = tiles * (channels + features) * f32.bytes <= self.most_bytes
        is_wide = channels * features >= self.least_width * (channels + features)
        return found if is_wide and is_small else None


@dataclass(frozen=True)
class _Windows:
    """What a product makes with windows on rows: results with the weight, or its gradient with that of the results."""

    images: Images
    rows: ir.Value
    other: ir.Value
    is_gradient: bool

    @property
    def widths(self) -> tuple[int, int]:
        """Channels and features."""
        return value_type(self.rows).shape[-1], value_type(self.other).shape[-1]

    def by_tiles(self, precision: str) -> Tensor:
        make = weight_gradient if self.is_gradient else convolved
        return make(Tensor(self.rows), Tensor(self.other), self.images, precision)


def _windows_of(site: Site) -> _Windows | None:
    """The windows that a product of f32 sees, where they are 3 x 3 and side by side in even numbers."""
    windows = made_by(site.operands[0], "row_windows")
    if windows is None or site.type.dtype != f32 or site.attributes["precision"] != "highest":
        return None
    images, is_gradient = _images_of(windows), _is_gradient(site.attributes["equation"])
    if images is None or is_gradient is None:
        return None
    return _Windows(images, windows.operands[0], site.operands[1], is_gradient)


def _images_of(windows: Site) -> Images | None:
    sizes, steps = windows.attributes["sizes"], windows.attributes["steps"]
    if windows.source_type.ndim != 2 or len(sizes) != 5 or sizes[3:] != (WINDOW, WINDOW) or not windows.type.size:
        return None
    (count, height, width, *_), (image, line, *_) = sizes, steps
    is_even = height % TILE == 0 and width % TILE == 0
    if not is_even or steps[2:] != (1, line, 1):
        return None
    return Images(count, height, width, image, line, windows.attributes["start"])


def _is_gradient(equation: str) -> bool | None:
    """Whether a product with windows sums over images, or (False) over places and channels; None where over others."""
    labels = parse_equation(equation)
    if len(labels.lhs) != 6:
        return None
    images, places, channels = labels.lhs[:3], labels.lhs[3:5], labels.lhs[5:]
    if labels.rhs[:3] == places + channels and labels.result == images + labels.rhs[3:] and len(labels.rhs) == 4:
        return False
    if labels.rhs[:3] == images and labels.result == places + channels + labels.rhs[3:] and len(labels.rhs) == 4:
        return True
    return None
