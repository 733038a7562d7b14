"""Ops that others notice: they happen once, used or not, in the order of the program, whatever passes there are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import blu
from blu.dialects.core.context import make_context
from blu.dialects.core.dtypes import FLOATS
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import OPS, BluDialect, Effects, Op, is_pure
from blu.dialects.ops.pointwise import Unary
from blu.passes.framework.base import MlirPass, Pass
from blu.passes.gpu.rows.chunk_rows import ChunkRows
from blu.passes.graph.reassociate import Reassociate
from blu.passes.graph.remat import Remat
from blu.passes.graph.simplify import Simplify
from blu.passes.loops.fuse import Fuse
from blu.passes.loops.lower_to_linalg import LowerToLinalg
from blu.passes.loops.merge_duplicates import MergeDuplicates
from blu.passes.loops.sink_widening import SinkWidening
from tests.support.programs.interpret import interpret

MARK = '{blu.checkpoint = {policy = "nothing", region = 0 : i64}}'
BOTH = "(tensor<4xf32>) -> tensor<4xf32>"


@pytest.fixture(scope="module", autouse=True)
def announce() -> Iterator[type[Op]]:
    """An op with effects, as easy to take for one without as can be: elementwise. It is forgotten afterwards."""
    make_context()  # declares Blu's own ops first
    before = list(BluDialect.operations)

    class Announce(Unary, name="announce", dtypes=FLOATS):
        """The operand, of which somebody is told."""

        effects = Effects.ORDERED
        kernel = True
        reference = staticmethod(lambda x: x.copy())
        vjp = staticmethod(lambda g, x, y: g)

    yield Announce
    BluDialect.operations = before
    del OPS["announce"]


def run(text: str, *passes: Pass | MlirPass) -> list[tuple[str, ...]]:
    """The program's ops after some passes: for each its name, or whom it calls, and its operands' names."""
    with make_context() as context, ir.Location.unknown():
        module = ir.Module.parse(text, context)
        for item in passes:
            item.run(module)
            assert module.operation.verify()
        (main,) = (item for item in module.body.operations if item.name.value == "main")
        return [_described(item.operation) for item in main.entry_block.operations]


def _described(operation: ir.Operation) -> tuple[str, ...]:
    called = operation.attributes["callee"] if operation.name == "func.call" else None
    name = ir.FlatSymbolRefAttr(called).value.rpartition("_")[0] if called else operation.name.removeprefix("blu.")
    return name, *(_name(value) for value in operation.operands)


def _name(value: ir.Value) -> str:
    """An argument's number; what makes another value."""
    return f"%{ir.BlockArgument(value).arg_number}" if isinstance(value.owner, ir.Block) else value.owner.name


def names(found: list[tuple[str, ...]]) -> list[str]:
    return [name for name, *_ in found]


def announced(found: list[tuple[str, ...]]) -> list[str]:
    """What is announced, in order."""
    return [operands[0] for name, *operands in found if name == "announce"]


TWINS = f"""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %a = "blu.announce"(%x) : {BOTH}
  %e = "blu.exp"(%x) : {BOTH}
  %unused = "blu.sin"(%x) : {BOTH}
  %unheard = "blu.announce"(%x) : {BOTH}
  %f = "blu.exp"(%x) : {BOTH}
  %b = "blu.announce"(%x) : {BOTH}
  %ab = "blu.add"(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %ef = "blu.add"(%e, %f) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %all = "blu.add"(%ab, %ef) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %all : tensor<4xf32>
}}
"""


@pytest.mark.parametrize(
    ("item", "exps", "sins"),
    [
        (MlirPass("cse"), 1, 0),
        (MlirPass("canonicalize"), 2, 0),
        (Simplify(), 2, 0),
        (Reassociate(), 2, 0),
        (SinkWidening(), 2, 0),
        (MergeDuplicates(), 1, 1),
    ],
    ids=lambda item: str(item),
)
def test_what_merges_and_drops_ops_leaves_those_with_effects(item, exps, sins):
    found = names(run(TWINS, item))
    assert (found.count("exp"), found.count("sin"), found.count("announce")) == (exps, sins, 3)


