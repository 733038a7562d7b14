"""Why kernels stay apart, in lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from blu.dialects.core.locations import Place, place_of, short
from blu.dialects.core.mlir import ir
from blu.passes.loops.fuse.flow import Group
from blu.passes.loops.fuse.groups import Refusal


@dataclass(frozen=True)
class Kind:
    """What lines have in common that say the same: those of repeated blocks do, whatever their modules are called."""

    families: tuple[str, str]
    reason: str
    places: tuple[Place, Place]


def lines_of(
    refusals: Iterable[Refusal], names: Mapping[Group, str], positions: Mapping[ir.Operation, int]
) -> list[str]:
    """A line for each two kernels of which one reads the other's results, or both the same, in program order.

    rows_0 and gemm_1 stay apart: a matrix product begins a kernel (model.py:10 ln, model.py:12 up), and 11 more alike
    """
    found: dict[Kind, list[Refusal]] = {}
    seen: set[frozenset[Group]] = set()
    for refusal in sorted(refusals, key=lambda item: positions[item.operation]):
        pair = frozenset((refusal.maker.final, refusal.reader.final))
        if len(pair) == 2 and pair not in seen:
            seen.add(pair)
            found.setdefault(_kind(refusal), []).append(refusal)
    return [_line(kind.reason, alike, names) for kind, alike in found.items()]


def _kind(refusal: Refusal) -> Kind:
    maker, reader = refusal.maker.final, refusal.reader.final
    place, other = (replace(place_of(item), path="") for item in (maker.location, refusal.operation.location))
    return Kind((maker.family, reader.family), refusal.reason, (place, other))


def _line(reason: str, alike: Sequence[Refusal], names: Mapping[Group, str]) -> str:
    first = alike[0]
    maker, reader = first.maker.final, first.reader.final
    spots = dict.fromkeys(filter(None, (short(maker.location), short(first.operation.location))))
    places = f" ({', '.join(spots)})" if spots else ""
    more = f", and {len(alike) - 1} more alike" if len(alike) > 1 else ""
    return f"{names[maker]} and {names[reader]} stay apart: {reason}{places}{more}"
