"""Rows of products that nobody needs are not computed: those between results of a convolution.

A convolution reads for all its results rows of the padded operand one after the other, and so computes rows between
images' edges as well, which are dropped. A processor's products may walk several dimensions instead, which step over
them; and terms of a gradient that are zero because they stand for such rows are left out of its sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import emitting_at, value_type
from blu.dialects.ops.contraction import parse_equation
from blu.passes.framework.base import Pass, find
from blu.passes.framework.bodies import blocks_of
from blu.passes.graph.simplify.rules import Site, emit, made_by, splat_of


@dataclass(frozen=True)
class SkipRows(Pass):
    """Products compute the rows of results alone, and sum over rows alone that are not zero.

        %1 = "blu.contract"(%windows, %weight) {equation = "mA,Af->mf"} : (tensor<18426x576xf32>, ..)
        %2 = "blu.row_windows"(%1) {sizes = [16, 32, 32], steps = [1156, 34, 1], start = 0}

    becomes

        %2 = "blu.contract"(%of_results, %weight) {equation = "abcA,Af->abcf"} : (tensor<16x32x32x576xf32>, ..)

    where the windows of results are seen in the same memory as all windows were.
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        rules = {"blu.row_windows": _results_alone, "blu.contract": _terms_alone, "blu.matmul": _terms_alone}
        for block in [block for function in find(module, func.FuncOp) for block in blocks_of(function)]:
            for operation in [item.operation for item in block.operations if item.name in rules]:
                with ir.InsertionPoint(operation), emitting_at(operation.location):
                    value = rules[operation.name](Site(operation))
                if value is not None:
                    operation.results[0].replace_all_uses_with(value)
                    operation.erase()
                    self.count("products")


@dataclass(frozen=True)
class _Rows:
    """Row start + i * steps[0] + j * steps[1] + ... for each (i, j, ..) of sizes, and no row twice."""

    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    start: int

    @property
    def has_gaps(self) -> bool:
        """Whether there are rows between them, each of them being once there."""
        inner = [product(self.sizes[dim + 1 :]) for dim in range(len(self.sizes))]
        reach = [
            sum((size - 1) * step for size, step in zip(self.sizes[dim + 1 :], self.steps[dim + 1 :], strict=True))
            for dim in range(len(self.sizes))
        ]
        pairs = list(zip(self.sizes, self.steps, inner, reach, strict=True))
        is_once = all(step > far for size, step, _, far in pairs if size > 1)
        return is_once and any(step > count for size, step, count, _ in pairs if size > 1)

    def seen(self, source: ir.Value, start: int, sizes: Sequence[int] = (), steps: Sequence[int] = ()) -> ir.Value:
        """What they see of rows of a source: each, or for each the windows of these sizes and steps."""
        return emit(
            "row_windows",
            source,
            sizes=(*self.sizes, *sizes),
            steps=(*self.steps, *steps),
            start=self.start + start,
        )


def _results_alone(site: Site) -> ir.Value | None:
    """Of a product, or of a sum of products, the rows that are taken."""
    rows = _Rows(*(site.attributes[name] for name in ("sizes", "steps", "start")))
    if site.source_type.ndim != 2 or not site.type.size or not rows.has_gaps or not _is_of_products(site.operands[0]):
        return None
    return _taken(site.operands[0], rows)


def _is_of_products(value: ir.Value) -> bool:
    """Whether rows of products can be left out: nobody else reads them, nor what they are added up to."""
    if len(list(value.uses)) != 1 or isinstance(value.owner, ir.Block):
        return False
    site = Site(value.owner.operation)
    if site.name == "add":
        return all(value_type(own) == site.type and _is_of_products(own) for own in site.operands)
    if site.name == "convert":
        return _is_of_products(site.operands[0])
    return site.name in ("matmul", "contract") and _has_rows(site) and _rows_can_be_taken(site.operands[0])


def _has_rows(site: Site) -> bool:
    """Whether the first dimension of a result are the rows of the left operand, and only these."""
    labels = parse_equation(_equation(site))
    return labels.result[0] == labels.lhs[0] and labels.lhs[0] not in labels.rhs and len(labels.result) == 2


def _equation(site: Site) -> str:
    """Of a product; a matmul of more than matrices has none of this kind."""
    if site.name == "contract":
        return site.attributes["equation"]
    ndims = [value_type(operand).ndim for operand in site.operands]
    return "mk,kf->mf" if ndims == [2, 2] else "zmk,zkf->zmf"


