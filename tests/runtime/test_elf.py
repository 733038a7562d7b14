"""The ELF loader: all code models and relocations that LLVM emits, and no file, however damaged, does any harm."""

import ctypes
import math
import platform
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blu.errors import CacheError
from blu.runtime.elf import ObjectFile
from blu.runtime.host import McjitObject, check_machine, load_object
from blu.runtime.loader import LoadedObject, resolve_external
from tests.support.kernels import native_code as native

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the loader is for x86-64")
F64, I64 = ctypes.c_double, ctypes.c_int64

EVERYTHING = """
@table = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
@counter = internal global i64 5
@zeros = internal global [100 x i64] zeroinitializer
@pointer = global ptr @table
declare double @exp(double)
declare double @pow(double, double)
declare float @expf(float)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define double @power(double %x, double %y) {
  %e = call double @exp(double %x)
  %r = call double @pow(double %e, double %y)
  ret double %r
}
define i64 @look_up(i64 %i) {
  %at = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %at
  ret i64 %v
}
define i64 @through_pointer(i64 %i) {
  %base = load ptr, ptr @pointer
  %at = getelementptr i64, ptr %base, i64 %i
  %v = load i64, ptr %at
  ret i64 %v
}
define i64 @count() {
  %old = load i64, ptr @counter
  %new = add i64 %old, 1
  store i64 %new, ptr @counter
  %at = getelementptr i64, ptr @zeros, i64 %old
  %zero = load i64, ptr %at
  %sum = add i64 %new, %zero
  ret i64 %sum
}
define double @constant(double %x) {
  %r = fmul double %x, 0x400921FB54442D18
  ret double %r
}
define i64 @choose(i64 %x) {
  switch i64 %x, label %other [ i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d i64 4, label %e ]
a:
  ret i64 7
b:
  %b1 = call i64 @count()
  ret i64 %b1
c:
  ret i64 -3
d:
  %d1 = call i64 @look_up(i64 2)
  ret i64 %d1
e:
  ret i64 99
other:
  ret i64 0
}
define void @copy(ptr %to, ptr %from, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  ret void
}
define ptr @address_of_exp() {
  ret ptr @exp
}
"""


@pytest.mark.parametrize("opt", [0, 2])
@pytest.mark.parametrize("codemodel", ["small", "large", "medium", "default"])
@pytest.mark.parametrize("reloc", ["static", "pic", "default"])
def test_all_code_models_and_relocations(reloc, codemodel, opt):
    code = LoadedObject(native.compile_object(EVERYTHING, reloc=reloc, codemodel=codemodel, opt=opt))
    assert native.call(code.address("power"), F64, (F64, 0.5), (F64, 3.0)) == math.exp(0.5) ** 3.0
    assert [native.call(code.address("look_up"), I64, (I64, i)) for i in range(4)] == [10, 20, 30, 40]
    assert native.call(code.address("through_pointer"), I64, (I64, 3)) == 40
    assert [native.call(code.address("count"), I64) for _ in range(3)] == [6, 7, 8]
    assert native.call(code.address("constant"), F64, (F64, 2.0)) == 2 * math.pi
    assert [native.call(code.address("choose"), I64, (I64, i)) for i in (0, 2, 3, 4, 9)] == [7, -3, 30, 99, 0]
    source, target = np.arange(1000), np.zeros(1000, np.int64)
    where = [(ctypes.c_void_p, native.address(target)), (ctypes.c_void_p, native.address(source)), (I64, 8000)]
    native.call(code.address("copy"), None, *where)
    assert (target == source).all()
    at = native.call(code.address("address_of_exp"), ctypes.c_void_p)
    assert native.call(at, F64, (F64, 1.0)) == math.e


def test_large_and_aligned_sections():
    text = "@big = global [3000000 x i8] zeroinitializer, align 4096\ndefine ptr @where() {\n  ret ptr @big\n}"
    code = LoadedObject(native.compile_object(text))
    at = native.call(code.address("where"), ctypes.c_void_p)
    assert at % 4096 == 0 and ctypes.string_at(at, 3_000_000) == bytes(3_000_000)


