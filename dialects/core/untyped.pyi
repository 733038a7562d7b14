"""For type checkers: a module of which nothing is known (MLIR's wheels bring no type information)."""

from typing import Any

def __getattr__(name: str) -> Any: ...
