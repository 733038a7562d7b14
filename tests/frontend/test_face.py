"""The names of `import blu`: those that are there, and those that editors and type checkers are told of."""

from __future__ import annotations

import sys

import pytest

import blu
from blu.frontend.functional import functional
from tests.support.folders import ROOT
from tests.support.golden_text import Golden

FACE = "__init__.pyi"


def stub() -> str:
    """The text of `blu/__init__.pyi`: `blu` loads its names when they are first used, which no checker can follow."""
    found = [(home, name, name) for name, home in blu._HOMES.items()]
    found += [(home, name, name) for name, home in functional.HOMES.items()]
    for name, module in blu._MODULES.items():
        package, _, own = module.rpartition(".")
        found.append((package, own, name))
    header = '"""What `blu` has, for type checkers: `pytest tests/frontend/test_face.py --update-golden` writes it."""'
    lines = [
        f"from {module} import {own} as {own if own == name else f'_{own}'}" for module, own, name in sorted(found)
    ]
    renamed = [f"{name} = _{own}" for _, own, name in sorted(found) if own != name]
    return "\n".join([header, "", *lines, "", *renamed, "__version__: str", ""])


def test_editors_are_told_of_all_names(golden: Golden) -> None:
    Golden(golden.is_updating, folder=ROOT / "blu").check(FACE, stub())


@pytest.mark.parametrize("name", dir(blu))
def test_every_name_is_there(name: str) -> None:
    assert getattr(blu, name) is not None


def test_no_two_families_have_a_function_of_one_name() -> None:
    names = [name for family in functional.FAMILIES for name in sys.modules[family].__all__]
    assert len(names) == len(set(names)) and set(names) <= set(vars(functional))
