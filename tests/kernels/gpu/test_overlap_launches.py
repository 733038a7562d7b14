"""Launches that begin early: of whole programs, whose kernels touch no memory before they have waited, and bring
what nobody writes into the cache while they wait (interpreted)."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.plan.schema import Plan
from blu.runtime.artifact import Artifact
from tests.support.kernels.gpu_program import compile_program
from tests.support.ptx import machine


def softmax_of_product(x, weight, index):
    """Kernels of several families, one of which walks over a table of calls."""
    taken = blu.take(x, index, axis=0)
    found = blu.softmax(taken @ weight)
    return blu.cumsum(found, axis=1), blu.exp(x).astype("bf16"), blu.sort(found, axis=1), blu.exp(weight).astype("bf16")


def artifact_of(target: str, function=softmax_of_product) -> Artifact:
    specs = blu.spec((64, 96), "f32"), blu.spec((96, 80), "f32"), blu.spec((32,), "i64")
    return Artifact.of(blu.jit(function).trace(*specs).compile(target).executable)


def launches_of(artifact: Artifact) -> list:
    return list(Plan.parse(artifact.read("plan.json")).launches)


def test_all_but_the_first_begin_early():
    launches = launches_of(artifact_of("sm_90a"))
    assert [launch.early for launch in launches] == [False] + [True] * (len(launches) - 1) and len(launches) > 4


def test_what_is_passed_a_large_table_begins_early_where_it_gathers_little_or_streams_for_few_rows():
    def compute(table, index):
        return blu.softmax(blu.softmax(blu.take(table, index, axis=0)) @ table.T)

    traced = blu.jit(compute).trace(blu.spec((60000, 256), "f32"), blu.spec((2,), "i64"))
    early = [launch.early for launch in launches_of(Artifact.of(traced.compile("sm_90a").executable))]
    assert early == [False] + [True] * (len(early) - 1) and len(early) > 2


def test_what_may_take_all_of_a_program_begins_early_alone():
    rows, index = blu.spec((4096, 4096), "f32"), blu.spec((64,), "i64")
    early = {
        name: [
            launch.early for launch in launches_of(Artifact.of(blu.jit(f).trace(*specs).compile("sm_90a").executable))
        ]
        for name, f, specs in (
            ("rows", lambda x: blu.softmax(x), [rows]),
            ("sums", lambda x: blu.sum(x, axis=0), [rows]),
            ("one of two", lambda x: blu.softmax(x @ x), [rows]),
            ("a product", lambda x: x @ x, [rows]),
            ("checked", lambda x, i: blu.take(x, i, axis=0) + 1, [rows, index]),
        )
    }
    assert early == {
        "rows": [True],
        "sums": [True],
        "one of two": [False, False],
        "a product": [False],
        "checked": [False, False],
    }


@pytest.mark.parametrize("target", ["sm_80", "sm_89"])
def test_older_machines_know_nothing_of_it(target):
    artifact = artifact_of(target)
    assert not any(launch.early for launch in launches_of(artifact))
    assert not any(b"griddepcontrol" in artifact.read(name) for name in artifact.names() if name.endswith(".ptx"))


def test_kernels_wait_before_they_touch_memory():
    artifact = artifact_of("sm_90a")
    names = [name for name in artifact.names() if name.endswith(".ptx")]
    assert len(names) > 4
    for name in names:
        before, waits, _ = artifact.read(name).decode().partition("griddepcontrol.wait;")
        code = before[before.index("{", before.index(".entry")) :]
        touches = re.compile(r"\b(ld|st|red|atom|cp)\.(?!param|async.bulk.prefetch)")
        touched = [line for line in code.splitlines() if touches.search(line)]
        # A table of calls is written by the host, before the program begins.
        assert waits and all("ld.global.nc.b64" in line or "ld.global.b64" in line for line in touched), (name, touched)
        assert not touched or "batch" in name
        assert artifact.read(name).count(b"griddepcontrol.launch_dependents;") == 1


def test_the_first_launch_of_a_loop_s_step_and_what_follows_a_loop_wait_for_all():
    def loop(x, weight, index):
        square = x.T @ x

        def step(carried, _):
            return blu.softmax(carried @ square, axis=1), None

        carried, _ = blu.scan(step, weight.T, None, length=5)
        return blu.softmax(carried @ square, axis=1)

    early = [launch.early for launch in launches_of(artifact_of("sm_90a", loop))]
    assert early[0] is False
    assert early[-12:] == [False, True] * 6


@pytest.fixture
def brought(monkeypatch):
    """The ranges of memory that are brought into the cache, as they come."""
    ranges, inner = [], machine._Blocks._prefetch_range

    def prefetch(self, operands, active):
        inner(self, operands, active)
        size, address = self._read(operands[1], 32), self._address(operands[0], 64)
        ranges.extend((int(address[thread]), int(size[thread])) for thread in np.flatnonzero(active))

    monkeypatch.setattr(machine._Blocks, "_prefetch_range", prefetch)
    return ranges


# Rows of the left factor, k, columns: fewer bytes than blocks have lines, shares that are uneven, odd sizes.
@pytest.mark.parametrize("sizes", [(1, 768, 42), (3, 100, 264), (1, 8, 9), (2, 33, 57), (40, 64, 272)])
def test_a_weight_is_brought_once(sizes, brought):
    rows, depth, columns = sizes
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, depth)).astype(np.float32)
    weight = rng.standard_normal((depth, columns)).astype(ml_dtypes.bfloat16)

    def compute(x, weight):
        return (2 * x).astype("bf16") @ weight, x + 1

    program = compile_program(compute, x, weight, donate=("x",))
    found, _ = program.interpret(x, weight)
    expected = (2 * x).astype(ml_dtypes.bfloat16).astype(np.float64) @ weight.astype(np.float64)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-2, atol=2e-2 * np.sqrt(depth))
    brought.sort()
    start, end = brought[0][0], brought[-1][0] + brought[-1][1]
    assert end - start == sum(size for _, size in brought) == weight.nbytes // 16 * 16, "no byte is brought twice"


@pytest.mark.parametrize("is_written", [False, True])
def test_a_matrix_that_nobody_writes_meanwhile_is_read_before_a_kernel_waits(is_written):
    def compute(x, weight):
        y = 2 * x
        changed = blu.dynamic_update_slice(weight, y[:1, :48], (0, 0)) if is_written else weight
        return y @ changed, changed

    x, weight = np.ones((8, 64), ml_dtypes.bfloat16), np.full((64, 48), 3, ml_dtypes.bfloat16)
    program = compile_program(compute, x, weight, donate=("weight",))
    ptx = program.ptx["gemm_0"]
    before, wait, after = ptx.partition("griddepcontrol.wait;")
    assert wait and "ld.global" in after and ("ld.global" in before) == (not is_written)
    np.testing.assert_array_equal(program.interpret(x, weight)[0].astype(np.float64), 382 if is_written else 384)


def test_what_kernels_write_is_not_brought(brought):
    x = np.ones((4, 64), np.float32)
    program = compile_program(lambda x: x + 1, x, donate=("x",))
    program.interpret(x)
    assert not brought and "prefetch" not in program.ptx["rows_0"]


def test_of_what_may_be_gathered_little_is_brought(brought):
    table, index = np.ones((4000, 64), np.float32), np.arange(8, dtype=np.int64)
    compile_program(lambda table, index: table[index] * 2, table, index).interpret(table, index)
    assert brought and all(size <= index.nbytes for _, size in brought)


@pytest.mark.parametrize("others", ["read it", "write it"])
def test_a_cache_is_read_before_a_kernel_waits_unless_those_before_write_to_it(others):
    def compute(tokens, keys, values, at):
        query = blu.exp(tokens + keys[:, :1] + values[:, :1])
        if others == "write it":
            keys, values = (blu.dynamic_update_slice(cache, 2 * query, (0, 20, 0)) for cache in (keys, values))
        values = blu.dynamic_update_slice(values, query, (0, at, 0))
        keys = blu.dynamic_update_slice(keys, query, (0, at, 0))
        return blu.attention(query, keys, values, causal=True, offset=at), keys, values

    tokens, cache = np.ones((2, 1, 64), np.float32), np.ones((2, 40, 64), np.float32)
    program = compile_program(compute, tokens, cache, cache, np.int32(3), donate=("keys", "values"))
    before, wait, _ = program.ptx["attention_0"].partition("griddepcontrol.wait;")
    # A copy that writes values is right before; the one that writes keys is over.
    assert wait and "ld.global.v4" in before and (before.count("ld.global.v4") > 4) == (others == "read it")
    results = [np.asarray(result, np.float64) for result in program.interpret(tokens, cache, cache.copy(), np.int32(3))]
    assert (results[1][0, 20, 0] == 2 * results[1][0, 3, 0]) == (others == "write it")
