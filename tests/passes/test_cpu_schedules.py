"""Schedules of kernels for processors: what others give is done, to the bit, or refused with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product as product_of_sizes

import numpy as np
import pytest

import blu
from blu.dialects.core.mlir import ir
from blu.dialects.targets.cpu import CpuTarget
from blu.errors import PassError
from blu.passes.cpu.gemm.gemm import contraction_of
from blu.passes.cpu.lower.emit_kernels import EmitKernels
from blu.passes.framework.kernels import kernels_in
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.contraction import WIDE
from blu.passes.kernels.lanes import strides_of
from blu.passes.kernels.schedules import Fields, read_fields, wish_for
from tests.support.kernels.gemm_text import Buffer, gemm_text


def product(x):
    return x @ blu.transpose(x)


def attend(x):
    return blu.attention(x[None], x[None], x[None])[0]


def slope(x):
    return blu.grad(lambda x: (attend(x) ** 2).sum())(x)


PROGRAMS: dict[str, tuple[Callable, tuple[int, int], str]] = {
    "product": (product, (40, 60), "gemm_0"),
    "in rows": (lambda x: x[:2, :40] @ x, (40, 60), "gemm_0"),
    "long product": (lambda x: x @ blu.transpose(x), (8, 2000), "gemm_0"),
    "row sums": (lambda x: x - blu.max(x, axis=1, keepdims=True), (40, 60), "rows_0"),
    "column sums": (lambda x: blu.sum(x, axis=0), (700, 300), "loops_0"),
    "points": (lambda x: blu.exp(x), (2, 5000), "rows_0"),
    "attention": (attend, (40, 20), "attention_0"),
    "gradient": (slope, (40, 20), "attention_gradient_0"),
}


@pytest.mark.parametrize(
    ("program", "fields"),
    [
        ("product", {"kind": "tiles", "rows": 2, "vectors": 1, "chunk_rows": 8, "packed_panels": 1}),
        ("in rows", {"kind": "read_rows", "columns": 32}),
        ("in rows", {"kind": "tiles", "rows": 1, "vectors": 1, "packed_panels": 0, "fetch_ahead": 4}),
        ("long product", {"kind": "tiles", "rows": 4, "vectors": 1, "chunk_rows": 4, "packed_panels": 1}),
        ("row sums", {"kind": "rows", "rows": 3}),
        ("column sums", {"kind": "pieces", "columns": 256}),
        ("column sums", {"kind": "rows", "rows": 1}),
        ("points", {"kind": "pieces", "columns": 128}),
        ("attention", {"kind": "prefill", "query_groups": 1, "vectors": 1, "key_rows": 3}),
        ("gradient", {"kind": "gradient", "vectors": 1, "value_rows": 2}),
    ],
)
def test_a_kernel_is_emitted_as_is_wished_with_the_same_bits(program: str, fields: Fields) -> None:
    function, shape, name = PROGRAMS[program]
    x = np.random.default_rng(0).standard_normal(shape, np.float32)
    chosen = blu.jit(function).trace(blu.spec(shape, "f32"))
    wished = blu.jit(function).trace(blu.spec(shape, "f32"))
    wish_for(wished.traced.module, {name: fields})
    texts = [traced.lower(stop="kernel").text for traced in (chosen, wished)]
    assert texts[0] != texts[1]
    first, second = (np.asarray(traced.lower().compile()(x)) for traced in (chosen, wished))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(("rows", "depth", "columns"), [(16, 512, 64), (16, 128, 128), (1, 512, 128)])
def test_a_product_of_few_rows_is_shared_by_two_threads_where_it_is_long(rows: int, depth: int, columns: int) -> None:
    specs = blu.spec((rows, depth), "f32"), blu.spec((depth, columns), "f32")
    lowered = blu.jit(lambda x, y: x @ y).trace(*specs).lower("x86-64-v3", stop="blu-fit-cpu-schedules")
    (kernel,) = kernels_in(lowered.module).values()
    is_long = rows * depth * columns >= 2**19
    fields = read_fields(kernel.attributes["blu.schedule"])
    assert fields == {"kind": "read_rows", "columns": columns // 2 if is_long else columns}


@pytest.mark.parametrize(("rows", "shared"), [(1, 1), (4, 4), (40, 20), (41, 21)])
def test_rows_are_shared_by_two_threads_in_a_loop(rows: int, shared: int) -> None:
    """Where a kernel takes as long as telling a thread: outside of a loop, that would have to be woken up."""

    def rows_of(program: Callable) -> int:
        traced = blu.jit(program).trace(blu.spec((rows, 128), "f32"))
        kernels = kernels_in(traced.lower("x86-64-v3", stop="blu-fit-cpu-schedules").module)
        return read_fields(kernels["rows_0"].attributes["blu.schedule"])["rows"]

    assert rows_of(blu.softmax) == rows
    assert rows_of(lambda x: blu.scan(lambda h, _: (blu.softmax(h), ()), x, length=3)[0]) == shared


def refusal(program: str, fields: Fields) -> PassError:
    function, shape, name = PROGRAMS[program]
    traced = blu.jit(function).trace(blu.spec(shape, "f32"))
    wish_for(traced.traced.module, {name: fields})
    with pytest.raises(PassError) as caught:
        traced.lower("x86-64-v3", stop="blu-fit-cpu-schedules")
    return caught.value


@pytest.mark.parametrize(
    ("program", "fields", "message"),
    [
        ("product", {"kind": "wgmma"}, "there is no kind of schedule 'wgmma'"),
        ("product", {"rows": 4}, "a schedule says its 'kind'"),
        ("product", {"kind": "tiles", "rows": 0}, "'rows' of a schedule is at least 1, not 0"),
        ("product", {"kind": "tiles", "lanes": 16}, "lanes = 16: a vector of x86-64-v3 has 8 elements here"),
        ("product", {"kind": "tiles", "rows": 8, "vectors": 2}, "takes more than the 16 registers of x86-64-v3"),
        ("product", {"kind": "tiles", "rows": 4, "chunk_rows": 6}, "chunk_rows = 6: blocks have a multiple of 4 rows"),
        ("product", {"kind": "tiles", "packed_panels": 9}, "packed_panels = 9: a block has "),
        (
            "product",
            {"kind": "tiles", "packed_panels": 0},
            "columns that do not lie side by side are not read in place",
        ),
        ("long product", {"kind": "tiles", "depth_block": 100}, "sums of so many products are of chains of 256"),
        ("product", {"kind": "read_rows"}, "kind 'read_rows' takes at most 16 rows"),
        ("product", {"kind": "read_columns"}, "kind 'read_columns' takes at most 4 rows"),
        ("in rows", {"kind": "read_rows", "columns": 12}, "columns = 12: blocks have a multiple of 8 columns"),
        ("row sums", {"kind": "pieces"}, "kind 'pieces' cuts columns beside each other"),
        ("column sums", {"kind": "rows", "chain": 100}, "chain = 100: here it is 64 whatever the schedule"),
        ("points", {"kind": "pieces", "columns": 100}, "columns = 100: pieces are multiples of 128 columns"),
        ("points", {"kind": "loops", "blocks": 20000}, "blocks = 20000: there are 10000 elements"),
        ("attention", {"kind": "prefill", "lanes": 4}, "lanes = 4: a vector of x86-64-v3 has 8 elements here"),
        ("attention", {"kind": "prefill", "key_rows": 40}, "vectors are more than 16 registers"),
        ("attention", {"kind": "prefill", "matrices": "here"}, "keys and values are 'copied' or read 'in_place'"),
        ("attention", {"kind": "prefill", "query_groups": 1000}, "queries, results and copies of a block take "),
        ("gradient", {"kind": "prefill"}, "there is no kind of schedule 'prefill'"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(program: str, fields: Fields, message: str) -> None:
    error = refusal(program, fields)
    assert message in str(error) and f"the schedule of kernel '{PROGRAMS[program][2]}': " in error.message
    assert re.match(r".*test_cpu_schedules\.py:\d+", error.location or "")


def test_an_emitter_does_not_choose() -> None:
    for program in ("product", "points", "attention", "gradient"):
        function, shape, _ = PROGRAMS[program]
        module = blu.jit(function).trace(blu.spec(shape, "f32")).lower("x86-64-v3", stop="memref").module
        with module.context, ir.Location.unknown(), pytest.raises(PassError, match=r"has no blu.schedule"):
            EmitKernels().run(module)


def test_what_is_emitted_says_how() -> None:
    """So do kernels of which nothing was wished."""
    function, shape, _ = PROGRAMS["product"]
    module = blu.jit(function).trace(blu.spec(shape, "f32")).lower("x86-64-v3", stop="kernel").module
    for kernel in kernels_in(module).values():
        assert read_fields(kernel.attributes["blu.schedule"])["kind"] in ("tiles", "rows")


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_registers_hold_the_tiles_that_are_chosen(target: str) -> None:
    """Sums, a row of the panel, and a factor: what does not fit is written and read again at each step of k."""
    for rows, columns in product_of_sizes((1, 7, 16, 64, 129, 512, 1025), (1, 8, 31, 32, 96, 128, 513)):
        traced = blu.jit(lambda x, y: x @ y).trace(blu.spec((rows, 40), "f32"), blu.spec((40, columns), "f32"))
        module = traced.lower(target, stop="blu-fit-cpu-schedules").module
        registers = CpuTarget.of(module).registers
        for kernel in kernels_in(module).values():
            fields = read_fields(kernel.attributes["blu.schedule"])
            if fields["kind"] == "tiles":
                assert fields["rows"] * fields["vectors"] + fields["vectors"] + 1 <= registers, (rows, columns)


@pytest.mark.parametrize(("rows", "columns"), [(1, 40), (9, 1), (9, 40), (31, 40), (32, 40), (128, 65), (33, 1030)])
def test_columns_are_what_lies_side_by_side(rows: int, columns: int) -> None:
    """Also in a product that is stored for a transpose to be read in order; with the same bits."""

    def subtract(w, x, y):
        return w - blu.transpose(blu.transpose(x) @ y)

    rng = np.random.default_rng(0)
    w, x, y = (rng.standard_normal(shape, np.float32) for shape in ((columns, rows), (70, rows), (70, columns)))
    plain = np.asarray(blu.jit(lambda x, y: blu.transpose(x) @ y)(x, y))
    np.testing.assert_array_equal(np.asarray(blu.jit(subtract)(w, x, y)), w - plain.T)
    module = blu.jit(subtract).trace(w, x, y).lower(stop="memref").module
    with module.context:
        contraction = contraction_of(kernels_in(module)["gemm_0"])
        kernel = Kernel.read(kernels_in(module)["gemm_0"])
        steps = strides_of(kernel.outputs[0][1])
    if rows > 1 and columns > 1:
        assert steps[contraction.result_dims.index(contraction.columns)] == (1 if rows >= WIDE else rows)


def test_the_window_of_a_convolution_is_not_its_columns() -> None:
    """The gradient of weights that lie with their window innermost: of all dims, the window's 3 have neighbours."""
    dims = "(d0, d1, d2, d3, d4) -> "
    output = Buffer((3, 3, 40, 48), strides=(3, 1, 9, 360))
    maps = [dims + "(d4, d0, d1, d2)", dims + "(d4, d3)", dims + "(d0, d1, d2, d3)"]
    with ir.Context():
        module = ir.Module.parse(gemm_text(Buffer((50, 3, 3, 40)), Buffer((50, 48)), output, maps))
        contraction = contraction_of(next(iter(module.body.operations)))
    assert contraction.size(contraction.columns) == 48


