"""Code for another machine is refused before anything of it runs, whether it was compiled just now or before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import blu
from blu.compiler.jit import Traced
from blu.compiler.target import host_target_name
from blu.errors import UnsupportedError
from blu.runtime.artifact import MANIFEST
from blu.runtime.host import X86_LEVELS, check_machine, machine_name

X = np.ones(3, np.float32)
ON_X86 = pytest.mark.skipif(machine_name() != "x86_64", reason="about levels of x86-64")


def cold(traced: Traced, target: str) -> object:
    return traced.compile(target)(X)


def in_stages(traced: Traced, target: str) -> object:
    return traced.lower(target).compile()(X)


def by_jit(traced: Traced, target: str) -> object:
    return blu.jit(lambda x: x + 1, target=target)(X)


def from_a_file(traced: Traced, target: str) -> object:
    traced.compile(target).save("f.blu")
    return blu.runtime.load_program("f.blu")


WAYS = [cold, in_stages, by_jit, from_a_file]


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Traced:
    """A function, an empty cache, and an older processor than there is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLU_CACHE_DIR", str(tmp_path / "cache"))
    return blu.jit(lambda x: x + 1).trace(X)


@ON_X86
@pytest.mark.parametrize("way", WAYS)
def test_a_newer_processor_s_code_is_refused(
    traced: Traced, way: Callable[[Traced, str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blu.runtime.host.cpu_flags", lambda: X86_LEVELS["x86-64-v3"])
    monkeypatch.setattr("blu.compiler.target.cpu_flags", lambda: X86_LEVELS["x86-64-v3"])
    for _ in range(2):  # the second time from the cache
        with pytest.raises(UnsupportedError, match=r"compiled for x86-64-v4, this CPU lacks avx512bw"):
            way(traced, "x86-64-v4")
    assert way(traced, "x86-64-v3") is not None


@ON_X86
@pytest.mark.parametrize("way", WAYS)
def test_another_architecture_s_code_is_refused(traced: Traced, way: Callable[[Traced, str], object]) -> None:
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"compiled for aarch64-unknown-linux-gnu, this machine is x86_64"):
            way(traced, "aarch64")


@ON_X86
def test_the_target_of_a_machine_is_one_that_it_may_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """For every processor that lacks one flag of a level, as virtual machines do."""
    for level, flags in X86_LEVELS.items():
        for missing in [None, *sorted(flags - X86_LEVELS["x86-64-v2"])]:
            found = frozenset(flags - {missing})
            monkeypatch.setattr("blu.runtime.host.cpu_flags", lambda found=found: found)
            monkeypatch.setattr("blu.compiler.target.cpu_flags", lambda found=found: found)
            name = host_target_name()
            check_machine(name, "x86_64-unknown-linux-gnu")
            assert (name == level) == (missing is None)


def test_two_targets_are_two_programs_in_the_cache(traced: Traced) -> None:
    """CPUs and GPUs alike: what was compiled for one is not taken for another."""
    compiled = [traced.compile(target) for target in ("x86-64-v2", "x86-64-v3", "aarch64", "sm_80", "sm_90a") * 2]
    assert len({item.details["key"] for item in compiled}) == 5
    code = [{name: data for name, data in item.executable.items() if name != MANIFEST} for item in compiled]
    assert len({str(sorted(members.items())) for members in code}) == 5 and code[:5] == code[5:]
    assert [item.details["target"]["name"] for item in compiled[:2]] == ["x86-64-v2", "x86-64-v3"]
