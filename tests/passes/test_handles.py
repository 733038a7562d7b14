"""Operations that a pass of the user's keeps are no longer valid afterwards; those of others stay what they are."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.passes.framework import handles
from blu.passes.framework.handles import invalidating_kept_operations

TEXT = "func.func @first() { return }\nfunc.func @second() { return }\nfunc.func @third() { return }"


@pytest.fixture
def module() -> Iterator[ir.Module]:
    enabled = gc.isenabled()
    yield ir.Module.parse(TEXT, make_context())
    assert gc.isenabled() == enabled and not any("notice" in repr(callback) for callback in gc.callbacks)


@pytest.mark.parametrize("collected", [(), (0,), (1,), (2,), (0, 1, 2), (2, 2)])
@pytest.mark.parametrize("is_old", [False, True])
def test_what_is_kept_of_the_block_is_invalid_and_what_was_there_is_not(
    module: ir.Module, collected: tuple[int, ...], is_old: bool
) -> None:
    """Wherever the collector has put them, when a pass asks it to collect."""
    before = module.body.operations[0]
    if is_old:
        gc.collect()
    with invalidating_kept_operations(module.context):
        early = module.body.operations[1]
        for generation in collected:
            gc.collect(generation)
        late = module.body.operations[2]
    assert before.name.value == "first"
    for kept in (early, late):
        with pytest.raises(RuntimeError, match="invalid"):
            str(kept)


KEPT_OF_LLVM = """
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.passes.framework.handles import invalidating_kept_operations

module = ir.Module.parse("llvm.func @first() { llvm.return }", make_context())
with invalidating_kept_operations(module.context):
    kept = [module.body.operations[0], module.body.operations[0].regions[0].blocks[0].operations[0]]
for view in kept:
    try:
        str(view)
    except RuntimeError as error:
        print(error)
"""


def test_views_of_llvm_are_known_in_a_process_that_has_not_needed_its_classes() -> None:
    said = subprocess.run([sys.executable, "-c", KEPT_OF_LLVM], capture_output=True, text=True, check=True).stdout
    assert said.count("invalidated") == 2


def test_operations_of_other_contexts_stay_valid(module: ir.Module) -> None:
    other = ir.Module.parse(TEXT, make_context())
    with invalidating_kept_operations(module.context):
        kept = other.body.operations[1]
    assert kept.name.value == "second"


def test_an_error_of_the_pass_invalidates_too(module: ir.Module) -> None:
    kept: list[ir.OpView] = []
    with pytest.raises(ValueError, match="broken"), invalidating_kept_operations(module.context):
        kept.append(module.body.operations[1])
        raise ValueError("broken")
    with pytest.raises(RuntimeError, match="invalid"):
        str(kept[0])


def test_old_objects_are_not_looked_at(module: ir.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []
    views = handles._live_views
    monkeypatch.setattr(handles, "_live_views", lambda *generations: asked.append(generations) or views(*generations))
    with invalidating_kept_operations(module.context):
        many = [[] for _ in range(100_000)]
    assert asked == [(0,), (0,)] and many


def test_a_collector_that_is_off_stays_off(module: ir.Module) -> None:
    gc.disable()
    try:
        with invalidating_kept_operations(module.context):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
