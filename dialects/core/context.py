"""The MLIR context that everything of Blu happens in."""

from __future__ import annotations

import importlib
import pkgutil
import threading
from functools import cache

import blu.dialects.ops
import blu.dialects.tensor
from blu.dialects.core.mlir import ir

# Loading a dialect that Python defines goes through state of its class, which threads would tear.
_loading = threading.RLock()


def make_context() -> ir.Context:
    """A context with the Blu dialects and without threads: MLIR's own deadlock with verifiers written in Python."""
    context = ir.Context()
    context.enable_multithreading(False)
    with _loading:
        _declare_ops()
        from blu.dialects import plan
        from blu.dialects.core import op

        op.load(context)
        plan.load(context)
    return context


@cache
def _declare_ops() -> None:
    """Import every module of ops, which declares them, and of what tensors offer, which passes write new ops with."""
    for package in (blu.dialects.ops, blu.dialects.tensor):
        for module in pkgutil.iter_modules(package.__path__):
            if not module.name.startswith("_"):
                importlib.import_module(f"{package.__name__}.{module.name}")
