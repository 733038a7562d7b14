"""Python files, read once for all tests that look at them, and which files belong to a project."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TEXT = {".py", ".ll", ".mlir", ".md", ".toml", ".txt", ".json", ".cfg", ".yml", ".yaml", ""}
SKIPPED = re.compile(r"(^|/)(\.(?!ci|gitignore)[^/]*|__pycache__|Output|build|dist|[^/]*\.egg-info|results)(/|$)")


@cache
def tree_of(path: Path) -> ast.Module:
    """What a file says."""
    return ast.parse(path.read_text(), str(path))


def statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """Statements right under a file, a statement, or one of these itself: handlers of errors, and cases."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        yield from getattr(node, field, ())


def statements_under(node: ast.AST) -> Iterator[ast.AST]:
    """All statements under one at any depth. Most of a file is expressions, in which nothing is imported or defined."""
    for item in statements_in(node):
        yield item
        yield from statements_under(item)


@cache
def text_files(root: Path) -> tuple[Path, ...]:
    """All text files that belong to a project. A virtual environment does not, whatever it is called."""
    found: list[Path] = []
    for folder, inner, names in os.walk(root):
        at = Path(folder)
        inner[:] = [name for name in inner if not _is_skipped(at / name, root) and not _is_environment(at / name)]
        files = [at / name for name in names if Path(name).suffix in TEXT]
        found += [path for path in files if path.is_file() and not _is_skipped(path, root)]
    return tuple(sorted(found))


def _is_skipped(path: Path, root: Path) -> bool:
    return SKIPPED.search(path.relative_to(root).as_posix()) is not None


def _is_environment(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").exists()
