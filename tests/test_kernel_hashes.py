"""The code of kernels is what it was: a change that moves or renames changes none, and one that does says which."""

from __future__ import annotations

from dataclasses import replace

import pytest

import blu
from blu.compiler import fingerprint
from blu.dialects.core.mlir import ir
from tests.support.kernel_hashes import CASES, Record, hashes_of, record, toolchain, traced_program
from tests.support.kernel_proofs import proof_of

KNOWN = Record.read()


@pytest.mark.parametrize(("program", "target"), CASES)
def test_kernels_are_what_they_were(program: str, target: str, request: pytest.FixtureRequest) -> None:
    module = traced_program(program).lower(target).module
    is_recording = request.config.getoption("--update-kernels")
    if not is_recording and KNOWN.proves(program, target, module):
        return
    found = hashes_of(module, target)
    if is_recording:
        record(program, target, found, proof_of(module, target, found))
        return
    changes = KNOWN.changes(program, target, found)
    assert KNOWN.toolchain == toolchain(), "recorded with other releases: --update-kernels before any change"
    assert not changes, "; ".join(
        [*changes, "if that is meant, pytest --update-kernels, and the commit's title says so"]
    )


def test_nothing_is_recorded_that_is_not_compiled() -> None:
    keys = {f"{program} | {target}" for program, target in CASES}
    assert Record.read().programs.keys() == keys >= Record.read().proofs.keys()


def test_lines_and_names_do_not_count(tmp_path) -> None:
    found = {"rows_0": "a", "rows_1": "b"}
    files = tmp_path / "x.json", tmp_path / "y.json"
    record("p", "sm_80", found, "proof", *files)
    read = Record.read(*files)
    assert read.changes("p", "sm_80", found) == []
    assert read.changes("p", "sm_80", {"rows_0": "c", "gemm_0": "d"}) == [
        "rows_0 changed",
        "gemm_0 is new",
        "rows_1 is gone",
    ]


def _exponential(scale: float, target: str) -> ir.Module:
    return blu.jit(lambda x: blu.exp(x) * scale).trace(blu.spec((40,), "f32")).lower(target).module


@pytest.mark.parametrize("target", ["sm_90a", "x86-64-v3"])
def test_a_proof_is_one_of_these_texts_this_code_and_this_code_generation(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = _exponential(2.0, target)
    found = hashes_of(module, target)
    known = Record("", {f"p | {target}": found}, {f"p | {target}": proof_of(module, target, found)})
    assert known.proves("p", target, module) and not known.changes("p", target, found)
    assert not known.proves("q", target, module) and not known.proves("p", target, _exponential(3.0, target))
    other_code = replace(known, programs={f"p | {target}": dict.fromkeys(found, "another")})
    assert not other_code.proves("p", target, module)
    monkeypatch.setattr(fingerprint, "_code_fingerprint", lambda: "another code generation")
    assert not known.proves("p", target, module)
