"""Hopper's warpgroups do what tensor cores do: the same fused kernel, by another schedule."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache

import pytest

import blu
from blu.compiler.cubins import assemble, find_ptxas
from blu.compiler.ptx import PtxCodegen
from blu.dialects.context import make_context
from blu.dialects.gpu_target import SM_90A
from blu.dialects.mlir import func, ir
from blu.passes.base import find
from blu.passes.gpu import gemm, gemm_wgmma
from blu.passes.gpu.gemm_pingpong import WgmmaSchedule
from blu.passes.gpu.gemm_schedule import GemmSchedule
from blu.passes.gpu.lower_to_nvvm import LowerToNvvm

ROWS, COLUMNS, DEPTH = 4096, 3072, 768
MMA, WGMMA = "mma.sync.aligned.m16n8k16", "wgmma.mma_async"


def block(x: blu.Tensor, w: blu.Tensor, bias: blu.Tensor, residual: blu.Tensor) -> tuple:
    """A product with two results and four operands."""
    before = x @ w + bias
    return before, blu.gelu(before, approximate="tanh") + residual


@cache
def fused(target: str) -> str:
    """The one kernel that `block` becomes, before it is emitted."""
    shapes = ((ROWS, DEPTH), (DEPTH, COLUMNS), (COLUMNS,), (ROWS, COLUMNS))
    traced = blu.jit(block).trace(*(blu.spec(shape, "bf16") for shape in shapes))
    module = traced.lower(target, stop="memref").module
    (kernel,) = (item for item in find(module, func.FuncOp) if "blu.kernel" in item.attributes)
    return kernel.operation.get_asm(enable_debug_info=False, use_local_scope=True)


def emit(emitter: Callable[[func.FuncOp], object]) -> dict[str, str]:
    """The PTX of what an emitter makes of the kernel, for Hopper."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(fused("sm_90a"))
        emitter(next(iter(find(module, func.FuncOp))))
        LowerToNvvm().run(module)
        target = {"triple": SM_90A.triple, "name": SM_90A.name, "ptx": SM_90A.ptx}
        return json.loads(PtxCodegen(target).ptx_of_kernels(str(module)))


EMITTERS: dict[str, Callable[[func.FuncOp], object]] = {
    "chosen": lambda kernel: gemm.emit(kernel, SM_90A),
    "tensor cores": lambda kernel: gemm.emit_with(kernel, GemmSchedule("mma", "bf16")),
    "warpgroups": lambda kernel: gemm_wgmma.emit_with(kernel, gemm.read, WgmmaSchedule("bf16"), SM_90A),
}


def test_fusion_does_not_know_the_instruction() -> None:
    assert fused("sm_80") == fused("sm_89") == fused("sm_90a")
    assert len(re.findall("linalg.contract", fused("sm_80"))) == 1


@pytest.mark.parametrize(("name", "instruction"), [("chosen", WGMMA), ("tensor cores", MMA), ("warpgroups", WGMMA)])
def test_one_kernel_is_emitted_by_either_schedule(name: str, instruction: str) -> None:
    ptx = emit(EMITTERS[name])
    assert list(ptx) == ["gemm_0"]
    other = MMA if instruction == WGMMA else WGMMA
    assert instruction in ptx["gemm_0"] and other not in ptx["gemm_0"]
    if find_ptxas() is None:
        pytest.skip("assembling GPU code needs ptxas")
    cubin = assemble(ptx, "sm_90a")["gemm_0"]
    assert (cubin.spill_bytes, cubin.stack_bytes) == (0, 0), cubin.log
