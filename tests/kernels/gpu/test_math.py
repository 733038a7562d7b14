"""Arithmetic on GPUs: all math ops and all pointwise ops, in every dtype, become PTX that ptxas takes as it is.

LLVM's NVPTX backend ends the process on operations that it cannot select, and ptxas refuses calls of functions that
are nowhere: both name the kernel.
"""

from __future__ import annotations

import re
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.compiler.codegen.executable import ptx_of
from blu.compiler.jit import Traced
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import OPS, Op, Sample
from blu.dialects.targets.cpu import ATTRIBUTE
from blu.dialects.targets.nvidia import GPU_TARGETS
from blu.passes.gpu.lower.lower_to_nvvm import lower_kernels
from blu.passes.kernels.math.expand_math import FUNCTIONS, INTRINSICS
from blu.passes.loops.lower_to_linalg.pointwise import BODIES
from tests.support.kernels.gpu_program import DTYPES, GpuProgram, compile_program
from tests.support.kernels.spills import spills
from tests.support.programs.op_programs import flat, regrouped

make_context()
ARCHITECTURES = ("sm_80", "sm_90a")

FLOATS = ("f32", "f64", "vector<4xf32>", "vector<2xf64>")
INTEGERS = ("i32", "i64", "vector<4xi32>", "vector<2xi64>")
# Operands, where it is not one; "i" is an integer beside floats.
OPERANDS = {"atan2": "xx", "powf": "xx", "copysign": "xx", "fma": "xxx", "clampf": "xxx", "fpowi": "xi", "ipowi": "xx"}
OF_INTEGERS = {"absi", "ctlz", "ctpop", "cttz", "ipowi"}
PREDICATES = {"isnan", "isinf", "isfinite", "isnormal"}
NAMES = sorted(name.removeprefix("math.") for name in {*FUNCTIONS, *INTRINSICS})


def like(type_: str, element: str) -> str:
    """`type_` with another element."""
    return f"{type_[: type_.index('x') + 1]}{element}>" if type_.startswith("vector") else element


def element_of(type_: str) -> str:
    return type_.rpartition("x")[2].rstrip(">")


def operation_text(name: str, type_: str, number: int) -> str:
    """Load operands of one type, apply the op, store the result or both results."""
    shape = OPERANDS.get(name, "x")
    types = [type_ if kind == "x" else like(type_, "i32") for kind in shape]
    results = [like(type_, "i1") if name in PREDICATES else type_] * (2 if name == "sincos" else 1)
    values = [f"%v{number}_{place}" for place in range(len(types))]
    found = [f"%r{number}_{place}" for place in range(len(results))]
    lines = [
        f"{value} = vector.load %a_{element_of(item)}[%i] : memref<1024x{element_of(item)}>, {item}"
        if item.startswith("vector")
        else f"{value} = memref.load %a_{item}[%i] : memref<1024x{item}>"
        for value, item in zip(values, types, strict=True)
    ]
    signature = f"({', '.join(types)}) -> ({', '.join(results)})"
    lines.append(f'{", ".join(found)} = "math.{name}"({", ".join(values)}) : {signature}')
    for value, item in zip(found, results, strict=True):
        buffer = f"%{'b' if name in PREDICATES else 'a'}_{element_of(item)}"
        verb = "vector.store" if item.startswith("vector") else "memref.store"
        tail = f", {item}" if item.startswith("vector") else ""
        lines.append(f"{verb} {value}, {buffer}[%i] : memref<1024x{element_of(item)}>{tail}")
    return "\n".join(lines)


def kernel_text(name: str) -> str:
    """A kernel in which each thread applies one op to scalars and vectors."""
    types = INTEGERS if name in OF_INTEGERS else FLOATS
    buffers = [f"%a_{element}: memref<1024x{element}>" for element in ("f32", "f64", "i32", "i64")]
    buffers.append("%b_i1: memref<1024xi1>")
    body = "\n".join(operation_text(name, type_, number) for number, type_ in enumerate(types))
    return f"""
func.func @{name}({", ".join(buffers)}) attributes {{blu.kernel = "loops", blu.threads = 256 : i64}} {{
  %thread = nvvm.read.ptx.sreg.tid.x : i32
  %i = arith.index_castui %thread : i32 to index
  {body}
  return
}}"""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_math_operations(architecture: str) -> None:
    with make_context():
        module = ir.Module.parse("\n".join(map(kernel_text, NAMES)))
        module.operation.attributes[ATTRIBUTE] = GPU_TARGETS[architecture].to_attribute()
        lower_kernels(module)
        module.operation.verify()
        ptx = ptx_of(module)
    assert sorted(ptx) == NAMES
    # Sums in pairs of f64 numbers take every rounding as it is written: ptxas may fuse what does not say how to round.
    assert not re.findall(r"(?:add|sub|mul)\.f(?:32|64)", "".join(ptx.values()))
    assert not [name for name, text in ptx.items() if ".extern .func" in text]
    if find_ptxas() is not None:
        assert not spills(ptx, architecture)


