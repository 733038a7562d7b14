"""The code of kernels is what it was: a change that moves or renames changes none, and one that does says which."""

from __future__ import annotations

import pytest

from tests.support.kernel_hashes import CASES, PROGRAMS, Record, hashes_of, record, toolchain

KNOWN = Record.read()


@pytest.mark.parametrize(("program", "target"), CASES)
def test_kernels_are_what_they_were(program: str, target: str, request: pytest.FixtureRequest) -> None:
    found = hashes_of(PROGRAMS[program](), target)
    if request.config.getoption("--update-kernels"):
        record(program, target, found)
        return
    changes = KNOWN.changes(program, target, found)
    assert KNOWN.toolchain == toolchain(), "recorded with other releases: --update-kernels before any change"
    assert not changes, "; ".join(
        [*changes, "if that is meant, pytest --update-kernels, and the commit's title says so"]
    )


def test_nothing_is_recorded_that_is_not_compiled() -> None:
    assert Record.read().programs.keys() == {f"{program} | {target}" for program, target in CASES}


def test_lines_and_names_do_not_count(tmp_path) -> None:
    found = {"rows_0": "a", "rows_1": "b"}
    record("p", "sm_80", found, tmp_path / "x.json")
    read = Record.read(tmp_path / "x.json")
    assert read.changes("p", "sm_80", found) == []
    assert read.changes("p", "sm_80", {"rows_0": "c", "gemm_0": "d"}) == [
        "rows_0 changed",
        "gemm_0 is new",
        "rows_1 is gone",
    ]
