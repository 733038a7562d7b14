"""Exchanges as NumPy does them, over the list of what all ranks have: every kind, dtype and reduction.

Run by each rank, it does all cases and prints those that went wrong (rank 0 also how many there were).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from blu.plan.tensors import DTYPES
from blu.runtime.ranks.group import FLOATS, KINDS, MOVED_ONLY, REDUCTIONS, RankGroup

Arrays = list[np.ndarray]
# Counts of elements per rank: none, one, not a whole number of vectors; and more than MPI sends at once.
PARTS = (0, 1, 257)
MANY = {"f64": 20_000, "bf16": 20_001}
NUMPY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "sum": np.add,
    "mean": np.add,
    "max": np.maximum,
    "min": np.minimum,
}


@dataclass(frozen=True)
class Case:
    """An exchange of `part` elements times the number of ranks from each rank."""

    kind: str
    dtype: str
    reduction: str = ""
    part: int = 257
    shift: int = 0
    root: int = 0

    def inputs(self, size: int) -> Arrays:
        """What all ranks have. Numbers differ in sign and magnitude, and reach none of a dtype's ends."""
        rng = np.random.default_rng([self.part, *self.kind.encode(), *self.dtype.encode()])
        values = rng.standard_normal((size, self.part * size)) * 8
        if self.dtype == "bool":
            return list(values > 0)
        return list((np.abs(values) if self.dtype.startswith("u") else values).astype(DTYPES[self.dtype]))

    def expected(self, inputs: Arrays) -> Arrays:
        """What all ranks get."""
        return EXPECTED[self.kind](self, inputs)


def reduced(case: Case, inputs: Arrays) -> np.ndarray:
    """All arrays as one, floats in f64 or, where an array is that, in extended precision."""
    if case.dtype not in FLOATS:
        return reduce(NUMPY[case.reduction], inputs)
    total = reduce(NUMPY[case.reduction], [array.astype(np.longdouble) for array in inputs])
    return total / len(inputs) if case.reduction == "mean" else total


def _scattered(case: Case, inputs: Arrays) -> Arrays:
    return np.split(reduced(case, inputs), len(inputs))


def _exchanged(case: Case, inputs: Arrays) -> Arrays:
    size = len(inputs)
    return [np.concatenate([np.split(array, size)[rank] for array in inputs]) for rank in range(size)]


EXPECTED: dict[str, Callable[[Case, Arrays], Arrays]] = {
    "all_reduce": lambda case, inputs: [reduced(case, inputs)] * len(inputs),
    "all_gather": lambda case, inputs: [np.concatenate(inputs)] * len(inputs),
    "reduce_scatter": _scattered,
    "broadcast": lambda case, inputs: [inputs[case.root]] * len(inputs),
    "all_to_all": _exchanged,
    "permute": lambda case, inputs: [inputs[(rank - case.shift) % len(inputs)] for rank in range(len(inputs))],
}


def all_cases(size: int) -> Iterator[Case]:
    """Every kind with every dtype, every reduction that it allows, and every root and shift."""
    for kind in KINDS:
        for dtype in DTYPES:
            for part in (*PARTS, *([MANY[dtype]] if dtype in MANY else [])):
                case = Case(kind, dtype, part=part)
                if KINDS[kind].reduces:
                    yield from (replace(case, reduction=name) for name in REDUCTIONS if is_allowed(name, dtype))
                else:
                    yield case
    yield from (Case("broadcast", "f32", root=root) for root in range(size))
    yield from (Case("permute", "f32", shift=shift) for shift in range(-size, size + 1))


def is_allowed(reduction: str, dtype: str) -> bool:
    """Whether numbers of the dtype are reduced to one of the same dtype in this way."""
    return (
        dtype not in MOVED_ONLY
        and not (reduction == "mean" and dtype not in FLOATS)
        and not (reduction == "sum" and dtype == "bool")
    )


def is_close(found: np.ndarray, expected: np.ndarray, case: Case, inputs: Arrays, *, hops: int = 0) -> bool:
    """Exact but for sums of floats, which may be off by the rounding of each addition and of the result.

    `hops` is how often sums are rounded to a 16-bit float on their way.
    """
    if case.reduction not in ("sum", "mean") or case.dtype not in FLOATS:
        return np.array_equal(found, expected.astype(found.dtype), equal_nan=case.dtype in FLOATS)
    size = len(inputs)
    largest = np.sum([np.abs(array.astype(np.float64)) for array in inputs], axis=0).max(initial=0)
    kept = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}[case.dtype]
    within = largest * (size * 2.0 ** -max(kept, 23) + hops * 2.0 ** -(kept + 1))
    within = within + 2.0 ** -(kept + 1) * np.abs(expected)
    return bool(np.all(np.abs(found.astype(np.longdouble) - expected) <= within))


