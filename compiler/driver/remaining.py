"""The passes that a module has before it: what is left of its target's pipeline after its position."""

from __future__ import annotations

from collections.abc import Sequence

from blu.compiler.driver.driver import DriverOptions, run_pipeline
from blu.compiler.driver.position import read_position
from blu.compiler.driver.source import IrSource, parse_source
from blu.compiler.pipelines import Step, pipeline_of
from blu.dialects.core.context import kept_context
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import module_text
from blu.dialects.targets.nvidia import target_of
from blu.passes.graph.autocast import Autocast


def remaining_steps(module: ir.Module, autocast: str = "") -> Sequence[Step]:
    """All passes that a module has before it."""
    with module.context:
        return pipeline_of(target_of(module)).replacing(Autocast(autocast)).steps(read_position(module))


def parse_module(text: str) -> ir.Module:
    """The module of a text that Blu has written."""
    return parse_source(IrSource("a module", text), kept_context())


def run_remaining(text: str) -> str:
    """The text of a module after all passes that it has before it. PassError where one refuses it."""
    module = parse_module(text)
    return module_text(run_pipeline(module, remaining_steps(module), DriverOptions(reproduce=False)).module)
