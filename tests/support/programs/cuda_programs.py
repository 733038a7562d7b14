"""Programs of a few kernels for a fake GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from blu.runtime.cuda.driver import driver as drivers
from tests.support.programs.fake_cuda import FakeDriver, view

COUNT = 64
PTX = b".version 8.0\n.target sm_90a\n.address_size 64\n"
CUBIN = b"\x7fELF machine code"


def shift(threads: int, source: int, target: int) -> None:
    """target = source + 1"""
    view(target, threads, np.float32)[:] = view(source, threads, np.float32) + 1


def add(threads: int, left: int, right: int, target: int) -> None:
    """target = left + right"""
    view(target, threads, np.float32)[:] = view(left, threads, np.float32) + view(right, threads, np.float32)


def gather(threads: int, indices: int, status: int) -> None:
    """status = an index that is not in [-10, 10)"""
    for index in view(indices, threads, np.int64):
        if not -10 <= index < 10:
            view(status, 1, np.int64)[0] = index


def divide(threads: int, divisors: int, status: int) -> None:
    """status = 1 where a divisor is 0"""
    if (view(divisors, threads, np.int64) == 0).any():
        view(status, 1, np.int64)[0] = 1


KERNELS = {"shift": shift, "add": add, "gather": gather, "divide": divide}


@pytest.fixture
def gpu() -> Iterator[FakeDriver]:
    """The process's GPU, a fake one, with kernels that a test may replace."""
    driver = FakeDriver(dict(KERNELS))
    drivers.use_driver(driver)
    yield driver
    drivers.use_driver(None)


def tensor(name: str, *shape: int, dtype: str = "f32", **more: Any) -> dict[str, Any]:
    """A plan's entry for an input or output."""
    return {"name": name, "shape": list(shape), "dtype": dtype, **more}


def launch(kernel: str, *args: list, threads: int = 32, blocks: int = COUNT // 32, shared: int = 0) -> dict[str, Any]:
    """A plan's entry for a launch."""
    grid, line = [blocks, 1, 1], f"model.py:{len(kernel)}"
    return {
        "kernel": kernel, "grid": grid, "threads": threads, "shared_bytes": shared, "args": list(args), "location": line
    }  # fmt: skip


def members(launches: list[dict[str, Any]], data: bytes = b"", **plan: Any) -> dict[str, bytes]:
    """The members of an executable, with PTX for its kernels."""
    whole = {"entry": "main", "arena_bytes": 4 * COUNT, "status_slots": len(plan.get("checks", []))}
    whole |= {"inputs": [], "outputs": [], "constants": [], "checks": [], "launches": launches, **plan}
    code = {f"{item['kernel']}.ptx": PTX for item in launches}
    return {"plan.json": json.dumps(whole).encode(), "constants.bin": data, **code}


def twice(**more: Any) -> dict[str, bytes]:
    """result = x + 2, through the arena. `more` is what both launches say besides."""
    launches = [launch("shift", ["input", 0, 0], ["arena", 0]), launch("shift", ["arena", 0], ["output", 0, 0])]
    launches = [{**item, **more} for item in launches]
    return members(launches, inputs=[tensor("x", COUNT)], outputs=[tensor("", COUNT, input=None)])


def update() -> dict[str, bytes]:
    """state = state + x, in place; result = x + 1."""
    return members(
        [launch("shift", ["input", 1, 0], ["output", 1, 0]),
         launch("add", ["input", 0, 0], ["input", 1, 0], ["output", 0, 0])],
        inputs=[tensor("state", COUNT, donated=True), tensor("x", COUNT)],
        outputs=[tensor("", COUNT, input=0), tensor("", COUNT, input=None)],
    )  # fmt: skip


def checked() -> dict[str, bytes]:
    """result = x + 1, with checks of indices and divisors."""
    numbers = {"blocks": 1, "threads": 4}
    return members(
        [launch("gather", ["input", 1, 0], ["status", 0], **numbers),
         launch("divide", ["input", 2, 0], ["status", 8], **numbers),
         launch("shift", ["input", 0, 0], ["output", 0, 0])],
        inputs=[tensor("x", COUNT), tensor("i", 4, dtype="i64"), tensor("d", 4, dtype="i64")],
        outputs=[tensor("", COUNT, input=None)],
        checks=[{"kind": "index", "op": "take", "size": 10, "location": "model.py:7"},
                {"kind": "divide", "op": "floor_divide", "location": "model.py:8"}],
    )  # fmt: skip
