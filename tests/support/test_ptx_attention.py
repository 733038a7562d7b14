"""The interpreter of PTX on attention by warpgroups: it finds products of registers that go wrong only now and then."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from tests.support.kernels.attention_problems import Problem
from tests.support.kernels.gpu_program import GpuProgram, compile_program
from tests.support.ptx.races import RaceError
from tests.support.ptx.schedule import DeadlockError
from tests.support.ptx.warpgroup import AsynchronyError

PROBLEM = Problem("three tiles", "bf16", (1, 64, 64), (1, 192, 64), 64, causal=True)
FORWARD, QUERY, KEY = "attention_piece_0", "attention_gradient_0_query", "attention_gradient_0_key"


@cache
def program() -> GpuProgram:
    return compile_program(PROBLEM.backward(), *PROBLEM.arrays())


def changed(kernel: str, pattern: str, by: str, count: int = 0) -> GpuProgram:
    """The same with other text in the place of a pattern, which must be there."""
    ptx, times = re.subn(pattern, by, program().ptx[kernel], count=count)
    assert times
    return with_text(kernel, ptx)


def with_text(kernel: str, ptx: str) -> GpuProgram:
    """The same with another kernel in the place of one."""
    return replace(program(), ptx={**program().ptx, kernel: ptx})


def check(found: GpuProgram) -> None:
    PROBLEM.check(found.interpret(*PROBLEM.arrays()))


def test_what_is_not_changed_is_right() -> None:
    check(program())


@pytest.mark.parametrize(
    ("kernel", "pattern", "by", "message"),
    [
        (FORWARD, r"wgmma\.wait_group\.sync\.aligned \t1;", "", "the sums of a product that was not waited for"),
        (FORWARD, r"wgmma\.commit_group\.sync\.aligned;", "", "the sums of a product that was not waited for"),
        (QUERY, r"wgmma\.wait_group\.sync\.aligned \t0;", "", "the sums of a product that was not waited for"),
    ],
)
def test_products_that_are_not_waited_for(kernel: str, pattern: str, by: str, message: str) -> None:
    with pytest.raises(AsynchronyError, match=message):
        check(changed(kernel, pattern, by))


@pytest.mark.parametrize("kernel", [FORWARD, QUERY, KEY])
def test_left_factors_that_are_written_at_the_wrong_time(kernel: str) -> None:
    """After the fence before a product that reads them from registers, and before it has ended."""
    product, write = r"(\{ \.reg \.pred p;[^\n]*\}, \{(%r\d+)[^\n]*)", r"mov.b32 \2, \2;"
    with pytest.raises(AsynchronyError, match=r"no wgmma\.fence after what wrote the left factor"):
        check(changed(kernel, product, rf"{write}\n\t\1"))
    with pytest.raises(AsynchronyError, match="the left factor of a product that was not waited for"):
        check(changed(kernel, product, rf"\1\n\t{write}"))


def test_numbers_that_others_still_read() -> None:
    with pytest.raises(RaceError, match="which another warp has read with no barrier since"):
        longer = Problem("two tiles a stage", "bf16", (1, 256, 64), (1, 64, 64), 64)
        found = compile_program(longer.backward(), *longer.arrays())
        before, fence, walk = found.ptx[KEY].partition("wgmma.fence.sync.aligned;")
        ptx = before + fence + re.sub(r"bar\.sync[ \t]*0;", "", walk)
        replace(found, ptx={**found.ptx, KEY: ptx}).interpret(*longer.arrays())


def test_bytes_that_never_come() -> None:
    with pytest.raises(DeadlockError, match=r"misses \d+ bytes"):
        check(changed(KEY, r"cp\.async\.bulk\.shared::cluster\.global[^;]*;", ""))


@pytest.mark.parametrize("kernel", [FORWARD, QUERY, KEY])
def test_swizzles_and_descriptors_count(kernel: str) -> None:
    """Groups of eight rows at another distance give other numbers."""
    constants = set(re.findall(r"\b46116862933\d{8,11}\b", program().ptx[kernel]))
    assert constants
    for constant in constants:
        with pytest.raises(AssertionError):
            check(changed(kernel, rf"\b{constant}\b", str(int(constant) + (1 << 32))))


@pytest.mark.parametrize("kernel", [FORWARD, QUERY, KEY])
def test_the_other_order_of_a_factor_counts(kernel: str) -> None:
    """Values, keys and queries as left where rows should be summed over."""
    with pytest.raises(AssertionError):
        check(changed(kernel, r"p, 1, 1, 1;", "p, 1, 1, 0;"))
