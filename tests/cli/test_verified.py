"""Where modules are verified: around passes of users, where a level ends, and not again after what only removes."""

from __future__ import annotations

from pathlib import Path

import pytest

from blu.compiler.driver import driver
from blu.compiler.driver.driver import DriverOptions, run_pipeline
from blu.compiler.driver.source import parse_source, read_source
from blu.compiler.pipelines import Pipeline, Stage
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.passes.framework import registry
from blu.passes.framework.base import MlirPass, Pass
from tests.support.programs.toy_passes import MODULE, ToyDropNegations

CSE, CANONICALIZE = MlirPass("cse"), MlirPass("canonicalize")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ir.Module:
    monkeypatch.setattr(driver, "is_extended", lambda: False)
    path = tmp_path / "model.mlir"
    path.write_text(MODULE)
    return parse_source(read_source(str(path)), make_context())


def ours(monkeypatch: pytest.MonkeyPatch, but: type[Pass] | None = None) -> None:
    """Passes of these tests count as Blu's own."""
    monkeypatch.setattr(registry, "is_ours", lambda cls: cls is not but)


def verified(module: ir.Module, *stages: tuple[Pass, ...], each: bool | None = None) -> list[bool]:
    """Whether the module was verified after each pass, and after the check that ends each stage."""
    steps = Pipeline("p", tuple(Stage("blu", passes) for passes in stages)).steps()
    return [item.verify_seconds > 0 for item in run_pipeline(module, steps, DriverOptions(verify_each=each)).runs]


def test_passes_of_ours_are_verified_where_a_level_ends(module: ir.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    ours(monkeypatch)
    stages = (CSE, CANONICALIZE), (CSE,)
    assert verified(module, *stages) == [False, True, False, True, False]
    assert verified(module, *stages, each=True) == [True, True, False, True, False]
    assert not any(verified(module, *stages, each=False))


def test_passes_of_users_are_given_and_give_verified_ir(module: ir.Module) -> None:
    assert verified(module, (CSE, CSE, ToyDropNegations(), CSE, CSE)) == [False, True, True, False, True, False]


def test_what_only_removes_is_not_verified_again(module: ir.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """But where it comes first, and what it was given was not verified here, and where it is a user's, who may err."""
    monkeypatch.setattr(ToyDropNegations, "only_removes", True)
    stages = (CSE, CANONICALIZE), (ToyDropNegations(),)
    ours(monkeypatch)
    assert verified(module, *stages) == [False, True, False, False, False]
    assert verified(module, stages[1]) == [True, False]
    ours(monkeypatch, but=ToyDropNegations)
    assert verified(module, *stages) == [False, True, False, True, False]