OTHERS: dict[str, tuple[Callable, tuple[int, int], str]] = {
    "scan": (lambda x: blu.cumsum(x, axis=1), (3, 700), "scan_0"),
    "sort": (lambda x: blu.argsort(x, axis=1), (6, 100), "argsort_0"),
    "selection": (lambda x: blu.top_k(x, 20)[1], (6, 100), "arg_top_k_0"),
}


@pytest.mark.parametrize(
    ("program", "fields"),
    [
        ("scan", {"kind": "scan_rows", "rows": 1}),
        ("scan", {"kind": "scan_pieces", "length": 100}),
        ("sort", {"kind": "insertion", "blocks": 4}),
        ("sort", {"blocks": 6}),
        ("selection", {"kind": "insertion"}),
    ],
)
def test_scans_and_sorts_are_emitted_as_is_wished(program: str, fields: Fields) -> None:
    function, shape, name = OTHERS[program]
    x = np.random.default_rng(0).integers(-20, 20, shape).astype(np.float32)
    chosen, wished = (blu.jit(function).trace(blu.spec(shape, "f32")) for _ in range(2))
    wish_for(wished.traced.module, {name: fields})
    assert chosen.lower(stop="kernel").text != wished.lower(stop="kernel").text
    np.testing.assert_array_equal(*(np.asarray(traced.lower().compile()(x)) for traced in (chosen, wished)))


@pytest.mark.parametrize(
    ("program", "fields", "message"),
    [
        ("scan", {"kind": "scan_columns"}, "kind 'scan_columns' does not go along what is scanned"),
        ("sort", {"blocks": 7}, "blocks = 7: there are 6 rows"),
        ("sort", {"kind": "merge"}, "there is no kind of schedule 'merge'"),
    ],
)
def test_a_schedule_of_scans_or_sorts_that_does_not_fit_is_refused(program: str, fields: Fields, message: str) -> None:
    function, shape, name = OTHERS[program]
    traced = blu.jit(function).trace(blu.spec(shape, "f32"))
    wish_for(traced.traced.module, {name: fields})
    with pytest.raises(PassError, match=re.escape(message)):
        traced.lower("x86-64-v3", stop="blu-choose-cpu-schedules")
