"""What keeps a GPU program from being loaded: no library, driver or GPU, code for another one, a damaged plan."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterator

import pytest

from blu.errors import BluError, CacheError, UnsupportedError
from blu.runtime import Artifact, load_program
from blu.runtime.cuda import CudaProgram, compute_capability
from blu.runtime.cuda.code import code_of, part_of
from blu.runtime.cuda.driver import driver as drivers
from blu.runtime.cuda.driver.failures import DriverError
from tests.support.programs import cuda_programs as programs


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without PyCUDA and cuda-bindings."""
    real = builtins.__import__

    def refuse(name: str, *rest, **more):
        if name.partition(".")[0] in ("pycuda", "cuda"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest, **more)

    drivers.use_driver(None)
    monkeypatch.setattr(builtins, "__import__", refuse)
    yield
    drivers.use_driver(None)


def test_no_library(no_gpu):
    with pytest.raises(UnsupportedError, match=r"cannot use a GPU: pycuda: .*bindings: ") as caught:
        compute_capability()
    assert "blu[cuda]" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("CUDA_ERROR_NO_DEVICE", "no NVIDIA GPU"),
        ("CUDA_ERROR_INSUFFICIENT_DRIVER", "driver is too old"),
        ("CUDA_ERROR_STUB_LIBRARY", "stub"),
    ],
)
def test_no_device(no_gpu, monkeypatch, name, message):
    def fail() -> None:
        raise DriverError(name)

    monkeypatch.setattr(drivers, "_open", fail)
    with pytest.raises(UnsupportedError, match=message):
        load_program(programs.twice())


def test_unknown_choice_of_library(no_gpu, monkeypatch):
    monkeypatch.setenv("BLU_CUDA_DRIVER", "opencl")
    with pytest.raises(BluError, match="is not pycuda or bindings"):
        compute_capability()


CODES = {"f.sm_80.cubin": b"80", "f.sm_86.cubin": b"86", "f.sm_90a.cubin": b"90a"}


@pytest.mark.parametrize(
    ("capability", "codes", "expected"),
    [
        ((8, 0), CODES, b"80"),
        ((8, 6), CODES, b"86"),
        ((8, 9), CODES, b"86"),
        ((9, 0), CODES, b"90a"),
        ((8, 7), {"f.sm_80.cubin": b"80", "f.sm_90a.cubin": b"90a"}, b"80"),
        ((10, 0), {**CODES, "f.ptx": b".target sm_80\n"}, b".target sm_80\n"),
        ((9, 0), {"f.ptx": b"//\n.target sm_90a, debug\n"}, b"//\n.target sm_90a, debug\n"),
    ],
)
def test_the_code_that_fits_the_gpu(capability, codes, expected):
    assert code_of(Artifact.of(codes), "f", capability) == expected


@pytest.mark.parametrize(
    ("capability", "codes", "error", "message"),
    [
        ((10, 0), CODES, UnsupportedError, "sm_80, sm_86, sm_90a, this GPU has compute capability 10.0"),
        ((7, 5), {"f.ptx": b".target sm_80\n"}, UnsupportedError, "compiled for sm_80, this GPU .* 7.5"),
        ((10, 0), {"f.ptx": b".target sm_90a\n"}, UnsupportedError, "compiled for sm_90a"),
        ((9, 0), {"g.ptx": b".target sm_90a\n"}, CacheError, "no code of the kernel 'f'"),
        ((9, 0), {"f.ptx": b"nothing"}, CacheError, "names no .target"),
    ],
)
def test_code_that_does_not_fit_the_gpu(capability, codes, error, message):
    with pytest.raises(error, match=message):
        code_of(Artifact.of(codes), "f", capability)


@pytest.mark.parametrize(("capability", "folder"), [((9, 0), "sm_90a"), ((8, 6), "sm_80"), ((12, 0), "sm_80")])
def test_a_gpu_takes_its_part_of_an_artifact(capability, folder):
    members = {"sm_80/plan.json": b"sm_80", "sm_90a/plan.json": b"sm_90a", "ir.mlir": b""}
    artifact = Artifact.of(members)
    artifact.manifest["targets"] = ["sm_80", "sm_90a"]
    part = part_of(artifact, capability)
    assert (part.names(), part.read("plan.json")) == (["plan.json"], folder.encode())


@pytest.mark.parametrize(
    ("targets", "error"), [(["sm_80"], UnsupportedError), ("sm_80", CacheError), ([3], CacheError)]
)
def test_no_part_of_an_artifact_fits(targets, error):
    artifact = Artifact.of({"sm_80/plan.json": b""})
    artifact.manifest["targets"] = targets
    with pytest.raises(error, match=r"sm_80|3"):
        part_of(artifact, (7, 5))


@pytest.mark.parametrize(
    "change",
    [
        {"grid": [1, 1]},
        {"grid": [1, 70000, 1]},
        {"grid": [-1, 1, 1]},
        {"threads": 0},
        {"threads": 2048},
        {"shared_bytes": 1 << 30},
        {"args": [["input", 3, 0]]},
        {"args": [["input", 0, 257]]},
        {"kernel": 7},
    ],
)
def test_damaged_launches(gpu, change):
    plan = json.loads(programs.twice()["plan.json"])
    plan["launches"][0] |= change
    with pytest.raises(CacheError, match="damaged plan"):
        CudaProgram.load({**programs.twice(), "plan.json": json.dumps(plan).encode()})


def test_launches_for_both(gpu):
    plan = json.loads(programs.twice()["plan.json"])
    plan["launches"].append({"kernel": "f", "blocks": 1, "chunk": 1, "args": []})
    with pytest.raises(CacheError, match="for a CPU and for a GPU"):
        CudaProgram.load({**programs.twice(), "plan.json": json.dumps(plan).encode()})
    plan["launches"] = plan["launches"][-1:]
    with pytest.raises(UnsupportedError, match="compiled for a CPU"):
        CudaProgram.load({**programs.twice(), "plan.json": json.dumps(plan).encode()})