def test_lowering_and_fusion_leave_all_of_them():
    found = run(TWINS, LowerToLinalg(), MlirPass("canonicalize"), MergeDuplicates(), Fuse())
    assert announced(found) == ["%0", "%0", "%0"]
    assert names(found) == ["announce", "announce", "announce", "rows", "func.return"]


def test_what_waits_for_a_later_one_runs_after_both():
    """One kernel makes %p and %q, and the product that is first in the program needs it."""
    text = """
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %v: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %p = "blu.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = "blu.matmul"(%p, %w) {precision = "highest"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %a = "blu.announce"(%w) : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = "blu.announce"(%v) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = "blu.sin"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %q = "blu.add"(%s, %b) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r, %q : tensor<4x8xf32>, tensor<4x8xf32>
}
"""
    found = run(text, LowerToLinalg(), MlirPass("canonicalize"), Fuse())
    assert names(found) == ["announce", "announce", "rows", "gemm", "func.return"]
    assert announced(found) == ["%1", "%2"]


def test_kernels_are_not_joined_where_that_would_turn_effects_around():
    """Joined, what makes %p would wait for the second announcement, and the first one for that."""
    text = """
func.func @main(%x: tensor<4x8xf32>, %v: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %p = "blu.exp"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = "blu.announce"(%p) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = "blu.announce"(%v) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = "blu.sin"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %q = "blu.add"(%s, %b) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %q : tensor<4x8xf32>
}
"""
    found = run(text, LowerToLinalg(), MlirPass("canonicalize"), Fuse())
    assert names(found) == ["rows", "announce", "announce", "rows", "func.return"]
    assert announced(found) == ["func.call", "%1"]
    pure = text.replace("blu.announce", "blu.barrier")
    assert names(run(pure, LowerToLinalg(), MlirPass("canonicalize"), Fuse())).count("rows") == 1


def gradient(forward: str, backward: str, count: int) -> str:
    """A program of which so many ops are the forward pass."""
    return f"""
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    attributes {{blu.forward_ops = {count} : i64}} {{
  {forward}
  {backward}
  return %l, %g : tensor<4xf32>, tensor<4xf32>
}}
"""


def chain(mark: str = "") -> str:
    """Something that a gradient needs is computed from what an op with effects gives."""
    forward = f"""%y = "blu.announce"(%x) {mark} : {BOTH}
  %z = "blu.exp"(%y) {mark} : {BOTH}
  %l = "blu.sin"(%z) {mark} : {BOTH}"""
    return gradient(forward, f'%g = "blu.cos"(%z) : {BOTH}', 3)


@pytest.mark.parametrize(
    ("text", "item", "exps"),
    [(chain(MARK), Remat(), 2), (chain(), Remat(budget=1), 1), (chain(), Remat(cheap=True), 1)],
    ids=["marked", "budget", "cheap"],
)
def test_what_gradients_compute_again_ends_at_effects(text, item, exps):
    found = names(run(text, item))
    assert (found.count("announce"), found.count("exp")) == (1, exps)
    pure = names(run(text.replace("announce", "tanh"), item))
    assert pure.count("exp") == 2 or item.cheap


def test_a_value_with_effects_is_kept_whatever_the_budget():
    forward = f'%y = "blu.announce"(%x) {MARK} : {BOTH}\n  %l = "blu.sin"(%y) {MARK} : {BOTH}'
    text = gradient(forward, f'%g = "blu.cos"(%y) : {BOTH}', 2)
    for item in (Remat(), Remat(budget=1), Remat(cheap=True, isolate=True)):
        assert announced(run(text, item)) == ["%0"]


