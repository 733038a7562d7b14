"""Smaller `blu` modules of the same meaning: ops that do nothing, chains of ops, and ops of constants."""

from blu.passes.graph.simplify.simplify import Simplify

__all__ = ["Simplify"]
