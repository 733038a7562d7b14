"""Dumps as people read them: names of values, order of kernels, what a difference shows; and that nothing is lost."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pytest

import blu
from blu.compiler.cli import compile as compile_command
from blu.compiler.cli import opt
from blu.compiler.driver.difference import difference
from blu.compiler.driver.position import PipelinePosition, positioned
from blu.compiler.driver.readable import DumpedText, dumped_text, readable_text
from blu.compiler.generation.gpt2_programs import Gpt2Request
from blu.compiler.jit import Traced
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import attribute_names
from blu.frontend.io.gpt2 import complete_config
from blu.passes.framework.launches import HOLDERS
from tests.fuzz.run import program_of

CONFIG = {"model_type": "gpt2", "n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 61, "n_positions": 12}
TARGETS = ("x86-64-v3", "sm_90a")
LEVELS = ("blu", "linalg", "memref", "kernel", "llvm", None)
Lower = Callable[[str, str | None], ir.Module]
NUMBERED = re.compile(r"%(?:\d|arg\d|cst)|#(?:map|loc)\d")


@pytest.fixture(scope="module")
def gpt2() -> Traced:
    return Gpt2Request.of("forward", complete_config(CONFIG), "x86-64-v3", batch=1, length=8).trace()


@pytest.fixture(scope="module")
def lowered(gpt2: Traced) -> Lower:
    """The model for a target, at a level or after a pass: compiled once, to be looked at only."""
    return cache(lambda target, stop: gpt2.lower(target, stop=stop).module)


def parts(module: ir.Module) -> tuple[list[str], dict[str, str]]:
    """All that is in a module, locations included, whatever the order of its functions."""
    functions = (item.operation.get_asm(enable_debug_info=True, use_local_scope=True) for item in functions_of(module))
    attributes = {name: str(module.operation.attributes[name]) for name in attribute_names(module)}
    return sorted(map(str, functions)), {**attributes, "location": str(module.operation.location)}


def functions_of(module: ir.Module) -> list[ir.OpView]:
    """The functions of a module, those in its module of kernels too."""
    outside = [item for item in module.body if item.operation.name not in HOLDERS]
    held = [item.operation.regions[0].blocks[0] for item in module.body if item.operation.name in HOLDERS]
    return [*outside, *(item for block in held for item in block)]


def check_text(module: ir.Module) -> str:
    """The text of a module for people, which reads back as the module and is what that prints again."""
    text = dumped_text(module)
    again = ir.Module.parse(text, module.context)
    assert parts(again) == parts(module)
    assert dumped_text(again) == text
    return text


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("level", LEVELS)
def test_a_gpt2_reads_back_as_the_same_module(lowered: Lower, level: str | None, target: str):
    text = check_text(lowered(target, level))
    assert "#loc_h_1_mlp_c_fc_" in text or level in (
        "memref",
        "kernel",
        "llvm",
        None,
    )  # kernels of blocks are shared there
    if level in ("blu", "linalg", "memref"):
        assert not NUMBERED.search(re.sub(r'"(?:[^"\\]|\\.)*"', "", text))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("level", ["kernel", "llvm"])
def test_a_dump_is_mlir_for_those_who_do_not_know_our_dialects(lowered: Lower, level: str, target: str):
    text = dumped_text(lowered(target, level))
    assert ("gpu.launch_func" in text and "gpu.module @kernels" in text) == (target == "sm_90a")
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        assert ir.Module.parse(text).operation.verify()


def test_a_step_of_training_reads_back_as_the_same_module():
    def loss(weights: dict[str, blu.Tensor], x: blu.Tensor) -> blu.Tensor:
        hidden = blu.gelu(x @ weights["up"])
        return blu.cross_entropy(hidden @ weights["down"], blu.argmax(x, axis=1)).mean()

    weights = {"up": blu.spec((6, 24)), "down": blu.spec((24, 6))}
    traced = blu.jit(blu.grad(loss)).trace(weights, blu.spec((5, 6)))
    for level in ("blu", "linalg", "memref"):
        check_text(traced.lower("x86-64-v3", stop=level).module)


def test_places_that_name_what_was_called_read_back():
    """Arguments of kernels have them, and MLIR gives some of these no name of their own."""
    traced = blu.jit(lambda x, i: x[i] + 1).trace(blu.spec((3, 4)), blu.spec((), "i32"))
    texts = [check_text(traced.lower("x86-64-v3", stop=level).module) for level in ("linalg", None)]
    assert any('fused<"getitem">[' in text for text in texts)


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_read_back_as_the_same_modules(seed: int):
    program = program_of(seed)
    if not program.results:
        pytest.skip("nothing of this one has a gradient")
    arrays = [item.array() for item in program.inputs]
    traced = blu.jit(lambda inputs: program.apply(inputs)).trace(arrays)
    for level in ("linalg", None):
        check_text(traced.lower("x86-64-v3", stop=level).module)


def test_values_keep_their_names_from_level_to_level(lowered: Lower):
    texts = {level: dumped_text(lowered("sm_90a", level)) for level in LEVELS}
    for text in texts.values():
        assert "%model.h.0.mlp.c_fc.weight" in text
    assert '%h.1.mlp.c_fc.matmul = "blu.matmul"(%h.1.ln_2.' in texts["blu"]
    assert re.search(r"%h\.1\.mlp\.c_fc\.mulf = call @gemm_\d+\(%h\.1\.ln_2\.addf,", texts["linalg"])
    assert re.search(r"^      %h\.0\.ln_2\.addf: tensor<8x16xf32> loc", texts["linalg"], re.MULTILINE)
    assert '%h.1.mlp.c_fc.mulf = "plan.buffer"()' in texts["memref"]


def test_each_block_of_a_model_begins_with_a_comment(lowered: Lower):
    for level in ("blu", "linalg", "memref"):
        text = dumped_text(lowered("x86-64-v3", level))
        assert re.findall(r"^ *// (.*)$", text, re.MULTILINE) == ["h.0", "h.1"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_dump_says_where_it_is_without_being_written_anew(lowered: Lower, level: str | None):
    module = lowered("x86-64-v3", level)
    for dumped in (DumpedText.of(module), DumpedText("", "", None)):
        with positioned(module, PipelinePosition("memref", 3)):
            text = dumped.with_attributes_of(module)
            assert text == dumped_text(module) and "\n  blu.passes_done = 3 : i64,\n" in text
    assert dumped_text(module) != text


def test_operands_that_are_not_there_take_no_room():
    def join(parts: list[blu.Tensor]) -> tuple[blu.Tensor, blu.Tensor]:
        return blu.concatenate(parts, axis=0), blu.concatenate(parts[:2], axis=0)

    traced = blu.jit(join).trace([blu.spec((4,)), blu.spec((5,)), blu.spec((6,))])
    text = check_text(traced.lower("x86-64-v3", stop="blu").module)
    assert "{axis = 0 : i64, operandSegmentSizes = #slots_3_of_16} : (tensor<4xf32>, tensor<5xf32>, " in text
    assert "operandSegmentSizes = #slots_2_of_16}" in text
    assert "#slots_3_of_16 = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>\n" in text


def test_text_in_strings_is_left_as_it_is():
    slots = f"operandSegmentSizes = array<i32: {', '.join(['1'] * 9)}>"
    text = f'module {{\n  func.func private @f() attributes {{note = "{slots}"}}\n}}\n'
    assert slots in check_text(ir.Module.parse(text, make_context()))


def kernels_of(text: str) -> list[str]:
    return re.findall(r"func\.func private @(\w+)", text)


def test_kernels_follow_in_the_order_of_their_calls(gpt2: Traced):
    module = gpt2.lower("x86-64-v3", stop="linalg").module
    text = dumped_text(module)
    assert kernels_of(text) == list(dict.fromkeys(re.findall(r"call @(\w+)", text)))
    functions = [item.operation for item in module.body]
    random.Random(0).shuffle(functions)
    for function in functions:
        function.move_after(list(module.body)[-1].operation)
    assert kernels_of(str(module)) != kernels_of(text)
    assert dumped_text(module) == text


MODULE = """
func.func @main(%a: tensor<4xf32> {blu.name = "a"}, %b: tensor<4xf32> {blu.name = "b"}) -> tensor<4xf32> {
  EXTRA
  %0 = "blu.exp"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "blu.add"(%0, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = "blu.tanh"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
"""


def test_one_op_more_is_one_line_more():
    one = '%9 = "blu.absolute"(%b) : (tensor<4xf32>) -> tensor<4xf32>'
    with make_context() as context:
        texts = [dumped_text(ir.Module.parse(MODULE.replace("EXTRA", x), context), locations=False) for x in ("", one)]
    shown = difference(*(text.splitlines() for text in texts), "", "").splitlines()[2:]
    changed = [line for line in shown if line[0] in "+-"]
    assert changed == ['+    %absolute = "blu.absolute"(%b) : (tensor<4xf32>) -> tensor<4xf32>']


@pytest.mark.parametrize("target", TARGETS)
def test_what_fusion_moves_into_kernels_is_no_change(lowered: Lower, target: str):
    """Most lines of a kernel are those that `main` had: names of values, constants and maps are the same in both."""
    before, after = (
        dumped_text(lowered(target, name), locations=False).splitlines()
        for name in ("blu-merge-duplicates", "blu-fuse")
    )
    changed = [line for line in difference(before, after, "", "").splitlines()[2:] if line[0] in "+-"]
    assert len(changed) < len(after)
    assert sum(map(len, changed)) < sum(map(len, after))


def test_names_that_only_look_alike_are_kept_apart():
    text = """
        func.func @main(%0: tensor<2xf32> {blu.name = "x_1"}, %1: tensor<2xf32> {blu.name = "x"},
                        %2: tensor<2xf32> {blu.name = "x"}, %3: tensor<2xf32> {blu.name = "1 %y #"}) -> tensor<2xf32> {
          %4 = "blu.add"(%0, %1) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("a \\"%4"("m.py":1:1))
          %5 = "blu.add"(%2, %3) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("a_1"("m.py":1:1))
          %6 = "blu.add"(%4, %5) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> loc("a.1"("m.py":1:1))
          return %6 : tensor<2xf32>
        }"""
    with make_context() as context:
        found = check_text(ir.Module.parse(text, context))
    assert re.findall(r"^      %(\S+):", found, re.MULTILINE) == ["x_1", "x", "x_2", "_1__y__"]


def test_loops_with_several_results_and_blocks_that_are_used_before_they_are_defined():
    text = """
        func.func @loop(%n: index, %v: memref<4xf32>) -> (f32, f32) {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %z = arith.constant 0.0 : f32
          %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %z, %b = %z) -> (f32, f32) {
            %x = memref.load %v[%i] : memref<4xf32>
            scf.yield %x, %a : f32, f32
          }
          scf.for %i = %c0 to %n step %c1 {
            memref.store %r#1, %v[%i] : memref<4xf32>
          }
          scf.for %i = %c0 to %n step %c1 {
            memref.store %r#0, %v[%i] : memref<4xf32>
          }
          return %r#0, %r#1 : f32, f32
        }
        llvm.func @blocks(%x: i64) -> i64 {
          llvm.br ^b
        ^a:
          llvm.return %y : i64
        ^b:
          %y = llvm.add %x, %x : i64
          llvm.br ^a
        }"""
    with make_context() as context:
        found = check_text(ir.Module.parse(text, context))
    assert "%for:2 = scf.for %i = %c0 to %arg0 step %c1 iter_args(%carried = %c0_f32, %carried_1 = %c0_f32)" in found
    assert "return %for#0, %for#1" in found and "llvm.return %add" in found
    assert found.count("scf.for %i = ") == 3


def test_a_text_in_generic_form_stays_what_it_is(gpt2: Traced):
    module = gpt2.traced.module
    generic = module.operation.get_asm(print_generic_op_form=True)
    assert readable_text(module, generic) == generic.rstrip("\n") + "\n"


def test_a_module_that_does_not_verify_is_printed_by_mlir(gpt2: Traced):
    """Printing is how such a module is looked at: what is missing in it must not end the printing."""
    for missing in ("linalg.yield", "func.return"):
        module = gpt2.lower("x86-64-v3", stop="linalg").module
        function = list(module.body)[-1].operation
        blocks = [function.regions[0].blocks[0]]
        blocks += [block for item in blocks[0].operations for region in item.regions for block in region]
        [*_, last] = [item for block in blocks for item in block.operations if item.operation.name == missing]
        last.operation.erase()
        text = dumped_text(module)
        assert missing in text and text.startswith(("#", "module", '"builtin'))


def random_lines(generator: np.random.Generator) -> tuple[list[str], list[str]]:
    """Lines, some of them many times, and the same after some have gone, come and moved."""
    old = [f"line {n}" for n in generator.integers(0, 30, 60)]
    new = [line for line in old if generator.random() > 0.2]
    for _ in range(8):
        place = int(generator.integers(0, len(new)))
        new[place:place] = [f"line {generator.integers(0, 40)}"]
    start = int(generator.integers(0, len(new) // 2))
    return old, [*new[start:], *new[:start]]


def patched(old: list[str], text: str) -> Iterator[str]:
    """Lines after a unified diff has been applied to them."""
    place = 0
    for line in text.splitlines()[2:]:
        if header := re.fullmatch(r"@@ -(\d+),(\d+) \+\d+,\d+ @@", line):
            start = int(header[1]) - bool(int(header[2]))
            yield from old[place:start]
            place = start
            continue
        if line[0] != "+":
            assert old[place] == line[1:]
            place += 1
        if line[0] != "-":
            yield line[1:]
    yield from old[place:]


def test_a_difference_leads_from_one_text_to_the_other():
    generator = np.random.default_rng(0)
    for _ in range(100):
        old, new = random_lines(generator)
        for left, right in ((old, new), (new, old), ([], new), (old, [])):
            assert list(patched(left, difference(left, right, "a", "b"))) == right
    assert difference(["a"], ["a"], "a", "b") == ""


def test_lines_that_are_frequent_are_not_shown_as_changed():
    old = [line for n in range(80) for line in (f"%a_{n} = loop {{", "  yield %x", "}")]
    new = [line.replace("loop {", "loops {") for line in old]
    changed = difference(old, new, "a", "b").splitlines()
    assert sum(line.startswith(("-", "+")) for line in changed) == 2 * 80 + 2


def test_commands_print_names_where_they_are_asked_to(tmp_path, capfd):
    (tmp_path / "x.mlir").write_text(MODULE.replace("EXTRA", ""))
    file = str(tmp_path / "x.mlir")
    named = '%add = "blu.add"(%exp, %b)'
    for main, words, is_named in (
        (compile_command.main, ["--emit=blu", "-q"], True),
        (compile_command.main, ["--emit=blu", "-q", "--no-readable"], False),
        (opt.main, ["--no-isolate"], False),
        (opt.main, ["--no-isolate", "--readable"], True),
        (opt.main, ["--no-isolate", "--readable", "--mlir-print-op-generic"], False),
    ):
        assert main([file, *words]) == 0
        assert (named in capfd.readouterr().out) == is_named, words