def test_effects_of_a_backward_pass_keep_their_order_where_it_waits():
    """%y is cheap to compute again where %t is read: what reads it waits for that, and all announcements behind it."""
    small = "(tensor<f32>) -> tensor<f32>"
    filler = "\n  ".join(f'%s{index + 1} = "blu.sin"(%s{index}) : {small}' for index in range(60))
    text = f"""
func.func @main(%x: tensor<999xf32>, %w: tensor<4xf32>, %s0: tensor<f32>) -> (tensor<999xf32>, tensor<f32>)
    attributes {{blu.forward_ops = 63 : i64}} {{
  %t = "blu.tanh"(%x) : (tensor<999xf32>) -> tensor<999xf32>
  %y = "blu.exp"(%t) : (tensor<999xf32>) -> tensor<999xf32>
  %l = "blu.cos"(%y) : (tensor<999xf32>) -> tensor<999xf32>
  {filler}
  %a = "blu.announce"(%y) : (tensor<999xf32>) -> tensor<999xf32>
  %b = "blu.announce"(%w) : {BOTH}
  %c = "blu.sin"(%s60) : {small}
  %d = "blu.announce"(%c) : {small}
  %g = "blu.square"(%t) : (tensor<999xf32>) -> tensor<999xf32>
  return %g, %d : tensor<999xf32>, tensor<f32>
}}
"""
    assert announced(run(text, Remat(cheap=True))) == ["blu.exp", "%1", "blu.sin"]


def test_rows_are_not_cut_around_effects():
    text = """
func.func @main(%x: tensor<8x2xf32>, %w: tensor<2x64xf32>) -> tensor<8xf32> {
  %p = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<8x2xf32>, tensor<2x64xf32>) -> tensor<8x64xf32>
  %a = "blu.announce"(%p) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %q = "blu.sum"(%a) {axes = array<i64: 1>, keepdims = false} : (tensor<8x64xf32>) -> tensor<8xf32>
  return %q : tensor<8xf32>
}
"""
    item = ChunkRows(largest_bytes=1024)
    assert names(run(text, item)) == ["matmul", "announce", "sum", "func.return"]
    assert names(run(text.replace("announce", "exp"), item)).count("exp") == 2


def test_rows_are_not_cut_where_effects_would_come_later():
    """The first announcement would stand behind all of the cut rows, and so behind the second one."""
    text = """
func.func @main(%x: tensor<8x2xf32>, %w: tensor<2x64xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %p = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<8x2xf32>, tensor<2x64xf32>) -> tensor<8x64xf32>
  %s = "blu.sum"(%p) {axes = array<i64: 1>, keepdims = false} : (tensor<8x64xf32>) -> tensor<8xf32>
  %a = "blu.announce"(%s) : (tensor<8xf32>) -> tensor<8xf32>
  %b = "blu.announce"(%w) : (tensor<2x64xf32>) -> tensor<2x64xf32>
  %e = "blu.exp"(%p) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %q = "blu.sum"(%e) {axes = array<i64: 1>, keepdims = false} : (tensor<8x64xf32>) -> tensor<8xf32>
  return %a, %q : tensor<8xf32>, tensor<8xf32>
}
"""
    item = ChunkRows(largest_bytes=1024)
    found = run(text, item)
    assert (names(found).count("matmul"), announced(found)) == (1, ["blu.sum", "%1"])
    assert names(run(text.replace("announce", "sin"), item)).count("matmul") == 2


@pytest.mark.parametrize("target", ["x86-64-v3", "sm_80", "sm_90a"])
def test_a_program_and_its_gradient_have_each_effect_once(announce, target):
    def loss(x):
        announce(x)
        y = announce(blu.exp(x * 2))
        return blu.sum(y * y + announce(blu.exp(x * 2)))

    for function in (loss, blu.value_and_grad(blu.checkpoint()(loss))):
        lowered = blu.jit(function).trace(blu.spec((4,))).lower(target, stop="cse")
        assert lowered.text.count('"blu.announce"') == 3


@pytest.mark.parametrize("reads", [False, True], ids=["nobody reads the loop", "one result is read"])
def test_smaller_loops_have_the_effects_that_were_there(announce, reads):
    """Of what is carried, walked along and given, an op with effects reads what nobody else does."""

    def step(carry, row):
        total, other = carry
        announce(other * row)
        return (total + 1, announce(other) * 2), row

    def program(x, rows):
        announce(x)
        (total, _), _ = blu.scan(step, (x, x), rows)
        return total if reads else x

    module = blu.jit(program).trace(blu.spec((4,)), blu.spec((3, 4))).lower("sm_90a", stop="blu-trim-loops").module
    [main] = [item for item in module.body.operations if item.name.value == "main"]
    outside = [item.operation for item in main.entry_block.operations]
    [loop] = [item for item in outside if item.name == "blu.scan"]
    inside = [item.operation for item in loop.regions[0].blocks[0].operations]
    told = [[_name(item.operands[0]) for item in block if item.name == "blu.announce"] for block in (outside, inside)]
    assert told == [["%0"], ["blu.multiply", f"%{int(reads)}"]]
    assert (len(loop.results), len(inside[-1].operands)) == (1 + reads, 1 + reads)


