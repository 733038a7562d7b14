"""Pipelines as data: stages of passes, each stage leading to a level of IR. The files beside this one list them.

PIPELINE = Pipeline("cpu", (
    Stage("blu", (Simplify(), Decompose())),
    Stage("linalg", (LowerToLinalg(), MlirPass("canonicalize"))),
))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blu.compiler.driver.position import PipelinePosition
from blu.compiler.pipelines.plugins import check_placements, insert_plugins
from blu.dataclass import dataclass
from blu.dialects.targets.cpu import CpuTarget
from blu.dialects.targets.nvidia import Target
from blu.errors import ParseError
from blu.passes.framework import registry
from blu.passes.framework.base import Pass
from blu.passes.framework.levels import CheckLevel, level_named


@dataclass(frozen=True)
class Stage:
    """Passes that bring IR to `level`. At the end, the operations that are left are checked against the level."""

    level: str
    passes: tuple[Pass, ...]

    def __post_init__(self) -> None:
        level_named(self.level)


@dataclass(frozen=True)
class Step:
    """A pass in its place: `number` counts from 1 through the whole pipeline, `position` is reached when it has run."""

    number: int
    pass_: Pass
    position: PipelinePosition

    @property
    def name(self) -> str:
        return self.pass_.name

    @property
    def level(self) -> str:
        return self.position.level or self.pass_.level


@dataclass(frozen=True)
class Pipeline:
    """Stages in order. `str` gives pipeline text that `--pass-pipeline` takes."""

    name: str
    stages: tuple[Stage, ...]

    def __str__(self) -> str:
        return pipeline_text(self.steps())

    def steps(self, start: str | PipelinePosition | None = None, stop: str | None = None) -> tuple[Step, ...]:
        """The passes to run: those after `start`, up to and including `stop`.

        `start` is a level that is said to be reached, which is checked first, or a module's position; `stop` is a level
        or a pass (its first occurrence).
        """
        steps = tuple(_number(self.with_plugins().stages))
        left = steps if start is None else self._after(steps, start)
        return left if stop is None else self._until(left, stop, steps)

    def with_plugins(self) -> Pipeline:
        """The pipeline with the passes that plugins have placed in it. ParseError for a place that there is not."""
        check_placements([pass_.name for stage in self.stages for pass_ in stage.passes])
        stages = tuple(Stage(stage.level, tuple(insert_plugins(stage.passes))) for stage in self.stages)
        return Pipeline(self.name, stages)

    def replacing(self, *passes: Pass) -> Pipeline:
        """The pipeline with these passes, and their options, in the place of those of the same name."""
        named = {pass_.name: pass_ for pass_ in passes}
        stages = [
            Stage(item.level, tuple(named.get(pass_.name, pass_) for pass_ in item.passes)) for item in self.stages
        ]
        return Pipeline(self.name, tuple(stages))

    def inserting(self, pass_: Pass, before: type[Pass]) -> Pipeline:
        """The pipeline with a pass more, before each of a class."""
        stages = [
            Stage(
                item.level,
                tuple(each for found in item.passes for each in ([pass_] * isinstance(found, before) + [found])),
            )
            for item in self.stages
        ]
        return Pipeline(self.name, tuple(stages))

    def _after(self, steps: tuple[Step, ...], start: str | PipelinePosition) -> tuple[Step, ...]:
        level = start if isinstance(start, str) else start.level
        levels = [stage.level for stage in self.stages]
        if level not in levels:
            raise self._unknown(f"the pipeline '{self.name}' has no level '{level}' to start from", level, [])
        if isinstance(start, str):
            return steps[max(index for index, step in enumerate(steps) if step.level == level) :]
        here = (levels.index(level), start.done)
        return tuple(step for step in steps if (levels.index(step.level), step.position.done) > here)

    def _until(self, left: tuple[Step, ...], stop: str, whole: tuple[Step, ...]) -> tuple[Step, ...]:
        """Those of the steps left that lead to `stop`. ParseError where the module is past it."""
        is_level = stop in {stage.level for stage in self.stages}
        ends = [index for index, step in enumerate(left) if stop == (step.level if is_level else step.name)]
        if ends:
            return left[: (ends[-1] if is_level else ends[0]) + 1]
        names = list(dict.fromkeys(step.name for step in whole))
        if not is_level and stop not in names:
            raise self._unknown(f"the pipeline '{self.name}' has no level or pass '{stop}' to stop at", stop, names)
        here = whole[-len(left) - 1].level
        if stop == here:
            return ()
        raise ParseError(f"{'level' if is_level else 'pass'} '{stop}' is behind: the module is at level '{here}'")

    def _unknown(self, message: str, name: str, passes: list[str]) -> ParseError:
        levels = [stage.level for stage in self.stages]
        guess = registry.nearest(name, levels + passes)
        return ParseError(message, advice=f"{guess} levels: {', '.join(levels)}".strip())


def _number(stages: Iterable[Stage]) -> Iterator[Step]:
    number = 0
    for stage in stages:
        for done, pass_ in enumerate((*stage.passes, CheckLevel(stage.level)), start=1):
            number += 1
            yield Step(number, pass_, PipelinePosition(stage.level, done))


def loose_steps(passes: Iterable[Pass]) -> tuple[Step, ...]:
    """Steps of passes that belong to no pipeline (`blu-opt --pass-pipeline`)."""
    return tuple(Step(number, pass_, PipelinePosition("", number)) for number, pass_ in enumerate(passes, start=1))


def pipeline_text(steps: Iterable[Step]) -> str:
    """Pipeline text of the steps."""
    return ",".join(str(step.pass_) for step in steps)


def pipeline_of(target: Target) -> Pipeline:
    """The passes that compile for a target. Those of other targets are not imported, which takes a while."""
    if isinstance(target, CpuTarget):
        from blu.compiler.pipelines import cpu

        return cpu.PIPELINE
    from blu.compiler.pipelines import sm80, sm90

    return sm90.PIPELINE if target.capability >= 90 else sm80.PIPELINE
