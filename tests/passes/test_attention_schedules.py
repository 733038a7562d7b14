"""Schedules of attention and of its gradients on GPUs: others give them, or are told why they do not fit."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import blu
from blu.errors import PassError
from blu.passes.kernels.schedules import Fields, wish_for
from tests.support.kernels.attention_problems import Problem
from tests.support.kernels.gpu_program import compile_program

PREFILL = Problem("prefill", "bf16", (1, 20, 32), (1, 37, 32), 16, causal=True)
DECODE = Problem("decode", "f16", (2, 1, 40), (2, 70, 40), 40)
WIDE = Problem("f32", "f32", (1, 20, 16), (1, 33, 16), 16)


@pytest.mark.parametrize(
    ("problem", "fields"),
    [
        (PREFILL, {"strips": 2, "keys": 32}),
        (PREFILL, {"keys": 16, "queries": "shared"}),
        (WIDE, {"keys": 64, "strips": 2}),
        (DECODE, {"warps": 3}),
        (DECODE, {"kind": "tiles", "keys": 16}),
    ],
)
def test_attention_is_emitted_as_is_wished(problem: Problem, fields: Fields) -> None:
    arrays = problem.arrays()
    chosen = compile_program(problem.forward(), *arrays)
    wished = compile_program(problem.forward(), *arrays, schedules={"attention_0": fields})
    assert wished.ptx != chosen.ptx
    problem.check(wished.interpret(*arrays))


@pytest.mark.parametrize(
    "fields",
    [
        {"query_warps": 2, "query_strips": 2, "keys": 16, "query_left": "shared"},
        {"key_warps": 2, "key_strips": 2, "queries": 16, "key_left": "shared"},
        {"launches": "apart"},
    ],
)
def test_gradients_are_emitted_as_is_wished(fields: Fields) -> None:
    arrays = PREFILL.arrays()
    chosen = compile_program(PREFILL.backward(), *arrays)
    wished = compile_program(PREFILL.backward(), *arrays, schedules={"attention_gradient_0": fields})
    assert wished.ptx != chosen.ptx
    PREFILL.check(wished.interpret(*arrays))


def refusal(problem: Problem, fields: Fields, target: str, gradient: bool = False) -> PassError:
    specs = [blu.spec(item.shape, problem.dtype) for item in problem.arrays()]
    traced = blu.jit(problem.backward() if gradient else problem.forward()).trace(*specs)
    wish_for(traced.traced.module, {"attention_gradient_0" if gradient else "attention_0": fields})
    with pytest.raises(PassError) as caught:
        traced.lower(target, stop="blu-choose-schedules")
    return caught.value


LONG = replace(PREFILL, query=(1, 20, 256), key=(1, 37, 256), width=256)


@pytest.mark.parametrize(
    ("problem", "fields", "message"),
    [
        (PREFILL, {"kind": "gradient"}, "there is no kind of schedule 'gradient'"),
        (PREFILL, {"warps": 4}, "a schedule of kind 'tiles' has no field 'warps'"),
        (PREFILL, {"strips": 3}, "strips = 3: there are 1, 2"),
        (PREFILL, {"keys": 48}, "keys = 48: there are 16, 32, 64, 128"),
        (PREFILL, {"queries": "memory"}, "queries = 'memory': left factors are in 'registers' or in 'shared' memory"),
        (WIDE, {"queries": "registers"}, "queries = 'registers': there is no room for numbers of 32 bits"),
        (PREFILL, {"kind": "few_queries"}, "kind 'few_queries' takes at most 8 queries"),
        (DECODE, {"warps": 1}, "warps = 1: a block has a thread for each column, 2 to 32 warps"),
        (DECODE, {"warps": 33}, "warps = 33: a block has a thread for each column, 2 to 32 warps"),
        (DECODE, {"blocks": 3}, "blocks = 3: clusters have 1, 2, 4, 8 blocks"),
        (DECODE, {"blocks": 2}, "blocks = 2: sm_89 has no clusters of blocks"),
        (LONG, {"strips": 2}, "sums and factors take 288 registers of each thread, of at most 192"),
        (LONG, {"keys": 64}, "tiles take 168960 bytes of shared memory, and a block on sm_89 has 101376"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(problem: Problem, fields: Fields, message: str) -> None:
    error = refusal(problem, fields, "sm_89")
    assert message in str(error) and "the schedule of kernel 'attention_0': " in error.message
    assert re.match(r".*attention_problems\.py:\d+", error.location or "")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"query_warps": 3}, "query_warps = 3: there are 1, 2, 4, 8"),
        ({"key_left": "here"}, "key_left = 'here': left factors are in 'registers' or in 'shared' memory"),
        ({"launches": "one"}, "launches = 'one': gradients of keys and values are found 'together' or 'apart'"),
        ({"launches": "together"}, "take 272 registers of each thread, of at most 192"),
        ({"query_warps": 8, "query_strips": 1, "keys": 16}, "bytes of shared memory, and a block on sm_89 has 101376"),
    ],
)
def test_a_schedule_of_gradients_that_does_not_fit_is_refused(fields: Fields, message: str) -> None:
    assert message in refusal(LONG, fields, "sm_89", gradient=True).message


def test_a_block_has_a_thread_for_each_column_however_many_heads_there_are() -> None:
    """With four warps, the last columns of such rows would not be written."""
    queries, keys = np.zeros((600, 1, 256), np.float32), np.zeros((600, 2, 256), np.float32)
    program = compile_program(blu.attention, queries, keys, keys)
    [launch] = program.plan["launches"]
    assert (launch["grid"][0], launch["threads"]) == (600, 256)
