"""Smaller `blu` modules of the same meaning: ops that do nothing, chains of ops, and ops of constants."""

from blu.passes.simplify.simplify import Simplify

__all__ = ["Simplify"]
