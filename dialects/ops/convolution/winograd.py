"""Windows of 3 x 3 as products for each place of a tile: 16 multiplications in place of 36 for 2 x 2 results.

That is Winograd's F(2x2, 3x3). Along one dimension two results see four elements d through three factors w, and
y = A^T ((G w) * (B^T d)); G^T ((B^T d) * (A g)) are the gradients of the factors. The four numbers of each of d, w and
y may be matrices, of which products take the place of the multiplications. Rows of the operand are taken apart into the
four phases of places, so that what tiles read at a place are rows side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import product
from blu.dialects.ops.contraction import Contract
from blu.dialects.ops.convolution.products import joined, part
from blu.dialects.ops.convolution.row_windows import RowWindows
from blu.dialects.ops.identity import Barrier
from blu.dialects.ops.shape import Slice
from blu.dialects.tensor.tensor import Tensor

Numbers = list[Tensor]
Places = list[list[Tensor]]
"""A tensor for each place of a square."""

TILE = 2
"""Results of a tile along a dimension."""
WINDOW = 3
SEEN = TILE + WINDOW - 1
"""Places of a tile, along a dimension, that its results see."""


@dataclass(frozen=True)
class Images:
    """Where windows of 3 x 3 begin: `count` images, `height` x `width` windows in each, both even.

    The first is at row `start` of [rows, channels]; the next image is `image` rows further, and the next line `line`.
    """

    count: int
    height: int
    width: int
    image: int
    line: int
    start: int

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Images, and tiles in each along its dimensions."""
        return self.count, self.height // TILE, self.width // TILE

    @property
    def _phase(self) -> tuple[int, int, int]:
        """The sizes of a phase: its last line and column are seen by the last tiles."""
        images, lines, columns = self.tiles
        return images, lines + 1, columns + 1

    @property
    def _steps(self) -> tuple[int, int, int]:
        """The rows of a phase from one tile to the next along each dimension."""
        _, lines, columns = self._phase
        return lines * columns, columns, 1

    @property
    def rows(self) -> int:
        """The rows from the first tile to the last, with those between."""
        return 1 + sum((size - 1) * step for size, step in zip(self.tiles, self._steps, strict=True))

    def seen(self, operand: Tensor) -> Places:
        """What tiles see of the rows of an operand at each of their places, [rows, channels]."""
        phases = [[self._phase_of(operand, line, column) for column in range(TILE)] for line in range(TILE)]
        return [
            [self._rows_of(phases[line % TILE][column % TILE], line, column) for column in range(SEEN)]
            for line in range(SEEN)
        ]

    def _phase_of(self, operand: Tensor, line: int, column: int) -> Tensor:
        steps = self.image, TILE * self.line, TILE
        start = self.start + line * self.line + column
        phase = RowWindows(operand, sizes=self._phase, steps=steps, start=start)
        return phase.reshape((product(self._phase), operand.shape[-1]))

    def _rows_of(self, phase: Tensor, line: int, column: int) -> Tensor:
        start = line // TILE * self._steps[1] + column // TILE
        return part(phase, 0, start, start + self.rows)

    def of_tiles(self, rows: Tensor) -> Tensor:
        """The rows of tiles alone, [images, lines, columns, channels]."""
        return RowWindows(rows, sizes=self.tiles, steps=self._steps, start=0)

    def apart(self, results: Tensor) -> Places:
        """Each place of tiles of [images, height, width, features], [images, lines, columns, features]."""
        return [[self._every(results, line, column) for column in range(TILE)] for line in range(TILE)]

    @staticmethod
    def _every(results: Tensor, line: int, column: int) -> Tensor:
        return Slice(results, starts=(0, line, column, 0), limits=results.shape, strides=(1, TILE, TILE, 1))

    def together(self, places: Places) -> Tensor:
        """[images, height, width, features] of each place of tiles."""
        images, lines, columns = self.tiles
        shape = (images, lines, 1, columns, 1, places[0][0].shape[-1])
        of_lines = [joined([place.reshape(shape) for place in line], 4) for line in places]
        return joined(of_lines, 2).reshape((images, self.height, self.width, shape[-1]))


def convolved(operand: Tensor, weight: Tensor, images: Images, precision: str) -> Tensor:
    """What windows on rows of an operand give with a weight [3, 3, channels, features]."""
    seen, factors = along_both(_seen, images.seen(operand)), along_both(_factors, _places_of(weight))
    products = [
        [_times(images.of_tiles(left), right, "abcC,Cf->abcf", precision) for left, right in zip(*line, strict=True)]
        for line in zip(seen, factors, strict=True)
    ]
    return images.together(along_both(_results, products))


def weight_gradient(operand: Tensor, g: Tensor, images: Images, precision: str) -> Tensor:
    """The gradient [3, 3, channels, features] of the weight, g [images, height, width, features] being the results'.

    Tiles are put together for it anew: those of the convolution would be kept until then, four times the operand.
    """
    seen, back = along_both(_seen, images.seen(Barrier(operand))), along_both(_shares, images.apart(g))
    products = [
        [_times(images.of_tiles(left), right, "abcC,abcf->Cf", precision) for left, right in zip(*line, strict=True)]
        for line in zip(seen, back, strict=True)
    ]
    places = [place for line in along_both(_gradients, products) for place in line]
    shape = (1, 1, *places[0].shape)
    lines = [joined([place.reshape(shape) for place in line], 1) for line in _in_lines(places)]
    return joined(lines, 0)


def along_both(change: Callable[[Numbers], Numbers], places: Places) -> Places:
    """A change of numbers along the second dimension, and then along the first one."""
    lines = [change(line) for line in places]
    columns = [change(list(column)) for column in zip(*lines, strict=True)]
    return [list(line) for line in zip(*columns, strict=True)]


def _times(left: Tensor, right: Tensor, equation: str, precision: str) -> Tensor:
    """A product that is stored as it is: what is made of all of them is one kernel."""
    return Barrier(Contract(left, right, equation=equation, precision=precision))


def _places_of(weight: Tensor) -> Places:
    places = [part(part(weight, 0, line, line + 1), 1, at, at + 1) for line in range(WINDOW) for at in range(WINDOW)]
    return _in_lines([place.reshape(weight.shape[2:]) for place in places])


def _in_lines(places: Sequence[Tensor]) -> Places:
    return [list(places[line * WINDOW :][:WINDOW]) for line in range(WINDOW)]


def _seen(d: Numbers) -> Numbers:
    """B^T d."""
    return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]


def _factors(w: Numbers) -> Numbers:
    """G w."""
    outer = w[0] + w[2]
    return [w[0], (outer + w[1]) * 0.5, (outer - w[1]) * 0.5, w[2]]


def _results(m: Numbers) -> Numbers:
    """A^T m."""
    return [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]


def _shares(g: Numbers) -> Numbers:
    """A g."""
    return [g[0], g[0] + g[1], g[0] - g[1], -g[1]]


def _gradients(m: Numbers) -> Numbers:
    """G^T m."""
    half = (m[1] + m[2]) * 0.5
    return [m[0] + half, (m[1] - m[2]) * 0.5, half + m[3]]
