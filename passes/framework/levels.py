"""The levels of IR: which dialects are legal at the end of each, and what to do about an operation that is not."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import tensor_type
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import names_in, operations_in
from blu.errors import BluError, ParseError
from blu.passes.framework import registry
from blu.passes.framework.base import FUNCTIONS, Pass
from blu.passes.framework.families import is_kernel
from blu.passes.framework.kernels import has_own_kernel, is_host_step
from blu.passes.framework.launches import check_launches

_CODE = ("llvm.func",)
# Views of what is behind them, down to the memory that it lies in.
_VIEWS = frozenset({"blu.barrier", "blu.row_windows"})


@dataclass(frozen=True)
class Level:
    """A level: the dialects legal at its end, whether ops with kernels of their own are, and whose job the rest was.

    `is_placed` says that what functions take and give has a place in memory: no tensors. `host` are the dialects of
    the host program, where they are others than those of kernels. `keeps_code` says that kernels are those of the level
    before, where their ops were looked at.
    """

    name: str
    dialects: frozenset[str]
    missing_rule: str
    has_own_kernels: bool = False
    is_placed: bool = True
    host: frozenset[str] = frozenset()
    keeps_code: bool = False

    def allows(self, operation: str, in_host: bool = False) -> bool:
        """Whether an operation of that name may be left, in the host program or elsewhere."""
        dialects = self.host if in_host and self.host else self.dialects
        if operation.partition(".")[0] in dialects:
            return True
        return self.has_own_kernels and (operation in _VIEWS or has_own_kernel(operation) or self._is_step(operation))

    def _is_step(self, operation: str) -> bool:
        """Whether an op is a step that has no memory yet."""
        return not self.is_placed and is_host_step(operation)


def _level(
    name: str,
    dialects: str,
    missing_rule: str,
    has_own_kernels: bool = False,
    is_placed: bool = True,
    host: str = "",
    keeps_code: bool = False,
) -> Level:
    legal = frozenset(dialects.split()) | {"builtin"}
    return Level(name, legal, missing_rule, has_own_kernels, is_placed, frozenset(host.split()), keeps_code)


_HOST = "func plan gpu arith memref"


_LEVELS = (
    _level(
        "blu",
        "func blu",
        "only `blu` ops and functions come out of tracing and of the passes on `blu`",
        is_placed=False,
    ),
    _level(
        "linalg",
        "func linalg tensor arith math plan",
        "no rule @lowers({op}) in passes/loops/lower_to_linalg, and no decomposition, covers it",
        has_own_kernels=True,
        is_placed=False,
    ),
    _level(
        "memref",
        "func linalg tensor arith math memref bufferization plan",
        "no rule of passes/host/bufferize places it in a buffer",
        has_own_kernels=True,
    ),
    _level(
        "kernel",
        "func gpu memref vector scf arith math nvvm llvm",
        "no kernel emitter of the target takes it",
        host=_HOST,
    ),
    _level("llvm", "llvm nvvm gpu", "no conversion to LLVM covers it: add one to the target's lowering", host=_HOST),
    _level(
        "plan", "llvm nvvm gpu", "blu-export-plan writes the host program down, and leaves kernels", keeps_code=True
    ),
)
LEVELS: dict[str, Level] = {level.name: level for level in _LEVELS}


def level_named(name: str) -> Level:
    """The level, or a ParseError that lists the levels."""
    if name not in LEVELS:
        guess = registry.nearest(name, list(LEVELS))
        raise ParseError(f"there is no level '{name}'", advice=f"{guess} levels: {', '.join(LEVELS)}".strip())
    return LEVELS[name]


@dataclass(frozen=True)
class CheckLevel(Pass, name="blu-check-level"):
    """Check that only operations of one level are left. The module is not changed.

        blu-check-level{to=llvm}
        llvm.func @f() { llvm.return }                          passes
        func.func @f() { return }                               error: 'func.func' is not legal at level 'llvm'

    Pipelines end each of their stages with it.
    """

    only_looks = True

    to: str = "linalg"

    def __post_init__(self) -> None:
        level_named(self.to)

    def run(self, module: ir.Module) -> None:
        level = level_named(self.to)
        for item in module.body.operations:
            in_host = bool(level.host) and isinstance(item, func.FuncOp) and not is_kernel(item)
            self._check_operations(level, item.operation, in_host)
            if in_host and not item.is_external:
                check_launches(item)
        if level.name == "blu":
            self._check_program(module)

    def _check_operations(self, level: Level, root: ir.Operation, in_host: bool) -> None:
        closed = _CODE if level.keeps_code else ()
        names = {root.name, *(item.name for item in operations_in(root, closed))} if closed else names_in(root)
        illegal = {name for name in names if not level.allows(name, in_host)}  # there are many ops, of few names
        holds_functions = level.is_placed and "func.func" in names
        if not illegal and not holds_functions:
            return
        for operation in (root, *operations_in(root, closed if illegal else FUNCTIONS)):
            if operation.name in illegal:
                self.fail(operation, _complaint(level, operation.name))
            if holds_functions and operation.name == "func.func":
                self._check_places(operation.opview)

    def _check_places(self, function: ir.OpView) -> None:
        """Where memory has been given out, functions take and give no tensors."""
        for type_ in (*function.type.inputs, *function.type.results):
            if isinstance(type_, (ir.RankedTensorType, ir.UnrankedTensorType)):
                self.fail(function, f"functions take memory, not {type_}, at level '{self.to}': blu-bufferize gives it")

    def _check_program(self, module: ir.Module) -> None:
        """A program is one function of tensors; what it called is inlined by now."""
        functions = [item for item in module.body.operations if isinstance(item, func.FuncOp)]
        if len(functions) != 1 or len(list(module.body.operations)) != 1:
            names = ", ".join(f"@{function.name.value}" for function in functions) or "none"
            advice = "Compile one at a time, or make the others private: calls of them are inlined."
            self.fail(module.operation, f"a program is one function; the functions here: {names}", advice=advice)
        for type_ in (*functions[0].type.inputs, *functions[0].type.results):
            try:
                tensor_type(type_)
            except BluError as error:
                self.fail(functions[0], f"arguments and results of a program are tensors: {error.message}")


def _complaint(level: Level, operation: str) -> str:
    op_class = "".join(word.capitalize() for word in operation.partition(".")[2].split("_"))
    return f"'{operation}' is not legal at level '{level.name}': {level.missing_rule.format(op=op_class)}"