def exchange(group: RankGroup, case: Case, *, together: Sequence[Case] = ()) -> list[str]:
    """What went wrong in the exchange of a case, while those of others are pending."""
    cases = [case, *together]
    inputs = [case.inputs(group.size) for case in cases]
    started = []
    for one, arrays in zip(cases, inputs, strict=True):
        source = arrays[group.rank].copy()
        taken = KINDS[one.kind].taken(source.size, group.size)
        target = np.full(taken + 1, 1, source.dtype)
        pending = group.start(
            one.kind,
            reduction=one.reduction,
            dtype=one.dtype,
            source=source.ctypes.data,
            target=target.ctypes.data,
            count=source.size,
            shift=one.shift,
            root=one.root,
        )
        started.append((pending, source, target))
    wrong = []
    for (pending, source, target), one, arrays in list(zip(started, cases, inputs, strict=True))[::-1]:
        pending.wait()
        pending.wait()  # again, which does nothing
        expected = one.expected(arrays)[group.rank]
        if not is_close(target[:-1], expected, one, arrays):
            wrong.append(f"rank {group.rank} of {group.size}: {one}: {target[:5]} for {expected[:5]}")
        if target[-1] != 1 or not np.array_equal(source, arrays[group.rank]):
            wrong.append(f"rank {group.rank} of {group.size}: {one} wrote where it should not")
    return wrong


def in_place(group: RankGroup, case: Case) -> list[str]:
    """What went wrong in the exchange of a case whose source and target share memory."""
    inputs = case.inputs(group.size)
    given = inputs[group.rank]
    taken = KINDS[case.kind].taken(given.size, group.size)
    memory = np.zeros(max(given.size, taken), given.dtype)
    overlap = KINDS[case.kind].overlap
    assert overlap is not None
    begin = overlap(given.size, group.size, group.rank)
    source, target = (memory, memory[begin:]) if given.size > taken else (memory[begin:], memory)
    source[: given.size] = given
    addresses = {"source": source.ctypes.data, "target": target.ctypes.data}
    group.start(case.kind, reduction=case.reduction, dtype=case.dtype, count=given.size, **addresses).wait()
    expected = case.expected(inputs)[group.rank]
    if is_close(target[:taken], expected, case, inputs):
        return []
    return [f"rank {group.rank} of {group.size}: in place: {case}: {target[:5]} for {expected[:5]}"]


def not_a_number(group: RankGroup) -> list[str]:
    """The maximum and minimum with a NaN of one rank are NaN."""
    wrong = []
    for dtype in FLOATS:
        for reduction in ("max", "min"):
            array = np.full(3, np.nan if group.rank == group.size - 1 else 1, DTYPES[dtype])
            address = array.ctypes.data
            group.start("all_reduce", reduction=reduction, dtype=dtype, source=address, target=address, count=3).wait()
            if not np.isnan(array.astype(np.float64)).all():
                wrong.append(f"{reduction} of {dtype} lost a NaN on rank {group.rank}")
    return wrong


def in_subgroups(group: RankGroup) -> list[str]:
    """Exchanges in the halves of a group, one of which is in backward order."""
    half = group.split(group.rank % 2, key=group.rank if group.rank % 2 else -group.rank)
    assert half is not None and half.size == (group.size + (group.rank + 1) % 2) // 2
    members = sorted(range(group.rank % 2, group.size, 2), key=lambda rank: rank if rank % 2 else -rank)
    wrong = [] if members[half.rank] == group.rank else [f"rank {group.rank} is {half.rank} of {members}"]
    for kind in KINDS:
        wrong += exchange(half, Case(kind, "f32", "sum" if KINDS[kind].reduces else "", shift=1))
    half.close()
    if group.split(None if group.rank else 0) is not None and group.rank:
        wrong.append("a rank without a color got a group")
    return wrong


def main() -> int:
    """Run by each rank."""
    from blu.runtime.ranks.mpi import MpiGroup
    from blu.runtime.ranks.world import World

    group = MpiGroup.of_world(World.of_environment())
    cases = list(all_cases(group.size))
    wrong = [line for case in cases for line in exchange(group, case)]
    sums = [Case(kind, "bf16", "sum") for kind in ("all_reduce", "reduce_scatter")]
    wrong += exchange(group, sums[0], together=[sums[1], Case("permute", "i64", shift=1), Case("all_gather", "u8")])
    for dtype in ("f64", "f32", "bf16", "bool"):
        for kind in (name for name in KINDS if KINDS[name].overlap):
            wrong += in_place(group, Case(kind, dtype, "max" if KINDS[kind].reduces else ""))
    wrong += not_a_number(group) + in_subgroups(group)
    for line in wrong:
        print(line)
    if group.rank == 0:
        print(f"{len(cases)} cases")
    group.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
