"""Cuts a failing program down to the shortest that fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import blu

from .programs import Call, Input, Program


def reduced(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The smallest program found that still fails, by trying smaller ones until none does."""
    changed = True
    while changed:
        changed = False
        for smaller in _smaller(program):
            if fails(smaller):
                program, changed = smaller, True
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with fewer results, with a value in place of what computed it, with plainer inputs."""
    if len(program.results) > 1:
        yield from (without_unused(program.with_results([number])) for number in program.results)
    yield from _ending_before(program)
    for place in range(len(program.calls)):
        yield from _without_call(program, place)
    for place, item in enumerate(program.inputs):
        for plainer in _plainer(item):
            yield replace(program, inputs=(*program.inputs[:place], plainer, *program.inputs[place + 1 :]))


def _ending_before(program: Program) -> Iterator[Program]:
    """The program with what the call of its only result takes in place of that result."""
    if len(program.results) != 1 or program.results[0] < len(program.inputs):
        return
    [place] = [
        place
        for place in range(len(program.calls))
        if program.first_of(place) <= program.results[0] < program.first_of(place) + program.counts[place]
    ]
    earlier = [number for number in program.calls[place].used() if number >= len(program.inputs)]
    yield from (without_unused(program.with_results([number])) for number in earlier)


def _plainer(item: Input) -> Iterator[Input]:
    if item.layout != "rows":
        yield replace(item, layout="rows")
    if item.kind in ("special", "bits", "ties", "positive"):
        yield replace(item, kind="normal")


def _without_call(program: Program, place: int) -> Iterator[Program]:
    """The program with inputs in place of what a call gives, if others use that or it is no result itself."""
    first, count = program.first_of(place), program.counts[place]
    own = range(first, first + count)
    if any(number in own for number in program.results):
        kept = [number for number in program.results if number not in own]
        used = [number for call in program.calls[place + 1 :] for number in call.used()]
        if not kept or not any(number in own for number in used):
            return
        program = program.with_results(kept)
    fresh = [Input(shape, dtype, _kind(program, place)) for shape, dtype in _types(program)[first : first + count]]
    yield without_unused(_replaced(program, place, fresh))


def _kind(program: Program, place: int) -> str:
    """Numbers that what comes after takes as indices must stay small."""
    return (
        "positive" if program.calls[place].name in ("argmax", "argmin", "argsort", "top_k", "remainder") else "normal"
    )


def _types(program: Program) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of every value."""
    found: list[tuple[tuple[int, ...], str]] = []

    def look() -> blu.Tensor:
        inputs = [blu.zeros(item.shape, item.dtype) for item in program.inputs]
        found.extend((tensor.shape, tensor.dtype.name) for tensor in program.values(inputs))
        return blu.zeros(())

    blu.jit(look).trace()
    return found


def _replaced(program: Program, place: int, fresh: list[Input]) -> Program:
    """Without a call; its results are new inputs at the end of the others."""
    before, first, count = len(program.inputs), program.first_of(place), program.counts[place]

    def renumbered(number: int) -> int:
        if number < before:
            return number
        if first <= number < first + count:
            return before + number - first
        return number if number >= first + count else number + count

    calls = [*program.calls[:place], *program.calls[place + 1 :]]
    counts = (*program.counts[:place], *program.counts[place + 1 :])
    return Program(
        (*program.inputs, *fresh),
        tuple(_with_numbers(call, renumbered) for call in calls),
        counts,
        tuple(map(renumbered, program.results)),
        program.gradient,
    )


def _with_numbers(call: Call, renumbered: Callable[[int], int]) -> Call:
    def changed(item):
        if isinstance(item, list):
            return [changed(entry) for entry in item]
        return renumbered(item) if isinstance(item, int) else item

    return replace(call, operands=tuple(map(changed, call.operands)))


def without_unused(program: Program) -> Program:
    """Without calls and inputs that no result needs."""
    needed = set(program.results)
    for place in reversed(range(len(program.calls))):
        first = program.first_of(place)
        if needed.intersection(range(first, first + program.counts[place])):
            needed.update(program.calls[place].used())
    kept = [
        place
        for place in range(len(program.calls))
        if needed.intersection(range(program.first_of(place), program.first_of(place) + program.counts[place]))
    ]
    inputs = [place for place in range(len(program.inputs)) if place in needed]
    numbers = {old: new for new, old in enumerate(inputs)}
    for place in kept:
        numbers |= {program.first_of(place) + item: len(numbers) + item for item in range(program.counts[place])}
    return Program(
        tuple(program.inputs[place] for place in inputs),
        tuple(_with_numbers(program.calls[place], numbers.__getitem__) for place in kept),
        tuple(program.counts[place] for place in kept),
        tuple(numbers[number] for number in program.results),
        program.gradient,
    )
