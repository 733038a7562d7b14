"""The rewriting of floating-point literals between LLVM versions."""

from __future__ import annotations

import struct

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blu.compiler.codegen.llvm_skew import rewrite

NUMPY = {"half": np.float16, "bfloat": ml_dtypes.bfloat16, "float": np.float32, "double": np.float64}


def literal_of(kind: str, value: np.generic) -> str:
    """How LLVM 22 writes the bits of `value`: floats as the double of the same value."""
    if kind == "half":
        return f"0xH{value.view(np.uint16):04X}"
    if kind == "bfloat":
        return f"0xR{value.view(np.uint16):04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ret float f0x3D122279", "ret float 0x3FA2444F20000000"),
        ("ret float +inf", "ret float 0x7FF0000000000000"),
        ("ret double -inf", "ret double 0xFFF0000000000000"),
        ("ret half -inf", "ret half 0xHFC00"),
        ("ret bfloat +qnan", "ret bfloat 0xR7FC0"),
        ("ret float -qnan", "ret float 0xFFF8000000000000"),
        ("ret float +nan(0x1)", "ret float 0x7FF8000020000000"),
        ("ret float -snan(0x1)", "ret float 0xFFF0000020000000"),
        ("ret half f0x3C00", "ret half 0xH3C00"),
        ("ret float 1.000000e-01", "ret float 0x3FB99999A0000000"),
        ("ret float -0.000000e+00", "ret float 0x8000000000000000"),
        ("ret float 1.0e39", "ret float 0x7FF0000000000000"),
        ("%2 = select i1 %1, half 1.0, bfloat 2.0", "%2 = select i1 %1, half 0xH3C00, bfloat 0xR4000"),
        ("phi double [ 1.5, %a ], [ +inf, %b ]", "phi double [ 0x3FF8000000000000, %a ], [ 0x7FF0000000000000, %b ]"),
        ("<2 x half> <half 1.0, half 2.0>, ptr %p", "<2 x half> <half 0xH3C00, half 0xH4000>, ptr %p"),
    ],
)
def test_each_form_becomes_hexadecimal(before: str, after: str):
    assert rewrite(before) == after


@pytest.mark.parametrize(
    "line",
    [
        'call void asm "mul.f32 float 1.5, +inf", "=f"()',
        "%float.1.5 = load float, ptr %x1.0",
        "br label %a ; float 1.5 and +inf",
        "define void @float_1.5(i32 %0) {",
        "store i32 -1, ptr %p, align 4",
        "ret double 0x3FF0000000000000",
    ],
)
def test_strings_names_comments_and_integers_stay(line: str):
    assert rewrite(line) == line


@pytest.mark.parametrize(
    "line",
    [
        "store i32 f0x3D122279, ptr %p",
        "ret fp128 1.5",
        "ret x86_fp80 +inf",
        "ret float f0x",
        "ret half f0x3D122279",
        "ret float +nan",
        "ret float -nan(0x800000)",
        "ret float +snan(7)",
    ],
)
def test_an_unknown_form_is_an_error(line: str):
    with pytest.raises(ValueError, match="in LLVM IR line"):
        rewrite(line)


@given(st.sampled_from(sorted(NUMPY)), st.integers(0, 2**64 - 1), st.integers(1, 17))
def test_decimals_round_once_as_numpy_does(kind: str, bits: int, digits: int):
    value = struct.unpack("<d", struct.pack("<Q", bits))[0]
    if not np.isfinite(value):
        return
    text = f"{value:.{digits}e}"
    # Through float64 there would be two roundings, so narrow types get decimals that a double holds exactly.
    if kind != "double":
        text = f"{np.float32(1 + digits / 16) * np.float32(2.0 ** (bits % 30 - 20)):.60e}"
    expected = NUMPY[kind](float(text))
    assert rewrite(f"ret {kind} {text}") == f"ret {kind} {literal_of(kind, expected)}"


@given(st.sampled_from(sorted(NUMPY)), st.binary(min_size=8, max_size=8))
def test_hexadecimal_bits_survive_llvm(kind: str, data: bytes):
    size = np.dtype(NUMPY[kind]).itemsize
    bits = int.from_bytes(data[:size], "little")
    text = rewrite(f"@x = global {kind} f0x{bits:0{2 * size}X}")
    printed = str(llvm.parse_assembly(text))
    assert rewrite(printed) == printed or "0x" not in printed
    value = np.frombuffer(data[:size], NUMPY[kind])[0]
    if np.isfinite(float(value)):
        assert literal_of(kind, value) in text


def test_a_rewritten_function_parses():
    body = "%y = fadd float %x, 1.000000e-01\n  %z = fmul float %y, f0x7F800000\n  ret float %z"
    text = f"define float @f(float %x) {{\n  {body}\n}}\n"
    module = llvm.parse_assembly(rewrite(text))
    module.verify()
    assert "fmul float %y, 0x7FF0000000000000" in str(module)
