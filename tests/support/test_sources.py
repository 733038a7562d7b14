"""What belongs to a project: not what tools and virtual environments put beside it."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from tests.support.folders import ROOT
from tests.support.sources import statements_under, text_files, tree_of

OURS = ["a.py", "inner/b.md", "inner/.gitignore", ".ci/c.yml", "LICENSE"]
NOT_OURS = [
    "a.pyc", "picture.png", ".git/d.py", "__pycache__/e.py", "inner/__pycache__/f.py", "build/g.py", "x.egg-info/h.txt",
    "results/i.json", "v/pyvenv.cfg", "v/lib/site-packages/torch/j.py", "inner/env/pyvenv.cfg", "inner/env/k.py",
]  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in (*OURS, *NOT_OURS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


def test_files_of_tools_and_environments_are_not_the_projects(project: Path) -> None:
    assert {path.relative_to(project).as_posix() for path in text_files(project)} == set(OURS)


def test_this_file_and_the_readme_are_the_projects() -> None:
    assert {Path(__file__), ROOT / "README.md"} <= set(text_files(ROOT))


def test_a_file_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1")
    assert tree_of(path) is tree_of(path)


def test_statements_are_found_wherever_they_stand() -> None:
    text = """
        class A:
            def f(self):
                with x: one
        try:
            for a in b: two
            else: three
        except E:
            while c: four
        finally:
            if d: five
            elif e: six
            else: seven
        match g:
            case 1: eight
    """
    tree = ast.parse(textwrap.dedent(text))
    found = {id(node) for node in statements_under(tree) if isinstance(node, ast.stmt)}
    assert found == {id(node) for node in ast.walk(tree) if isinstance(node, ast.stmt)}