def test_code_cannot_be_written_to():
    code = native.compile_object(EVERYTHING)
    script = f"""
import ctypes
from blu.runtime.loader import LoadedObject
code = LoadedObject({code!r})
ctypes.memset(code.address("count"), 0x90, 1)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert done.returncode == -11


def test_unknown_symbols_are_named():
    with pytest.raises(CacheError, match="no_such_function_here"):
        LoadedObject(native.compile_object("declare void @no_such_function_here()\ndefine void @f() {\n"
                                           "  call void @no_such_function_here()\n  ret void\n}"))  # fmt: skip
    with pytest.raises(CacheError, match="does not define 'missing'"):
        LoadedObject(native.compile_object(EVERYTHING)).address("missing")


def test_libm_is_found():
    names = ("expf", "exp", "logf", "log", "powf", "pow", "tanhf", "tanh", "erff", "sinf", "log1p", "expm1", "fmodf")
    assert all(resolve_external(name) for name in names)


@pytest.mark.parametrize("name", ["memcpy", "memset", "memmove", "bcmp", "syscall", "clock_gettime"])
def test_libc_is_found(name):
    assert resolve_external(name)


def test_thread_local_data_is_refused():
    text = "@t = thread_local global i64 3\ndefine ptr @f() {\n  ret ptr @t\n}"
    with pytest.raises(CacheError, match=r"thread-local|relocation type"):
        LoadedObject(native.compile_object(text))


def test_constructors_are_refused():
    text = """
@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 1, ptr @f, ptr null }]
define void @f() {
  ret void
}"""
    with pytest.raises(CacheError, match="constructors"):
        LoadedObject(native.compile_object(text))


def test_other_files_are_refused():
    executable = Path(sys.executable).read_bytes()
    aarch64 = bytearray(native.compile_object(EVERYTHING))
    struct.pack_into("<H", aarch64, 18, 183)
    for data in (b"", b"hello", executable, b"\x7fELF" + bytes(100), bytes(aarch64)):
        with pytest.raises(CacheError, match="damaged object file"):
            LoadedObject(data)


WHOLE = native.compile_object(EVERYTHING) if platform.machine() == "x86_64" else b""


def load_or_refuse(data):
    """Loading ends with a CacheError or well; that the process survives is the point."""
    try:
        LoadedObject(data)
    except CacheError as error:
        assert str(error)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, max(len(WHOLE) - 1, 0)))
def test_truncated_objects_are_refused(size):
    with pytest.raises(CacheError):
        LoadedObject(WHOLE[:size])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, max(len(WHOLE) - 1, 0)), st.integers(0, 255)), min_size=1, max_size=4))
def test_flipped_bytes_do_no_harm(changes):
    data = bytearray(WHOLE)
    for at, value in changes:
        data[at] = value
    load_or_refuse(bytes(data))


def header_fields():
    """Offsets of everything that the loader interprets: the header, section headers, symbols and relocations."""
    parsed = ObjectFile.parse(WHOLE)
    start = struct.unpack_from("<Q", WHOLE, 40)[0]
    fields = [*range(0, 64, 2), *range(start, start + 64 * len(parsed.sections), 4)]
    for section in parsed.sections:
        if section.type in (2, 4):
            fields += range(section.offset, section.offset + section.size, 4)
    return [at for at in fields if at + 8 <= len(WHOLE)]


@settings(max_examples=400, deadline=None)
@given(
    st.data(), st.sampled_from([0, 1, 7, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 31, 1 << 62, (1 << 63) - 1, (1 << 64) - 1])
)
def test_hostile_numbers_do_no_harm(data, value):
    at = data.draw(st.sampled_from(header_fields()))
    size = data.draw(st.sampled_from([2, 4, 8]))
    changed = WHOLE[:at] + (value % (1 << 8 * size)).to_bytes(size, "little") + WHOLE[at + size :]
    load_or_refuse(changed)


def test_mcjit_loads_the_same_objects():
    data = native.compile_object(EVERYTHING, codemodel="large")
    code = McjitObject(data)
    assert native.call(code.address("power"), F64, (F64, 0.5), (F64, 3.0)) == math.exp(0.5) ** 3.0
    with pytest.raises(CacheError, match="missing"):
        code.address("missing")
    with pytest.raises(CacheError, match="damaged"):
        McjitObject(b"not an object")


def test_this_machine_runs_its_own_code_only():
    assert isinstance(load_object(WHOLE), LoadedObject)
    check_machine("x86-64-v2", "x86_64-unknown-linux-gnu")
    with pytest.raises(Exception, match="compiled for aarch64-unknown-linux-gnu, this machine is x86_64"):
        check_machine("aarch64", "aarch64-unknown-linux-gnu")


def test_missing_cpu_features_are_named(monkeypatch):
    monkeypatch.setattr("blu.runtime.host.cpu_flags", lambda: frozenset({"sse4_2", "avx", "avx2"}))
    with pytest.raises(Exception, match=r"x86-64-v3, this CPU lacks abm, bmi1"):
        check_machine("x86-64-v3", "x86_64-unknown-linux-gnu")
