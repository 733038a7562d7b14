"""Stores of a part of a float: ptxas converts the number, so PTX cuts it first, and the interpreter does as ptxas."""

from __future__ import annotations

import re
from dataclasses import asdict

import numpy as np
import pytest

import blu
from blu.compiler.codegen import ptx
from blu.compiler.codegen.cubins import assemble, find_ptxas
from blu.compiler.codegen.kernel_texts import code_text
from blu.compiler.codegen.ptx_stores import check_stores, narrow_stores
from blu.dialects.targets.nvidia import GpuTarget
from blu.errors import PassError
from tests.support.kernels.gpu_program import compile_program
from tests.support.ptx import machine as ptx_machine

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry kernel(.param .u64 kernel_param_0, .param .u64 kernel_param_1)
.reqntid 32, 1, 1
{
	.reg .pred %p<2>;
	.reg .b16 %rs<4>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<10>;
	ld.param.b64 %rd1, [kernel_param_0];
	ld.param.b64 %rd2, [kernel_param_1];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 8;
	add.s64 %rd4, %rd1, %rd3;
	add.s64 %rd5, %rd2, %rd3;
	setp.eq.u32 %p1, %r1, %r1;
	ld.global.b64 %rd6, [%rd4];
	ld.global.b32 %r2, [%rd4];
	ld.global.b16 %rs1, [%rd4];
	BODY
	ret;
}
"""
DEFINITIONS = {
    "f64": ("add.rn.f64 %rd7, %rd6, %rd6;", "%rd7"),
    "f64 under a guard": ("@%p1 add.rn.f64 %rd7, %rd6, %rd6;", "%rd7"),
    "f64 that was loaded": ("ld.global.f64 %rd7, [%rd4];", "%rd7"),
    "f32": ("add.rn.f32 %r3, %r2, %r2;", "%r3"),
    "f32 of a half": ("cvt.f32.f16 %r3, %rs1;", "%r3"),
    "f16": ("add.rn.f16 %rs2, %rs1, %rs1;", "%rs2"),
}
BITS = {"%rd": 64, "%r": 32, "%rs": 16}
WIDE = [
    (definition, kind)
    for definition, (_, register) in DEFINITIONS.items()
    for kind in ("b8", "u8", "b16", "b32", "u32")
    if int(kind[1:]) < BITS[register.rstrip("0123456789")]
]


def _stored(text: str) -> np.ndarray:
    """The bytes [threads, 8] that the kernel above stores when it is interpreted."""
    numbers = (np.linspace(-3, 300, 32) * 1.001).astype(np.float64)
    inputs, result = numbers.view(np.uint8).copy(), np.zeros(256, np.uint8)
    ptx_machine.run(text, [1], [inputs, result])
    return result.reshape(32, 8)


@pytest.mark.parametrize(("definition", "kind"), WIDE)
def test_a_store_of_a_part_of_a_float_stores_its_low_bits(definition: str, kind: str) -> None:
    line, register = DEFINITIONS[definition]
    wide = KERNEL.replace("BODY", f"{line}\n\t@%p1 st.global.{kind} [%rd5+0], {register};")
    whole = KERNEL.replace("BODY", f"{line}\n\tst.global.b{BITS[register.rstrip('0123456789')]} [%rd5], {register};")
    with pytest.raises(PassError, match=f"stores {kind[1:]} of the .* bits of {register}"):
        check_stores(wide, "kernel")
    narrow = narrow_stores(wide)
    check_stores(narrow, "kernel")
    size = int(kind[1:]) // 8
    low = _stored(whole)[:, :size]
    assert np.array_equal(_stored(narrow)[:, :size], low)
    assert not np.array_equal(_stored(wide)[:, :size], low), "the interpreter stores what ptxas would not"
    if find_ptxas() is not None:
        assemble({"kernel": narrow}, "sm_80")


def test_all_parts_of_a_vector_are_cut_and_new_classes_of_registers_are_declared() -> None:
    line, _ = DEFINITIONS["f64"]
    body = f"{line}\n\t{{ st.shared.v2.b32 [%rd5], {{%rd7, %rd7}}; }} st.async.b32 [%rd5], %r3, [%r3];"
    text = KERNEL.replace("BODY", body).replace("\t.reg .b32 %r<8>;\n", "")
    narrow = narrow_stores(text)
    assert re.findall(r"cvt.u32.u64 \t(%r\d+), %rd7;", narrow) == ["%r1", "%r2"]
    assert "{%r1, %r2}" in narrow and ".reg .b32 \t%r<3>;" in narrow


@pytest.mark.parametrize(
    "body",
    [
        "shr.u64 %rd7, %rd6, 32; st.global.b32 [%rd5], %rd7;",
        "add.rn.f64 %rd8, %rd6, %rd6; mov.b64 %rd7, %rd8; st.global.b32 [%rd5], %rd7;",
        "add.rn.f64 %rd8, %rd6, %rd6; cvt.u32.u64 %r3, %rd8; st.global.b32 [%rd5], %r3;",
        "cvt.rn.f16x2.f32 %r3, %r2, %r2; cvt.rzi.s32.f32 %r4, %r2; st.global.b16 [%rd5], %r4;",
        "add.rn.f64 %rd7, %rd6, %rd6; st.global.b64 [%rd5], %rd7;",
        "add.rn.f32 %r3, %r2, %r2; st.global.v2.b32 [%rd5], {%r3, %r3};",
    ],
)
def test_other_stores_stay_as_they_are(body: str) -> None:
    text = KERNEL.replace("BODY", body)
    check_stores(text, "kernel")
    assert narrow_stores(text) == text


REDUCTIONS = {
    "sum": blu.sum,
    "mean": blu.mean,
    "max": blu.max,
    "min": blu.min,
    "var": blu.var,
    "std": blu.std,
    "softmax": blu.softmax,
    "log_softmax": blu.log_softmax,
    "logsumexp": blu.logsumexp,
    "layer_norm": lambda x, axis: blu.layer_norm(x),
    "rms_norm": lambda x, axis: blu.rms_norm(x),
}


@pytest.mark.parametrize(("name", "length"), [*((name, 65) for name in REDUCTIONS), ("sum", 300)])
def test_f64_reductions_keep_all_bits_between_warps(name: str, length: int) -> None:
    x = np.random.default_rng(length).standard_normal((2, length))
    [found] = compile_program(lambda x: REDUCTIONS[name](x, axis=-1), x).interpret(x)
    np.testing.assert_allclose(found, REDUCTIONS[name](x, axis=-1).numpy(), rtol=1e-13, atol=1e-13)


def test_compilation_ends_where_a_part_of_a_float_would_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = blu.jit(lambda x: blu.sum(x, axis=-1)).trace(blu.spec((2, 65), "f64")).lower("sm_90a")
    target = GpuTarget.of(lowered.module)
    codegen = ptx.PtxCodegen({**asdict(target), "triple": target.triple})
    text = code_text(lowered.module)
    assert codegen.ptx_of_kernels(text)
    monkeypatch.setattr(ptx, "narrow_stores", lambda text: text)
    with pytest.raises(PassError, match="stores 32 of the 64 bits of %rd"):
        codegen.ptx_of_kernels(text)
