"""The MLIR context that everything of Blu happens in."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache

import blu.dialects.ops
import blu.dialects.tensor
from blu.dataclass import dataclass
from blu.dialects.core.dialect import BluDialect, Declared
from blu.dialects.core.mlir import ir

# What Blu builds ops of. A context loads others when it parses them; to load all that MLIR has takes twice as long.
DIALECTS = (
    "builtin", "func", "arith", "math", "linalg", "memref", "tensor", "scf", "vector", "affine", "cf", "bufferization",
    "llvm", "gpu", "nvvm", "irdl", "ub",
)  # fmt: skip
# Loading a dialect that Python defines goes through state of its class, which threads would tear.
_loading = threading.RLock()


def make_context() -> ir.Context:
    """A context with the Blu dialects and without threads: MLIR's own deadlock with verifiers written in Python."""
    context = ir.Context(load_on_create_dialects=())
    for dialect in DIALECTS:
        context.get_dialect_descriptor(dialect)  # which loads it; context.dialects would import its Python as well
    context.enable_multithreading(False)
    with _loading:
        _declare_ops()
        from blu.dialects import plan
        from blu.dialects.core import op

        op.load(context)
        plan.load(context)
    return context


@contextmanager
def with_threads(context: ir.Context, names: Collection[str]) -> Iterator[None]:
    """Let MLIR's passes work on several functions at a time, where none of their ops, by `names`, is Python's.

    What Python says of an op (how it is verified, what it does) needs the lock that whoever runs the passes holds.
    """
    is_upstream = all(name.partition(".")[0] in DIALECTS for name in names)
    if not is_upstream or context.get_num_threads() > 1:
        yield
        return
    context.enable_multithreading(True)
    try:
        yield
    finally:
        context.enable_multithreading(False)


@dataclass
class _Kept:
    """A context that is there for whoever comes next, once nobody has anything that is in it."""

    context: ir.Context
    operations: list[Declared]
    uses: int = 1

    @property
    def is_idle(self) -> bool:
        """Whether nobody else knows the context: modules, operations, types and values each hold it.

        What is known is the field, and the argument of the function that counts.
        """
        return sys.getrefcount(self.context) == 2

    @property
    def is_good(self) -> bool:
        """Whether its ops are those of now. It keeps what it has seen, so that none is used forever."""
        return self.operations == BluDialect.operations and self.uses < _USES


_USES = 100
_KEPT = 4
_kept: list[_Kept] = []


def kept_context() -> ir.Context:
    """A context as `make_context` makes it, which takes a fifth of a small program: one that is idle if there is one.

    Nobody else has anything in it, so that threads and traces stay apart as in contexts of their own.
    """
    with _loading:
        _kept[:] = [kept for kept in _kept if kept.is_good]
        for kept in _kept:
            if kept.is_idle:
                kept.uses += 1
                kept.context.allow_unregistered_dialects = False  # which `blu-opt` may have been asked for
                return kept.context
        context = make_context()
        _kept.append(_Kept(context, list(BluDialect.operations)))
        del _kept[:-_KEPT]
        return context


@cache
def _declare_ops() -> None:
    """Import every module of ops, which declares them, and of what tensors offer, which passes write new ops with."""
    for package in (blu.dialects.ops, blu.dialects.tensor):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.rpartition(".")[2].startswith("_"):
                importlib.import_module(module.name)
