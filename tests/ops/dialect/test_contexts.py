"""Contexts are used again where nobody has anything in them, and only there."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import blu
from blu.dialects.core import context as contexts
from blu.dialects.core.dialect import BluDialect
from blu.dialects.core.mlir import ir
from blu.errors import TraceError


@pytest.fixture(autouse=True)
def no_context_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "_kept", [])


def _context_of_a_trace() -> ir.Context:
    return blu.jit(lambda x: blu.exp(x)).trace(blu.spec((3,), "f32")).traced.module.context


def _is_used_again(context: ir.Context) -> bool:
    """Whether the next trace is in it. Only its number is kept meanwhile: who has it keeps others out."""
    number = id(context)
    del context
    gc.collect()
    return id(_context_of_a_trace()) == number


def test_a_context_nobody_has_anything_in_is_used_again() -> None:
    assert len({id(_context_of_a_trace()) for _ in range(3)}) == 1


def test_programs_that_were_compiled_keep_no_context_for_themselves() -> None:
    double = blu.jit(lambda x: x * 2, target="cpu")
    for count in (3, 4, 5):
        double(np.ones(count, np.float32))
    assert [kept.uses for kept in contexts._kept] == [3]


def test_programs_that_were_lowered_for_gpus_keep_no_context_for_themselves() -> None:
    """Steps of the host program know each other, which would keep it until cycles are looked for."""
    gc.disable()
    try:
        for count in (3, 4, 5):
            blu.jit(lambda x: blu.exp(x) @ x).trace(blu.spec((count, count), "f32")).lower("sm_90a")
    finally:
        gc.enable()
    assert [kept.uses for kept in contexts._kept] == [3]


@pytest.mark.parametrize("what", ["context", "module", "operation", "value", "type", "attribute"])
def test_a_context_that_somebody_has_something_in_is_left_alone(what: str) -> None:
    module = blu.jit(lambda x: blu.exp(x)).trace(blu.spec((3,), "f32")).traced.module
    operation = module.body.operations[0].regions[0].blocks[0].operations[0]
    attribute = module.body.operations[0].attributes["sym_name"]
    held = {"module": module, "operation": operation, "value": operation.results[0], "attribute": attribute}
    held |= {"type": operation.results[0].type, "context": module.context}
    kept = held[what]
    context = id(module.context)
    del module, operation, attribute, held
    gc.collect()
    assert id(_context_of_a_trace()) != context
    assert kept is not None


def test_a_tensor_that_left_its_trace_is_known_by_the_next() -> None:
    left: list[blu.Tensor] = []
    blu.jit(lambda x: left.append(x) or x + 1).trace(blu.spec((3,), "f32"))
    gc.collect()
    with pytest.raises(TraceError, match="a trace that has ended"):
        blu.jit(lambda x: x + left[0]).trace(blu.spec((3,), "f32"))


def test_a_context_without_an_op_that_is_declared_now_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    number = id(_context_of_a_trace())
    kept = contexts._kept[0].context
    monkeypatch.setattr(BluDialect, "operations", BluDialect.operations[:-2])
    del kept
    gc.collect()
    _context_of_a_trace()
    assert [id(item.context) for item in contexts._kept] != [number] or contexts._kept[0].uses == 1


def test_a_context_is_not_used_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "_USES", 3)
    for _ in range(7):
        _context_of_a_trace()
        assert len(contexts._kept) == 1 and contexts._kept[0].uses <= 3
    assert contexts._kept[0].uses == 1


def test_no_more_contexts_are_kept_than_are_of_use() -> None:
    traces = [blu.jit(lambda x: blu.exp(x)).trace(blu.spec((3,), "f32")) for _ in range(6)]
    assert len({id(trace.traced.module.context) for trace in traces}) == 6
    assert len(contexts._kept) == contexts._KEPT


def test_a_program_is_the_same_in_a_context_that_was_used_before() -> None:
    def lowered() -> str:
        traced = blu.jit(lambda x: blu.sum(blu.exp(x) * 2.0, 0)).trace(blu.spec((40, 3), "f32"))
        return traced.lower("x86-64-v3").text

    first = lowered()
    gc.collect()
    before = [kept.uses for kept in contexts._kept]
    assert lowered() == first
    assert [kept.uses for kept in contexts._kept] == [uses + 1 for uses in before]


def test_a_program_for_a_processor_imports_no_instructions_of_gpus() -> None:
    """They take as long as a small program. Contexts know dialects without their Python."""
    code = "import sys, blu; blu.jit(lambda x: x + 1).trace(blu.spec((3,))).lower('x86-64-v3'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in loaded if name.endswith("_nvvm_ops_gen")]
    assert [name for name in loaded if name.endswith("_arith_ops_gen")]


def test_passes_have_threads_only_where_no_op_is_written_in_python() -> None:
    context = contexts.make_context()
    alone = context.get_num_threads()
    with pytest.raises(ZeroDivisionError), contexts.with_threads(context, ["arith.addf", "llvm.load"]):
        assert context.get_num_threads() == max(alone, len(os.sched_getaffinity(0)))
        raise ZeroDivisionError
    assert context.get_num_threads() == alone
    with contexts.with_threads(context, ["arith.addf", "blu.add"]):
        assert context.get_num_threads() == alone
