"""Every test can fail: it asserts, expects an error or warning, or calls a function of the tests' that does."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.support.folders import ROOT, TESTS
from tests.support.sources import statements_under, tree_of

ASSERTING = {"raises", "warns", "fail"}
"""What fails by itself, of pytest's; numpy's functions begin with assert_."""


@dataclass(frozen=True)
class Function:
    """A function or method of a test file: where it is, whether it asserts, and what it mentions."""

    file: str
    name: str
    line: int
    asserts: bool
    names: frozenset[str]
    methods: frozenset[str]
    """Last names of attributes that it calls."""
    is_method: bool

    @classmethod
    def of(cls, file: str, node: ast.FunctionDef, is_method: bool) -> Function:
        inside = [item for statement in node.body for item in ast.walk(statement)]
        names = frozenset(item.id for item in inside if isinstance(item, ast.Name))
        calls = [item.func for item in inside if isinstance(item, ast.Call)]
        methods = frozenset(item.attr for item in calls if isinstance(item, ast.Attribute))
        fails = any(name in ASSERTING or name.startswith("assert_") for name in methods)
        asserts = fails or any(isinstance(item, ast.Assert) for item in inside)
        return cls(file, node.name, node.lineno, asserts, names, methods, is_method)


@dataclass(frozen=True)
class Checkers:
    """Names of what asserts and can be called in a file: functions (fixtures included), and these and methods."""

    functions: frozenset[str]
    members: frozenset[str]

    @classmethod
    def of(cls, found: set[Function], files: set[str]) -> Checkers:
        near = [item for item in found if item.file in files]
        return cls(frozenset(item.name for item in near if not item.is_method), frozenset(item.name for item in near))

    def are_called_by(self, function: Function) -> bool:
        return bool(function.names & self.functions or function.methods & self.members)


def functions_of(file: str, tree: ast.AST) -> list[Function]:
    """All functions and methods of a file, at any depth."""
    nodes = list(statements_under(tree))
    methods = {id(item) for node in nodes if isinstance(node, ast.ClassDef) for item in node.body}
    return [Function.of(file, node, id(node) in methods) for node in nodes if isinstance(node, ast.FunctionDef)]


def imported_files(tree: ast.AST) -> set[str]:
    """The files of tests that a file imports."""
    nodes = [node for node in statements_under(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in nodes for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name.replace(".", "/") + ".py" for name in names}


def without_assertion(trees: Mapping[str, ast.AST]) -> list[str]:
    """The tests that assert nothing, as `file:line name`."""
    known = [function for file, tree in trees.items() for function in functions_of(file, tree)]
    seen = {file: {file, "tests/conftest.py"} | imported_files(tree) for file, tree in trees.items()}
    found = {function for function in known if function.asserts}
    count = 0
    while count < len(found):
        count = len(found)
        checkers = {file: Checkers.of(found, files) for file, files in seen.items()}
        found |= {function for function in known if checkers[function.file].are_called_by(function)}
    tests = [function for function in known if function.name.startswith("test_") and not function.is_method]
    return [f"{test.file}:{test.line} {test.name}" for test in tests if test not in found]


def test_every_test_asserts_something() -> None:
    found = without_assertion(
        {path.relative_to(ROOT).as_posix(): tree_of(path) for path in sorted(TESTS.rglob("*.py"))}
    )
    assert not found, "tests that assert nothing:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("body", "is_sound"),
    [
        ("f(x)", False),
        ("try:\n  f(x)\n except ValueError: pass", False),
        ("other(x)", False),
        ("x.other(x)", False),
        ("assert f(x) == 1", True),
        ("with pytest.raises(ValueError): f(x)", True),
        ("for y in x:\n  check(y)", True),
        ("list(map(check_all, x))", True),
        ("x.check_all()", True),
        ("np.testing.assert_array_equal(f(x), 1)", True),
    ],
)
def test_a_test_without_assertion_is_found(body: str, is_sound: bool) -> None:
    others = "def check(y): assert y\ndef check_all(y): check(y)\ndef other(y): return y\n"
    tree = ast.parse(f"{others}def test_it(x):\n {body}\n")
    assert without_assertion({"test_it.py": tree}) == ([] if is_sound else ["test_it.py:4 test_it"])
