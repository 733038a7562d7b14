"""Linking objects: code runs as from its own object, and what refers to other sections and objects finds them."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import pytest

from blu.compiler.codegen.link_objects import _Object, link_objects
from blu.runtime.elf import ObjectFile
from blu.runtime.loader import LoadedObject
from tests.support.kernels.native_code import compile_object

# Constants, a table in read-only memory, a variable, zeros, a function of libm, and one of another object.
SOURCE = """
@table.N = internal constant [4 x double] [double 1.0, double 2.0, double 4.0, double N.0]
@count.N = internal global i64 N
@zeros.N = internal global [9 x i64] zeroinitializer
declare double @sqrt(double)
declare double @first.OTHER(double)
define double @first.N(double %x) {
  %root = call double @sqrt(double %x)
  %sum = fadd double %root, 0.N5
  ret double %sum
}
define double @second.N(double %x, i64 %at) {
  %place = getelementptr double, ptr @table.N, i64 %at
  %value = load double, ptr %place
  %old = load i64, ptr @count.N
  %new = add i64 %old, 1
  store i64 %new, ptr @count.N
  %slot = getelementptr i64, ptr @zeros.N, i64 8
  %zero = load i64, ptr %slot
  %both = add i64 %new, %zero
  %number = sitofp i64 %both to double
  %other = call double @first.OTHER(double %x)
  %a = fadd double %value, %number
  %b = fadd double %a, %other
  ret double %b
}
"""


def source(number: int, other: int) -> str:
    return SOURCE.replace("OTHER", str(other)).replace("N", str(number))


def call(loaded: LoadedObject, name: str, *arguments: float | int) -> float:
    kinds = [ctypes.c_double if isinstance(item, float) else ctypes.c_int64 for item in arguments]
    return ctypes.CFUNCTYPE(ctypes.c_double, *kinds)(loaded.address(name))(*arguments)


@pytest.mark.parametrize("codemodel", ["small", "large"])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_functions_of_many_objects_find_their_constants_variables_and_each_other(count: int, codemodel: str) -> None:
    objects = [
        compile_object(source(number, (number + 1) % count), codemodel=codemodel, opt=0) for number in range(count)
    ]
    loaded = LoadedObject(link_objects(objects))
    for turn in (1, 2):
        for number in range(count):
            other = (number + 1) % count
            assert call(loaded, f"first.{number}", 9.0) == 3.0 + float(f"0.{number}5")
            expected = float(number) + (number + turn) + 4.0 + float(f"0.{other}5")
            assert call(loaded, f"second.{number}", 16.0, 3) == expected


def test_objects_that_are_linked_can_be_linked_again_alone_or_with_others() -> None:
    parts = [compile_object(source(number, (number + 1) % 3)) for number in range(3)]
    loaded = LoadedObject(link_objects([link_objects([link_objects(parts[:2]), parts[2]])]))
    assert call(loaded, "second.1", 16.0, 0) == 1.0 + 2 + 4.25


def test_local_symbols_come_first_and_names_are_there_once() -> None:
    data = link_objects([compile_object(source(number, 1 - number)) for number in range(2)])
    symbols = _Object(data).symbols()
    bindings = [symbol.info >> 4 for symbol in symbols]
    assert bindings == sorted(bindings)
    names = [symbol.name for symbol in symbols if symbol.info >> 4]
    assert len(set(names)) == len(names) and {b"first.0", b"first.1", b"sqrt"} <= set(names)
    assert len(ObjectFile.parse(data).loaded()) < 2 * len(ObjectFile.parse(compile_object(source(0, 1))).loaded())


def test_two_definitions_of_a_name_are_refused() -> None:
    with pytest.raises(AssertionError, match=r"two objects define first\.0"):
        link_objects([compile_object(source(0, 1)), compile_object(source(0, 1))])


def test_objects_for_arm_are_linked_as_well() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple("aarch64-unknown-linux-gnu").create_target_machine(reloc="static")
    parts = []
    for number in range(2):
        module = llvm.parse_assembly(source(number, 1 - number))
        module.triple, module.data_layout = "aarch64-unknown-linux-gnu", str(machine.target_data)
        parts.append(machine.emit_object(module))
    first, second, both = (_Object(data) for data in (*parts, link_objects(parts)))
    assert both.header[2] == first.header[2] == 183
    sizes = [
        {name: len(item.contents(section)) for name, section in zip(item.names, item.sections, strict=True)}
        for item in (first, second, both)
    ]
    for name in (b".text", b".rela.text", b".rodata"):
        assert sizes[2][name] >= sizes[0][name] + sizes[1][name] > 0
