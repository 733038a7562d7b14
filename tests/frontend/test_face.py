"""The names of `import blu`: those that are there, and those that editors and type checkers are told of."""

from __future__ import annotations

import subprocess
import sys
import traceback

import pytest

import blu
from blu.errors import OTHER_NAMES
from blu.frontend.functional import functional
from tests.reference import reference
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


def test_the_reference_says_what_docstrings_say(golden: Golden) -> None:
    Golden(golden.is_updating, folder=ROOT / "docs").check("reference.md", reference())


@pytest.mark.parametrize("name", dir(blu))
def test_every_name_is_there(name: str) -> None:
    assert getattr(blu, name) is not None


@pytest.mark.parametrize(
    "statement",
    [
        "from blu import random; random.normal(random.key(0), (2,))",
        "from blu import nn; nn.Linear(2, 3).initialize()(numpy.ones((1, 2), numpy.float32))",
        "from blu import array_api; array_api.exp(array_api.asarray(1.0))",
        "import blu.nn as nn; nn.Linear(2, 3).initialize()(numpy.ones((1, 2), numpy.float32))",
        "from blu.random import key, normal; normal(key(0), (2,))",
        "import blu.optim, blu.tree, blu.train, sys; assert blu.optim is sys.modules['blu.optim']",
        "import blu.runtime, sys; assert 'blu.dialects' not in sys.modules",
    ],
)
def test_modules_work_on_arrays_by_themselves(statement: str) -> None:
    ran = subprocess.run([sys.executable, "-c", f"import numpy; {statement}"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_no_two_families_have_a_function_of_one_name() -> None:
    names = [name for family in functional.FAMILIES for name in sys.modules[family].__all__]
    assert len(names) == len(set(names)) and set(names) <= set(vars(functional))


def suggested(statement: str) -> str:
    """The last line that Python prints of a statement that fails."""
    try:
        exec(statement, {"blu": blu, "x": blu.ones((2,))})
    except Exception as error:
        return traceback.format_exception(error)[-1].strip()
    raise AssertionError(f"{statement} does not fail")


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("blu.sofmax", "module 'blu' has no attribute 'sofmax': did you mean 'softmax'"),
        ("blu.nn.Linaer", "module 'blu.nn' has no attribute 'Linaer': did you mean 'Linear'"),
        ("blu.optim.adamW", "did you mean 'AdamW'"),
        ("blu.random.nromal", "did you mean 'normal'"),
        ("blu.array_api.exq", "did you mean 'exp'"),
        ("x.astyp", "'Array' object has no attribute 'astyp': did you mean 'astype'"),
        ("x.resahpe", "did you mean 'reshape'"),
        ("blu.jit(lambda x: x.sm())(x)", "a tensor has no attribute 'sm': did you mean 'sum'"),
        ("blu.cat([x, x])", "module 'blu' has no attribute 'cat': what others call cat is blu.concatenate"),
        ("x.unsqueeze(0)", "has no attribute 'unsqueeze': what others call unsqueeze is blu.expand_dims"),
        ("blu.jit(lambda x: x.mul(x))(x)", "a tensor has no attribute 'mul': what others call mul is blu.multiply"),
        ("blu.sum(x, axs=0)", "sum() got an unexpected keyword argument 'axs': did you mean 'axis'"),
    ],
)
def test_misspelt_names_are_guessed(statement: str, sentence: str) -> None:
    assert sentence in suggested(statement)


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_other_libraries_names_are_those_of_functions(name: str) -> None:
    assert OTHER_NAMES[name] in functional.HOMES


def test_names_of_pythons_own_are_not_guessed() -> None:
    assert not hasattr(blu.ones((2,)), "__len_hint__") and not hasattr(blu, "__wrapped__")
    assert suggested("x.__lenn__") == "AttributeError: 'Array' object has no attribute '__lenn__'"


def test_arrays_offer_their_methods_to_editors() -> None:
    assert {"softmax", "reshape", "shape", "numpy"} <= set(dir(blu.ones((2,))))
