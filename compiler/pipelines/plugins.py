"""Passes of plugins at their places in a pipeline: beside the pass that `register_pass` names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from blu.errors import ParseError
from blu.passes.framework import registry
from blu.passes.framework.base import Pass
from blu.passes.framework.levels import level_named
from blu.passes.framework.registry import Placement


def insert_plugins(passes: Iterable[Pass]) -> Iterator[Pass]:
    """The passes, each between those that plugins have placed beside it (and what others have placed beside these)."""
    for pass_ in passes:
        beside = [item for item in registry.placements() if item.anchor == pass_.name]
        yield from insert_plugins(item.pass_class() for item in beside if not item.is_after)
        yield pass_
        yield from insert_plugins(item.pass_class() for item in beside if item.is_after)


def check_placements(names: Collection[str]) -> None:
    """Refuse placements beside a pass that is neither in this pipeline (its `names`), nor in a target's, nor placed."""
    placed = {item.pass_class.name: item for item in registry.placements()}
    if not placed:
        return
    known = {*names, *_names_for_targets()}
    for item in placed.values():
        root = _root(item, placed)
        if root not in known:
            _refuse(item, known | placed.keys() - {item.pass_class.name})
        _check_level(item)


def _names_for_targets() -> Iterator[str]:
    """The passes of all targets: a plugin for GPUs has no place in a processor's pipeline, and is no mistake."""
    from blu.compiler.pipelines import cpu, sm80, sm90

    return (
        pass_.name for pipeline in (cpu, sm80, sm90) for stage in pipeline.PIPELINE.stages for pass_ in stage.passes
    )


def _root(item: Placement, placed: Mapping[str, Placement]) -> str:
    """The pass, placed by nobody, beside which a chain of placements ends; "" for a chain that leads back to itself."""
    seen = {item.pass_class.name}
    while item.anchor in placed:
        if item.anchor in seen:
            return ""
        seen.add(item.anchor)
        item = placed[item.anchor]
    return item.anchor


def _check_level(item: Placement) -> None:
    """ParseError where a pass says that it is of a level that there is not."""
    try:
        level_named(item.pass_class.level or "blu")
    except ParseError as error:
        message = f"pass '{item.pass_class.name}' says level = {item.pass_class.level!r}: {error.message}"
        raise ParseError(message, location=item.location or None, advice=error.advice) from None


def _refuse(item: Placement, candidates: Collection[str]) -> None:
    side = "after" if item.is_after else "before"
    guess = registry.nearest(item.anchor, sorted(candidates))
    raise ParseError(
        f"pass '{item.pass_class.name}' is to run {side} '{item.anchor}', which no pipeline comes to",
        location=item.location or None,
        advice=guess or "`blu-compile --print-pipeline` prints the passes of a pipeline",
    )
