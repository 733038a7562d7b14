"""Passes, their registry and options, and pipeline text."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import operations_in
from blu.errors import ParseError
from blu.passes.framework import registry
from blu.passes.framework.base import MlirPass, Pass, find, replace
from blu.passes.framework.options import options_of
from blu.passes.framework.pipeline_text import format_pipeline, parse_pipeline
from blu.passes.framework.upstream import UPSTREAM_PASSES
from tests.support.programs.toy_passes import MODULE, ToyDropNegations, ToyOptions


@pytest.fixture(autouse=True)
def forget_new_passes(monkeypatch):
    """Passes that a test defines, some of them wrong on purpose, do not reach the next test."""
    registry.all_passes()
    for table in ("_passes", "_placements", "_files"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))


def parse_module() -> ir.Module:
    return ir.Module.parse(MODULE, make_context())


def test_a_subclass_is_registered_under_its_kebab_name():
    assert ToyDropNegations.name == "blu-toy-drop-negations"
    assert registry.lookup("blu-toy-drop-negations") is ToyDropNegations


def test_a_name_can_be_given():
    class Named(Pass, name="toy-named"):
        """IR -> IR."""

        def run(self, module):
            pass

    assert registry.lookup("toy-named") is Named


def test_a_pass_without_docstring_or_run_is_refused():
    with pytest.raises(TypeError, match="docstring that shows IR before and after"):

        class ToySilent(Pass):
            def run(self, module):
                pass

    with pytest.raises(TypeError, match=r"needs a method run"):

        class ToyIdle(Pass):
            """IR -> IR."""


def test_two_passes_of_one_name_are_refused():
    with pytest.raises(TypeError, match="two passes are named 'blu-toy-options'"):

        class Other(Pass, name="blu-toy-options"):
            """IR -> IR."""

            def run(self, module):
                pass

    assert registry.lookup("blu-toy-options") is ToyOptions


def test_fields_without_dataclass_are_noticed():
    class ToyForgotten(Pass):
        """IR -> IR."""

        size: int = 3

        def run(self, module):
            pass

    with pytest.raises(TypeError, match="decorate it with @dataclass"):
        options_of(ToyForgotten)


def test_options_of_other_types_are_refused():
    @dataclass(frozen=True)
    class ToyListOption(Pass):
        """IR -> IR."""

        sizes: dict[str, int] = None  # type: ignore[assignment]

        def run(self, module):
            pass

    with pytest.raises(TypeError, match="an option is one of"):
        options_of(ToyListOption)


def test_options_are_read_from_text():
    (found,) = parse_pipeline("blu-toy-options{count=0x10 ratio=1e-3 is-fast label='two words' tile-sizes=1,2,3}")
    assert found == ToyOptions(16, 1e-3, True, "two words", (1, 2, 3))
    assert parse_pipeline("blu-toy-options{}") == (ToyOptions(),)


@pytest.mark.parametrize(
    ("text", "message", "advice"),
    [
        ("blu-toy-options{cuont=1}", "no option 'cuont'", "did you mean 'count'"),
        ("blu-toy-options{count=many}", "many is no value for the option 'count'", "count=<int> (default 3)"),
        ("blu-toy-options{count=1 count=2}", "given twice", ""),
        ("blu-toy-options{count}", "needs a value", ""),
        ("blu-toy-options{is-fast=maybe}", "maybe is no value", "is-fast=<bool>"),
        ("blu-toy-options{=3}", "cannot read the options", "key=value"),
        ("blu-toy-option", "there is no pass 'blu-toy-option'", "did you mean 'blu-toy-options'"),
        ("toy-options", "there is no pass 'toy-options'", "did you mean 'blu-toy-options'"),
        ("canonicalise", "there is no pass 'canonicalise'", "did you mean 'canonicalize'"),
        ("canonicalize{speed=9}", "no such option speed", "max-iterations=10"),
        ("func.func(blu-toy-options)", "cannot stand inside of 'func.func(...)'", ""),
        ("blu-toy-options(cse)", "nests no others", ""),
        ("affine-scalrep", "restricted to 'func.func'", "write func.func(affine-scalrep)"),
        ("cse,", "column 5: a pass is missing", ""),
        ("cse cse", "column 5: expected ','", ""),
        ("cse,,cse", "column 5: expected the name of a pass", ""),
        ("func.func(cse", "column 10: '(' is never closed", ""),
        ("canonicalize{a)}", "')' closes nothing", ""),
        ("func.func(" * 40 + ")" * 40, "nesting deeper than 32", ""),
    ],
)
def test_mistakes_in_pipeline_text(text, message, advice):
    with pytest.raises(ParseError) as caught:
        parse_pipeline(text)
    assert message in caught.value.message
    assert advice in caught.value.advice


def test_pipelines_mix_both_kinds_and_nest():
    text = "blu-toy-drop-negations{max-count=4},canonicalize{top-down=false},func.func(cse,canonicalize)"
    passes = parse_pipeline(text)
    assert passes == (
        ToyDropNegations(4),
        MlirPass("canonicalize{top-down=false}"),
        MlirPass("func.func(cse,canonicalize)"),
    )
    assert format_pipeline(passes) == text
    assert parse_pipeline(f"builtin.module( {text} )") == passes
    assert parse_pipeline("") == ()


options = st.builds(
    ToyOptions,
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.text(),
    st.lists(st.integers()).map(tuple),
)
upstream = st.sampled_from(["cse", "func.func(cse,canonicalize{max-iterations=3})", "canonicalize{top-down=false}"])
pipelines = st.lists(st.one_of(options, upstream.map(MlirPass), st.just(ToyDropNegations())), max_size=4).map(tuple)


@settings(deadline=None, max_examples=150)
@given(pipelines)
def test_pipeline_text_reads_back(passes):
    assert parse_pipeline(format_pipeline(passes)) == passes


@settings(deadline=None, max_examples=150)
@given(st.text(alphabet="ab-{}(),='\" \\\n1", max_size=30))
def test_any_text_is_a_pipeline_or_a_parse_error(text):
    try:
        passes = parse_pipeline(text)
    except ParseError as error:
        assert error.message
    else:
        assert not text.strip() or passes


def test_upstream_names_are_known_to_mlir():
    context = ir.Context()
    for name in UPSTREAM_PASSES:
        try:
            MlirPass(f"any({name})").parse(context)
        except ParseError as error:
            assert "does not refer" not in error.message, name


def test_find_gives_kinds_in_order_and_survives_erasing():
    module = parse_module()
    assert [operation.operation.name for operation in find(module, "blu.*")] == ["blu.negative"] * 2 + ["blu.exp"]
    assert [operation.operation.name for operation in find(module, func.FuncOp, "blu.exp")] == ["func.func", "blu.exp"]
    assert len(list(find(module))) == 5
    ToyDropNegations().run(module)
    assert len(list(find(module, "blu.negative"))) == 1


NESTED = """
module {
  func.func @first(%x: index) {
    scf.for %i = %x to %x step %x {
      %0 = arith.addi %i, %x : index
      scf.if %c { %1 = arith.muli %i, %i : index } else { %2 = arith.subi %i, %i : index }
    }
    return
  }
  func.func private @declared()
  module @inner {
    func.func @second() { return }
    llvm.func @third() { llvm.return }
  }
}
""".replace("scf.if %c", "%c = arith.constant true\n      scf.if %c")


def test_operations_come_in_the_order_of_the_text():
    module = ir.Module.parse(NESTED, make_context())
    walked: list[str] = []
    module.operation.walk(lambda item: (walked.append(item.name), ir.WalkResult.ADVANCE)[1], ir.WalkOrder.PRE_ORDER)
    assert [item.name for item in operations_in(module.operation)] == walked[1:] and len(walked) > 15


def test_who_looks_for_functions_does_not_look_into_them(monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []

    def watched(*arguments):
        for item in operations_in(*arguments):
            seen.append(item.name)
            yield item

    monkeypatch.setattr("blu.passes.framework.base.operations_in", watched)
    module = ir.Module.parse(NESTED, make_context())
    names = [ir.StringAttr(item.attributes["sym_name"]).value for item in find(module, func.FuncOp, "llvm.func")]
    assert names == ["first", "declared", "second", "third"] and len(seen) == 5
    [first, *_] = find(module, func.FuncOp)
    assert [item.operation.name for item in find(first, "arith.addi", func.FuncOp)] == ["arith.addi"]
    assert [item.operation.name for item in find(first, "scf.*")] == ["scf.for", "scf.if", *["scf.yield"] * 3]


def test_replace_checks_the_number_of_values():
    module = parse_module()
    (exponential,) = find(module, "blu.exp")
    with pytest.raises(AssertionError, match="has 1 results, not 0"):
        replace(exponential, [])


PLUGIN = '''
from dataclasses import dataclass
from blu.passes.framework.base import Pass
from blu.passes.framework.registry import register_pass

@register_pass(after="blu-toy-drop-negations")
@dataclass(frozen=True)
class {name}(Pass):
    """IR -> IR."""

    size: int = 2

    def run(self, module):
        {body}
'''


def write_plugin(path, name="ToyPlugin", body="pass"):
    path.write_text(PLUGIN.format(name=name, body=body))
    return path


def test_a_plugin_file_adds_a_pass_and_its_place(tmp_path):
    path = write_plugin(tmp_path / "plugin.py", "ToyFromFile")
    (cls,) = registry.load_pass_file(path)
    assert parse_pipeline("blu-toy-from-file{size=5}") == (cls(size=5),)
    assert registry.Placement(cls, "blu-toy-drop-negations", True) in registry.placements()
    assert path in registry.loaded_files()
    (again,) = registry.load_pass_file(path)
    assert registry.lookup("blu-toy-from-file") is again


def test_plugin_files_that_are_wrong(tmp_path):
    with pytest.raises(ParseError, match="there is no pass file"):
        registry.load_pass_file(tmp_path / "missing.py")
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(ParseError, match="defines no pass"):
        registry.load_pass_file(tmp_path / "empty.py")
    (tmp_path / "broken.py").write_text("x = 1\ny = (\n")
    with pytest.raises(ParseError, match=r"broken.py:2: SyntaxError"):
        registry.load_pass_file(tmp_path / "broken.py")


def test_a_plugin_with_wrong_options_is_refused(tmp_path):
    path = write_plugin(tmp_path / "undecorated.py", "ToyUndecorated")
    path.write_text(path.read_text().replace("@dataclass(frozen=True)\n", ""))
    with pytest.raises(ParseError, match=r"ToyUndecorated has the field 'size': decorate it"):
        registry.load_pass_file(path)
    assert registry.lookup("blu-toy-undecorated") is None


def test_a_plugin_that_raises_leaves_nothing_behind(tmp_path):
    path = write_plugin(tmp_path / "raising.py", "ToyHalfLoaded")
    path.write_text(path.read_text() + "\n1 / 0\n")
    with pytest.raises(ParseError, match=r"raising.py:\d+: ZeroDivisionError") as caught:
        registry.load_pass_file(path)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert registry.lookup("blu-toy-half-loaded") is None
    assert all(item.pass_class.name != "blu-toy-half-loaded" for item in registry.placements())


def test_register_pass_takes_one_side():
    with pytest.raises(TypeError, match="either after= or before="):
        registry.register_pass(after="a", before="b")


def test_our_passes_show_ir_in_their_docstrings_and_have_sound_options():
    for cls in filter(registry.is_ours, registry.all_passes().values()):
        assert re.search(r"\n\s*\n", cls.__doc__), f"{cls.name}: a docstring shows IR before and after"
        for option in options_of(cls):
            assert str(option).startswith(f"{option.name}=<")