def _rows_can_be_taken(value: ir.Value) -> bool:
    """Whether the first dimension are rows of something that windows see."""
    if isinstance(value.owner, ir.Block):
        return False
    site = Site(value.owner.operation)
    if site.name == "convert" or (site.name == "reshape" and _keeps_rows(site)):
        return _rows_can_be_taken(site.operands[0])
    if site.name == "row_windows":
        return site.source_type.ndim == 2 and site.attributes["steps"][0] == 1
    return site.name == "slice" and site.type.ndim == 2 and _is_of_whole_rows(site)


def _keeps_rows(site: Site) -> bool:
    return bool(site.type.ndim) and bool(site.source_type.ndim) and site.type.shape[0] == site.source_type.shape[0]


def _is_of_whole_rows(site: Site) -> bool:
    """Whether a slice is of rows side by side."""
    starts, limits, strides = (site.attributes[name] for name in ("starts", "limits", "strides"))
    return strides == (1, 1) and starts[1] == 0 and limits[1] == site.source_type.shape[1]


def _taken(value: ir.Value, rows: _Rows) -> ir.Value:
    """These rows of a value, whose first dimension is that of rows: several dimensions in its place."""
    site = Site(value.owner.operation)
    source = site.operands[0]
    if site.name == "add":
        return emit("add", *(_taken(own, rows) for own in site.operands))
    if site.name == "convert":
        return emit("convert", _taken(source, rows), dtype=site.type.dtype)
    if site.name == "reshape":
        return emit("reshape", _taken(source, rows), shape=(*rows.sizes, *site.type.shape[1:]))
    if site.name == "row_windows":
        sizes, steps = (site.attributes[name][1:] for name in ("sizes", "steps"))
        return rows.seen(source, site.attributes["start"], sizes, steps)
    if site.name == "slice":
        return rows.seen(source, site.attributes["starts"][0])
    left, right = site.operands
    return _product(site, _taken(left, rows), right, rows)


def _product(site: Site, left: ir.Value, right: ir.Value, rows: _Rows) -> ir.Value:
    """The product of a site, where several dimensions take the place of its rows."""
    equation = _equation(site)
    row = equation[0]
    free = [letter for letter in ascii_lowercase if letter not in equation]
    letters = "".join(free[: len(rows.sizes)])
    return emit(
        "contract", left, right, equation=equation.replace(row, letters), precision=site.attributes["precision"]
    )


def _terms_alone(site: Site) -> ir.Value | None:
    """A product that sums over rows, of which the right operand has some between zeros: over these alone."""
    equation = _equation(site)
    labels = parse_equation(equation)
    is_over_rows = labels.lhs[0] == labels.rhs[0] and labels.lhs[0] not in labels.result and len(labels.rhs) == 2
    if not is_over_rows or not _rows_can_be_taken(site.operands[0]):
        return None
    found = _between_zeros(site.operands[1])
    if found is None:
        return None
    right, rows = found
    return _product(site, _taken(site.operands[0], rows), right, rows)


def _between_zeros(value: ir.Value) -> tuple[ir.Value, _Rows] | None:
    """What zeros were put around of a value [rows, columns], [*sizes, columns], and where its rows are in the value."""
    count, start = value_type(value).shape[0], 0
    if (converted := made_by(value, "convert")) is not None:
        found = _between_zeros(converted.operands[0])
        return None if found is None else (emit("convert", found[0], dtype=converted.type.dtype), found[1])
    if (part := made_by(value, "slice")) is not None and part.type.ndim == 2 and _is_of_whole_rows(part):
        value, start = part.operands[0], part.attributes["starts"][0]
    flat = made_by(value, "reshape")
    pad = flat and made_by(flat.operands[0], "pad")
    if flat is None or not pad or flat.type.shape[1:] != pad.type.shape[-1:] or splat_of(pad.operands[1]) != 0:
        return None
    *low, outside = pad.attributes["low"]
    shape, sizes = pad.type.shape[:-1], pad.source_type.shape[:-1]
    steps = tuple(product(shape[dim + 1 :]) for dim in range(len(shape)))
    first = sum(before * step for before, step in zip(low, steps, strict=True)) - start
    last = first + sum((size - 1) * step for size, step in zip(sizes, steps, strict=True))
    rows = _Rows(sizes, steps, first)
    if outside or pad.attributes["high"][-1] or first < 0 or last >= count or not pad.source_type.size:
        return None
    return (pad.operands[0], rows) if rows.has_gaps else None