VJPS = {
    "alone": lambda function, x: blu.vjp(function, x)[0],
    "pulled": lambda function, x: pulled(function, x)[1],
    "pulled twice": lambda function, x: [*map(blu.vjp(function, x)[1], (x, 2 * x))],
    "in a gradient": lambda function, x: blu.grad(lambda y: blu.sum(pulled(function, y)[1]))(x),
    "in a vjp": lambda function, x: pulled(lambda y: pulled(function, y)[1], x),
    "of a gradient": lambda function, x: pulled(blu.grad(lambda y: blu.sum(function(y))), x),
    "beside a gradient": lambda function, x: blu.grad(lambda y: blu.sum(function(y)))(pulled(function, x)[0]),
}


def pulled(function, x):
    """What a function gives, and what it takes back of x."""
    result, pull_back = blu.vjp(function, x)
    return result, pull_back(x)[0]


@pytest.mark.parametrize("case", VJPS)
def test_effects_of_what_vjp_is_given_happen_once(announce, case):
    def function(x):
        announce(x)
        return blu.sin(announce(blu.exp(x)))

    calls = {"beside a gradient": 2}.get(case, 1)
    text = blu.jit(lambda x: VJPS[case](function, x)).trace(blu.spec((4,))).lower(stop="cse").text
    assert text.count('"blu.announce"') == 2 * calls


def test_gradients_of_what_has_effects_are_right(announce):
    """With an op that does nothing besides, numbers are what they are without effects."""

    def program(announced):
        def loss(x):
            result, pull_back = blu.vjp(lambda y: blu.sin(announced(y * y)), x)
            return blu.sum(result * pull_back(blu.exp(x))[0])

        return blu.jit(blu.value_and_grad(loss)).trace(blu.spec((4,))).lower(stop="blu").module

    x = np.linspace(-1, 1, 4).astype(np.float32)
    found, wanted = (interpret(program(item), [x]) for item in (announce, lambda y: y))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_effects_that_vjp_cannot_have_once_are_refused(announce):
    """What a gradient itself does is not known yet where it is called."""

    def acts_in_its_gradient(x):
        return blu.sum(Telling(x))

    class Telling(Unary, name="telling", dtypes=FLOATS):
        """The operand; somebody is told of its gradient."""

        reference = staticmethod(lambda x: x.copy())
        vjp = staticmethod(lambda g, x, y: announce(g))

    try:
        with pytest.raises(blu.BluError, match=r"blu\.announce has effects, which blu\.vjp would have happen twice"):
            program = blu.jit(lambda x: pulled(blu.grad(acts_in_its_gradient), x))
            program.trace(blu.spec((4,))).lower(stop="blu")
    finally:
        BluDialect.operations.remove(OPS.pop("telling").declared)


def test_what_has_effects_and_no_kernel_is_refused(announce, monkeypatch):
    monkeypatch.setattr(announce, "kernel", False)
    with pytest.raises(blu.BluError, match=r"test_effects\.py:\d+: .* no kernel is made of blu\.announce"):
        blu.jit(lambda x: announce(x)).trace(np.ones(4, np.float32)).lower("x86-64-v3")


def test_blus_own_ops_but_collectives_are_pure_and_those_of_other_dialects_are_known():
    own = [cls for cls in OPS.values() if cls.__module__.startswith("blu.dialects.")]
    collectives = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "permute"}
    assert {cls.name for cls in own if cls.effects is not Effects.NONE} == collectives
    text = """
func.func private @other()
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  call @other() : () -> ()
  %a = "blu.announce"(%f) : (tensor<4xf32>) -> tensor<4xf32>
  %b = "blu.exp"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
"""
    with make_context() as context:
        module = ir.Module.parse(text, context)
        operations = module.body.operations[1].entry_block.operations
        found = {item.operation.name: is_pure(item.operation) for item in operations}
    assert [name for name, pure in found.items() if not pure] == ["func.call", "blu.announce", "func.return"]
