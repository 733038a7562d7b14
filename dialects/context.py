"""The MLIR context that everything of Blu happens in."""

from __future__ import annotations

import importlib
import pkgutil

import blu.dialects
from blu.dialects.mlir import ir


def make_context() -> ir.Context:
    """A context with the Blu dialects and without threads: MLIR's own deadlock with verifiers written in Python."""
    context = ir.Context()
    context.enable_multithreading(False)
    _declare_ops()
    from blu.dialects import op, plan

    op.load(context)
    plan.load(context)
    return context


def _declare_ops() -> None:
    """Import every dialect module: importing one declares its ops, and the dialect registers what is declared."""
    for module in pkgutil.iter_modules(blu.dialects.__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"blu.dialects.{module.name}")
