"""The one place that says which package carries MLIR's Python bindings.

A genuine `mlir` package is preferred; the `torch_mlir` wheel, which holds the complete upstream bindings, is next.
Everybody else writes `from blu.dialects.core.mlir import ir, arith, ...`.
"""

from __future__ import annotations

import importlib
import signal
import sys
import threading
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from blu.dialects.quick_ops import QUICK, with_quick_builders

DIALECTS = (
    "affine", "arith", "bufferization", "builtin", "cf", "func", "gpu", "linalg", "llvm", "math", "memref",
    "nvvm", "scf", "tensor", "transform", "vector",
)  # fmt: skip


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits for the end of the block: while it is loaded, MLIR calls Python, and dies of what that raises."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    received: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if received:
            signal.raise_signal(signal.SIGINT)


def _load(name: str) -> types.ModuleType:
    with uninterrupted():
        return importlib.import_module(name)


def _find_package() -> str:
    """The name of the installed package that really carries the bindings (an empty `mlir` placeholder exists)."""
    for package in ("mlir", "torch_mlir"):
        try:
            _load(f"{package}.ir")
        except ImportError:
            continue
        return package
    raise ImportError("Blu needs MLIR's Python bindings: install the package torch-mlir==20261001 (see `blu doctor`)")


PACKAGE = _find_package()

# MLIR imports `<package>.dialects.<name>` when it meets an op. For a dialect that Python defines that fails anew each
# time (13 us an op, and for tokens, which are a type of a dialect without a module); that of LLVM is half of a first
# program's time, for classes that only emitters for GPUs use. An empty module under that name makes the look-up succeed
# at once.
_EMPTY = {name: types.ModuleType(f"{PACKAGE}.dialects.{name}") for name in ("blu", "plan", "llvm", "async")}
for _name, _module in _EMPTY.items():
    sys.modules.setdefault(_module.__name__, _module)

ir = _load(f"{PACKAGE}.ir")
passmanager = _load(f"{PACKAGE}.passmanager")
rewrite = _load(f"{PACKAGE}.rewrite")
PassManager = passmanager.PassManager


def __getattr__(name: str) -> types.ModuleType:
    """Upstream dialects, imported on first use: importing all of them costs a quarter of a second."""
    if name not in DIALECTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    path = f"{PACKAGE}.dialects.{name}"
    if sys.modules.get(path) is _EMPTY.get(name, path):
        del sys.modules[path]
    module = _linalg() if name == "linalg" else _load(path)
    if name in QUICK:
        module = with_quick_builders(name, module, ir)
    globals()[name] = module
    return module


def _linalg() -> types.ModuleType:
    """The linalg dialect's op classes without its Python DSL, which takes a quarter of a second to import.

    MLIR looks the module up when it meets a linalg op, so the light one takes the real one's place. Names that only the
    real one has (`linalg.matmul` and other functions of the DSL) load it.
    """
    name = f"{PACKAGE}.dialects.linalg"
    if name in sys.modules:
        return sys.modules[name]
    light = types.ModuleType(name)
    folders = _load(f"{PACKAGE}.dialects").__path__
    light.__path__ = [f"{folder}/linalg" for folder in folders]  # submodules are still found
    for source in ("dialects._linalg_ops_gen", "dialects._linalg_enum_gen", "_mlir_libs._mlirDialectsLinalg"):
        vars(light).update(_public(_load(f"{PACKAGE}.{source}")))

    def complete(missing: str) -> object:
        if missing.startswith("__"):
            raise AttributeError(missing)
        del sys.modules[name]
        full = _load(name)
        sys.modules[name] = light
        vars(light).update({key: value for key, value in vars(full).items() if key not in vars(light)})
        return getattr(full, missing)

    light.__getattr__ = complete  # type: ignore[method-assign]
    sys.modules[name] = light
    return light


def _public(module: types.ModuleType) -> dict[str, object]:
    return {name: value for name, value in vars(module).items() if not name.startswith("__")}


def translate_module_to_llvmir(operation: Any) -> str:
    """LLVM IR text (of MLIR's own LLVM version) for a module that holds only the LLVM dialect.

    MLIR kills the process where another dialect's op is left: callers check that first.
    """
    native = _load(f"{PACKAGE}._mlir_libs._mlirDialectsLLVM")
    return native.translate_module_to_llvmir(operation)


def load_declared(declarations: Any) -> None:
    """Load the dialects that a module of IRDL declares into its context."""
    _load(f"{PACKAGE}._mlir_libs._mlirDialectsIRDL").load_dialects(declarations)


def register_views(dialect: str, operations: Iterable[str]) -> None:
    """Give ops that have no class of their own one each for their views, which Python's collector then knows."""
    native = _load(f"{PACKAGE}._mlir_libs._mlir")
    owner = type("Dialect", (ir.Dialect,), {"DIALECT_NAMESPACE": dialect})
    for name in operations:
        view = type("View", (ir.OpView,), {"OPERATION_NAME": f"{dialect}.{name}", "_ODS_REGIONS": (0, True)})
        native.register_operation(owner, replace=True)(view)
