"""A traced function on its way down, or at its end."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from blu.compiler.codegen.executable import Members, assembly_of, build_executable, details_of, llvm_ir_of
from blu.compiler.codegen.kernel_texts import KernelText
from blu.compiler.compiled import Compiled
from blu.compiler.driver.driver import DriverOptions, Report, run_pipeline
from blu.compiler.emission import writing_kernels
from blu.compiler.pipelines import pipeline_of
from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import module_text
from blu.dialects.targets.nvidia import Target
from blu.runtime.artifact import described

if TYPE_CHECKING:
    from blu.compiler.jit import Traced


@dataclass
class Lowered:
    """A module on its way down, or at its end: level "llvm"."""

    source: Traced
    target: Target = field(repr=False)
    report: Report | None = field(default=None, repr=False)

    def run(self, options: DriverOptions | None, stop: str | None) -> Lowered:
        steps = pipeline_of(self.target).steps(stop=stop)
        with nullcontext() if stop else writing_kernels(self.source.traced.module, self.target):
            self.report = run_pipeline(self.source.with_target(self.target), steps, options)
        return self

    @property
    def module(self) -> ir.Module:
        assert self.report is not None
        return self.report.module

    @property
    def text(self) -> str:
        """The module as MLIR text, with source locations."""
        return module_text(self.module)

    @property
    def llvm_ir(self) -> str:
        """LLVM IR of the kernels, once they are at level "plan"."""
        return llvm_ir_of(self.module)

    @property
    def assembly(self) -> str:
        """Assembly of the kernels, once they are at level "plan"."""
        return assembly_of(self.module)

    def save(self, path: str | Path) -> None:
        """Write the module's text to a file, from which `blu-compile` goes on."""
        Path(path).write_text(self.text)

    def executable(self, written: Mapping[str, KernelText] | None = None) -> Members:
        """Machine code and plan: the members of a `.blu` file. `written` are texts of kernels that are there."""
        return build_executable(self.module, self.source.text, written=written)

    def compile(self) -> Compiled:
        source, details = self.source, {**details_of(self.module), "name": self.source.name}
        return Compiled(source.traced.interface, described(self.executable(), details), details, source.overwrite)
