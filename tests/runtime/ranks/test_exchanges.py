"""Exchanges between ranks: every kind, dtype and reduction against NumPy, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from blu.errors import RankError
from blu.plan.tensors import DTYPES
from blu.runtime.ranks import nccl
from blu.runtime.ranks.group import KINDS, MOVED_ONLY, Alone
from tests.support.ranks.exchange_cases import Case, all_cases, exchange, in_place
from tests.support.ranks.starting import run_ranks


@pytest.mark.parametrize("size", [2, 4])
def test_exchanges_through_mpi_give_what_numpy_gives(size: int):
    outcome = run_ranks(size, "exchange_cases")
    assert (outcome.code, outcome.out) == (0, f"{len(list(all_cases(size)))} cases\n"), outcome.err


def test_ranks_that_mpi_does_not_know_of_are_an_error():
    """As where another library's mpiexec has started them: each is alone then."""
    code = "from blu.runtime.ranks import mpi, world; mpi.MpiGroup.of_world(world.World(1, 2, starter='torchrun'))"
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert outcome.returncode == 1
    assert "says that this is rank 0 of 1, and torchrun that it is rank 1 of 2" in outcome.stderr


def test_one_rank_exchanges_with_itself():
    assert [line for case in all_cases(1) for line in exchange(Alone(), case)] == []
    shared = [Case(kind, "f32", "sum" if KINDS[kind].reduces else "") for kind in KINDS if KINDS[kind].overlap]
    assert [line for case in shared for line in in_place(Alone(), case)] == []
    assert Alone().split(None) is None
    assert isinstance(Alone().split(3), Alone)


class Pair(Alone):
    """The second of two ranks, to which no exchange that is refused gets."""

    rank = 1
    size = 2


WRONG: dict[str, dict[str, Any]] = {
    "there is no exchange 'all_reduse'": {"kind": "all_reduse"},
    "all_reduce of 'f8': dtypes are": {"dtype": "f8"},
    "there is no reduction 'product'": {"reduction": "product"},
    "there is no reduction ''": {"reduction": ""},
    "broadcast reduces nothing": {"kind": "broadcast"},
    "broadcast from rank 2: ranks are 0 to 1": {"kind": "broadcast", "reduction": "", "root": 2},
    "the mean of i32 is no i32": {"reduction": "mean", "dtype": "i32"},
    "the sum of bool is no bool": {"dtype": "bool"},
    "ranks give each other f8e4m3, and do not reduce it": {"dtype": "f8e4m3", "reduction": "max"},
    "reduce_scatter of 3 elements among 2 ranks": {"kind": "reduce_scatter", "count": 3},
    "all_to_all of 3 elements among 2 ranks": {"kind": "all_to_all", "reduction": "", "count": 3},
    "all_reduce of -1 elements": {"count": -1},
}


@pytest.mark.parametrize("message", WRONG)
def test_what_does_not_go_together_is_refused(message: str):
    array = np.zeros(64, np.uint8).ctypes.data
    right: dict[str, Any] = {"kind": "all_reduce", "reduction": "sum", "dtype": "f32", "count": 4}
    with pytest.raises(RankError, match=message):
        Pair().start(**{**right, "source": array, "target": array, **WRONG[message]})


def test_nccl_moves_every_dtype_and_reduces_those_that_it_knows():
    """Its own names say how wide they are."""
    names = {**nccl._DTYPES, **nccl._MOVED}
    assert names.keys() == DTYPES.keys()
    widths = {name: int(re.findall(r"\d+", names[name])[0]) // 8 for name in DTYPES}
    assert widths == {name: dtype.itemsize for name, dtype in DTYPES.items()}
    assert DTYPES.keys() - nccl._DTYPES.keys() == {"i16", "u16", *MOVED_ONLY}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", range(-40, 41, 4))
def test_only_that_overlap_is_allowed_which_libraries_know(kind: str, offset: int):
    """Source and target of 4 and 8, 4 and 4, or 4 and 2 elements of 4 bytes, so many bytes from each other."""
    memory = np.zeros(64, np.float32)
    source = memory.ctypes.data + 80
    exact = {"all_reduce": 0, "broadcast": 0, "all_gather": -16, "reduce_scatter": 8}.get(kind)
    is_apart = offset >= 16 or offset <= -{"all_gather": 32, "reduce_scatter": 8}.get(kind, 16)
    group, reduction = Pair(), "sum" if KINDS[kind].reduces else ""
    group._begin = lambda exchange, stream: None  # type: ignore

    def start() -> None:
        group.start(kind, reduction=reduction, dtype="f32", source=source, target=source + offset, count=4)

    if is_apart or offset == exact:
        start()
    else:
        with pytest.raises(RankError, match="overlap"):
            start()