def one_of_each_dtype(cls: type[Op]) -> list[Sample]:
    """The first sample for each combination of operand dtypes and attributes."""
    found: dict[str, Sample] = {}
    for sample in cls.samples():
        found.setdefault(f"{[array.dtype for array in flat(sample.operands)]} {sample.attributes}", sample)
    return list(found.values())


@cache
def all_pointwise() -> Traced:
    """One program with every pointwise op in every dtype, and the conversions between all dtypes."""
    cases = [(OPS[name], sample) for name in (*BODIES, "convert") for sample in one_of_each_dtype(OPS[name])]

    def apply_all(tensors: list) -> list:
        remaining = iter(tensors)
        return [
            cls(*regrouped(sample.operands, [next(remaining) for _ in flat(sample.operands)]), **sample.attributes)
            for cls, sample in cases
        ]

    arrays = [array for _, sample in cases for array in flat(sample.operands)]
    return blu.jit(apply_all).trace([blu.spec(array.shape, str(array.dtype)) for array in arrays])


EXTREMES = [0.0, -0.0, 1.0, -7.25, 0.1, 1e3, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_remainders_are_exact(dtype: str) -> None:
    """However large the quotient."""
    info = ml_dtypes.finfo(DTYPES[dtype])
    extremes = np.array([*EXTREMES, info.max, info.tiny, info.smallest_subnormal]).astype(DTYPES[dtype])
    random = np.random.default_rng(0).standard_normal((2, 60)).astype(DTYPES[dtype])
    grids = np.meshgrid(extremes, extremes)
    left, right = (np.concatenate([grid.ravel(), row]) for grid, row in zip(grids, random, strict=True))
    with np.errstate(all="ignore"):
        expected = np.remainder(left.astype(np.float64), right.astype(np.float64)).astype(DTYPES[dtype])
    (found,) = compile_program(blu.remainder, left, right, target="sm_80").interpret(left, right)
    np.testing.assert_array_equal(found.astype(np.float64), expected.astype(np.float64))


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_pointwise_operations(architecture: str) -> None:
    """bool, integers, f16 and bf16 among them: they assemble, without local memory or functions of others."""
    assert not GpuProgram.of(all_pointwise().lower(architecture).module, architecture).spills()


def test_floats_become_small_integers_as_on_processors() -> None:
    """All bytes and their neighbours, halves of steps, what is beyond, infinities and NaN; the largest of 16 bits."""
    steps = np.arange(-2, 258, dtype=np.float32)
    near = [np.nextafter(steps, side, dtype=np.float32) for side in (-np.inf, np.inf)]
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40, 65534.998, 65535, 65536, 3e38, -3e38, 0.5], np.float32)
    x = np.concatenate([steps, *near, steps + np.float32(0.5), special])

    def small(x: blu.Tensor) -> tuple:
        return x.astype("u8"), x.astype("u16"), x.astype("u32")

    program = compile_program(small, x)
    assert "add.rz.f32" in "".join(program.ptx.values())
    for found, dtype in zip(program.interpret(x), (np.uint8, np.uint16, np.uint32), strict=True):
        wanted = np.clip(np.nan_to_num(x.astype(np.float64), nan=0.0), 0, np.iinfo(dtype).max).astype(dtype)
        np.testing.assert_array_equal(found, wanted)
    for found, one in zip(blu.jit(small)(x), (np.uint8, np.uint16, np.uint32), strict=True):
        wanted = np.clip(np.nan_to_num(x.astype(np.float64), nan=0.0), 0, np.iinfo(one).max).astype(one)
        np.testing.assert_array_equal(np.asarray(found), wanted)
