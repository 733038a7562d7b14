"""MLIR's print flags (`--mlir-print-ir-after-all` and friends) over pipelines that mix our passes and MLIR's."""

from __future__ import annotations

import sys
from pathlib import Path

from blu.compiler.driver.file_names import file_name
from blu.compiler.driver.observer import Observer, PassRun
from blu.compiler.pipelines import Step
from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import is_mathematics


@dataclass(frozen=True)
class PrintOptions:
    """Which IR is printed and how. `before` and `after` are pass names; `tree_dir` gets files in place of stderr.

    `readable` prints as dumps are written (`readable.py`); `names` is MLIR's way of calling values after named
    locations at every level (see `is_mathematics` for where that happens anyhow).
    """

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    before_all: bool = False
    after_all: bool = False
    after_change: bool = False
    after_failure: bool = False
    debuginfo: bool = False
    generic: bool = False
    local_scope: bool = False
    names: bool = False
    readable: bool = False
    elide_elements: int | None = None
    elide_resources: int | None = None
    tree_dir: Path | None = None

    @property
    def is_active(self) -> bool:
        """Whether anything is to be printed along the way."""
        return bool(
            self.before or self.after or self.before_all or self.after_all or self.after_change or self.after_failure
        )

    def flags(self) -> list[str]:
        """The command-line flags that say the same."""
        switches = ("before_all", "after_all", "after_change", "after_failure")
        flags = [f"--mlir-print-ir-{name.replace('_', '-')}" for name in switches if getattr(self, name)]
        flags += [f"--mlir-print-ir-before={','.join(self.before)}"] if self.before else []
        flags += [f"--mlir-print-ir-after={','.join(self.after)}"] if self.after else []
        flags += ["--readable"] if self.readable else []
        flags += [f"--mlir-print-ir-tree-dir={self.tree_dir}"] if self.tree_dir else []
        return flags

    def text(self, module: ir.Module) -> str:
        """The module as these options print it, with an end of line (MLIR leaves it out where it prints no aliases)."""
        readable = self.readable and not self.generic and not self.names
        text = module.operation.get_asm(
            enable_debug_info=self.debuginfo,
            print_generic_op_form=self.generic,
            use_local_scope=self.local_scope,
            use_name_loc_as_prefix=self.names or (is_mathematics(module) and not readable),
            large_elements_limit=self.elide_elements,
            large_resource_limit=self.elide_resources,
        )
        if not readable:
            return text.rstrip("\n") + "\n"
        from blu.compiler.driver.readable import readable_text

        return readable_text(module, text)


class IrPrinter(Observer):
    """Prints the module before and after the passes that were asked for, as `mlir-opt` does, on stderr."""

    def __init__(self, options: PrintOptions):
        self.options = options
        self.printed = 0

    def before(self, step: Step, module: ir.Module) -> None:
        if self.options.before_all or step.name in self.options.before:
            self._print("Before", step, module)

    def after(self, step: Step, module: ir.Module, run: PassRun) -> None:
        asked = self.options.after_all or step.name in self.options.after
        if self.options.after_change:
            asked = run.changed is True and (asked or not self.options.after)
        if asked:
            self._print("After", step, module)

    def failed(self, step: Step, module: ir.Module) -> None:
        if self.options.after_failure:
            self._print("Before Failed", step, module)

    def _print(self, when: str, step: Step, module: ir.Module) -> None:
        text = f"// -----// IR Dump {when} {step.name} //----- //\n{self.options.text(module)}\n"
        if self.options.tree_dir is None:
            sys.stderr.write(text)
            return
        self.options.tree_dir.mkdir(parents=True, exist_ok=True)
        name = f"{step.number:03d}-{when.lower().replace(' ', '-')}-{file_name(step.name)}.mlir"
        (self.options.tree_dir / name).write_text(text)
