"""Passes and ops of the user's in Python programs: they take part at once, and the compile cache keeps out of it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest

import blu
import blu.installed as installed
from blu.compiler import fingerprint
from blu.compiler.cache import default_cache
from blu.dialects.core.op import OPS, BluDialect
from blu.dialects.ops.normalization import Softmax
from blu.dialects.ops.pointwise import Unary
from blu.dialects.ops.pointwise_unary import Tanh
from blu.passes.framework import registry
from blu.passes.loops.lower_to_linalg import RULES
from blu.passes.loops.lower_to_linalg.pointwise import BODIES, scalar_rule
from tests.support.folders import DATA

USER_PASS = DATA / "double_constants.py"
X = np.array([1, 2], np.float32)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BLU_CACHE_DIR", str(tmp_path))


def threefold():
    return blu.jit(lambda x: x * 3.0)(X).tolist()


def test_a_pass_changes_programs_that_the_cache_knows():
    assert threefold() == [3, 6]
    assert len(default_cache().entries()) == 1
    registry.load_pass_file(USER_PASS)
    assert threefold() == [6, 12]
    registry.unload_pass_files()
    assert threefold() == [3, 6]
    assert len(default_cache().entries()) == 1


def test_an_op_turns_the_cache_off(monkeypatch):
    assert not fingerprint.is_extended()
    monkeypatch.setattr("blu.dialects.core.op.OPS", dict(OPS))
    type("Foreign", (Unary,), {"__module__": "somewhere"}, name="foreign_op")
    assert fingerprint.is_extended() and default_cache().entries() == []


def declare(factor: float) -> type:
    """As a cell of a notebook does each time it is run."""

    class Stretch(Unary, name="stretch"):
        """x times a number."""

        reference = staticmethod(lambda x: x * factor)
        vjp = staticmethod(lambda g, x, y: g * factor)

    @scalar_rule("stretch")
    def stretch_body(x):
        return x * factor

    return Stretch


def test_an_op_is_declared_again_by_the_cell_that_has_declared_it(monkeypatch):
    monkeypatch.setattr("blu.dialects.core.op.OPS", OPS.copy())
    monkeypatch.setattr(BluDialect, "operations", list(BluDialect.operations))
    for table in (RULES, BODIES):
        monkeypatch.delitem(table, "stretch", raising=False)
    for factor in (2.0, 3.0):
        op = declare(factor)
        value, slope = blu.jit(blu.value_and_grad(lambda x, op=op: op(x).sum()))(X)
        assert (float(value), slope.tolist()) == (3 * factor, [factor, factor])


def test_an_op_by_the_name_of_another_is_refused():
    before = OPS["tanh"]
    with pytest.raises(blu.BluError, match=r"op tanh of .*another_one\.Tangent is declared by .*Tanh already"):
        type("Tangent", (Unary,), {"__module__": "another_one"}, name="tanh")
    assert OPS["tanh"] is before


def test_installed_plugins_are_in_the_key_and_in_pipelines(monkeypatch):
    before = fingerprint.source_fingerprint.__wrapped__()
    entry = metadata.EntryPoint("doubling", "some_package.passes", "blu.passes")
    monkeypatch.setattr(installed, "entry_points", lambda group: (entry,) if group == "blu.passes" else ())
    assert fingerprint.source_fingerprint.__wrapped__() != before
    loaded = []
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda self: loaded.append(self.name))
    monkeypatch.setattr(registry, "_imported", set())
    registry.placements()
    assert loaded == ["doubling"]


def test_installed_plugins_are_among_all_passes(monkeypatch):
    loaded = []
    monkeypatch.setattr(installed, "entry_points", lambda group: (metadata.EntryPoint("one", "a_package", group),))
    monkeypatch.setattr(metadata.EntryPoint, "load", lambda self: loaded.append(self.name))
    monkeypatch.setattr(registry, "_imported", set())
    registry.all_passes()
    registry.placements()
    assert loaded == ["one"]


def test_passes_are_found_by_name_after_a_program_was_compiled():
    code = "from blu.passes.framework import registry as r; r.placements(); print(r.lookup('blu-fit-cpu-schedules'))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "FitCpuSchedules" in told


def test_a_plugin_file_can_be_imported_too(monkeypatch):
    registry.load_pass_file(USER_PASS)
    monkeypatch.syspath_prepend(USER_PASS.parent)
    module = importlib.import_module("double_constants")
    assert registry.lookup("blu-double-constants") is module.DoubleConstants
    registry.load_pass_file(USER_PASS)
    assert registry.lookup("blu-double-constants") is not module.DoubleConstants
    assert threefold() == [6, 12]
    del sys.modules["double_constants"]


def test_a_gradient_of_another_dtype_names_its_op(monkeypatch):
    monkeypatch.setattr(Tanh, "vjp", staticmethod(lambda g, operand, result: g.astype("f64")))
    with pytest.raises(blu.BluError, match=r"the gradient of tanh \(its vjp\) gives f64\[2\]") as raised:
        blu.jit(blu.grad(lambda x: blu.tanh(x).sum())).trace(X).lower(stop="blu")
    assert "test_extensions.py" in raised.value.location


WRONG_CALLS = (lambda x: Tanh(), lambda x: Tanh(x, x), lambda x: Tanh(x, axis=0), lambda x: Softmax(x))


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_an_op_that_is_called_wrongly_says_how_it_is_called(call):
    forms = r"is called as (Tanh\(operand\)|Softmax\(operand, axis=...\)), not with"
    with pytest.raises(blu.BluError, match=forms) as raised:
        blu.jit(call).trace(X)
    assert "test_extensions.py" in raised.value.location


def test_an_op_without_a_rule_for_its_gradient_has_none(monkeypatch):
    monkeypatch.setattr(Tanh, "vjp", None)
    with pytest.raises(blu.BluError, match=r"blu\.tanh has no gradient") as raised:
        blu.jit(blu.grad(lambda x: blu.tanh(x).sum())).trace(X).lower(stop="blu")
    assert "test_extensions.py" in raised.value.location and "vjp or a decompose" in raised.value.advice
    assert blu.jit(blu.grad(lambda x: (x + blu.floor(x)).sum()))(X).tolist() == [1, 1]


WRONG_GRADIENTS = {
    r"the gradient of tanh \(its vjp\) gives 2 gradients for 1 operands": lambda g, operand, result: (g, g),
    r"the gradient of tanh \(its vjp\) gives f32\[1\] for an operand of f32\[2\]": lambda g, operand, result: g[:1],
    r"a tensor has no attribute 'cosa'.* \(raised at test_extensions\.py:\d+\)": lambda g, x, y: x.cosa(),
}


@pytest.mark.parametrize("message", WRONG_GRADIENTS)
def test_a_wrong_gradient_is_not_taken_for_a_defect(monkeypatch, message):
    monkeypatch.setattr(Tanh, "vjp", staticmethod(WRONG_GRADIENTS[message]))
    with pytest.raises(blu.BluError, match=message) as raised:
        blu.jit(blu.grad(lambda x: blu.tanh(x).sum())).trace(X).lower(stop="blu")
    assert "defect" not in str(raised.value)


@pytest.mark.parametrize(("made", "found"), [(lambda x, axis: x.sum(), "f32[]"), (lambda x, axis: 3, "int")])
def test_a_decomposition_into_something_else_is_refused(monkeypatch, made, found):
    monkeypatch.setattr(Softmax, "decompose", staticmethod(made))
    with pytest.raises(blu.BluError) as raised:
        blu.jit(lambda x: blu.softmax(x)).trace(X).lower(stop="blu")
    assert f"the decompose of softmax gives {found}, and its infer says f32[2]" in raised.value.message
    assert "test_extensions.py" in raised.value.location


def test_ops_are_steps_of_programs_and_take_tensors():
    with pytest.raises(blu.BluError, match="an op is a step of a program, and none is traced here"):
        Tanh(X)
    with pytest.raises(blu.BluError, match="tanh: takes tensors, got a value of type ndarray"):
        blu.jit(lambda x: Tanh(X)).trace(X)


def test_bodies_of_rules_may_begin_with_a_number(monkeypatch):
    monkeypatch.setitem(BODIES, "tanh", lambda x: 1 / (3 - x) + 2 * (1 + x))
    np.testing.assert_allclose(blu.jit(lambda x: blu.tanh(x))(X), 1 / (3 - X) + 2 * (1 + X), rtol=1e-6)
