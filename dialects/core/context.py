"""The MLIR context that everything of Blu happens in."""

from __future__ import annotations

import importlib
import pkgutil
import threading

import blu.dialects.ops
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


def _declare_ops() -> None:
    """Import every dialect module: importing one declares its ops, and the dialect registers what is declared."""
    for module in pkgutil.iter_modules(blu.dialects.ops.__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"blu.dialects.ops.{module.name}")
