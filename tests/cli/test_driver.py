"""The driver: verification, failures, reproducers, dumps, stopping and continuing, printing, isolation."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from blu.compiler.driver import driver
from blu.compiler.driver.driver import DriverOptions, run_pipeline
from blu.compiler.driver.position import PipelinePosition, read_position
from blu.compiler.driver.printing import PrintOptions
from blu.compiler.driver.reproducer import read_reproducer
from blu.compiler.driver.source import parse_source, read_source
from blu.compiler.pipelines import Pipeline, Stage, cpu, loose_steps, sm90
from blu.compiler.pipelines.cpu import PIPELINE
from blu.compiler.pipelines.plugins import check_placements
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import module_text
from blu.dialects.targets.cpu import X86_64_V3
from blu.errors import ParseError, PassError, UnsupportedError
from blu.passes.framework import registry
from blu.passes.framework.base import MlirPass, Pass, find
from blu.passes.framework.levels import CheckLevel
from blu.passes.framework.pipeline_text import parse_pipeline
from tests.support.programs import toy_passes
from tests.support.programs.toy_passes import (
    MODULE,
    ToyBreak,
    ToyComplain,
    ToyDropNegations,
    ToyKeep,
    ToyRaise,
    ToyUseKept,
)

CSE, CANONICALIZE = MlirPass("cse"), MlirPass("canonicalize")
DROPPING = Pipeline("toy", (Stage("blu", (CSE, ToyDropNegations(), CANONICALIZE)),))


@pytest.fixture
def module(tmp_path) -> ir.Module:
    path = tmp_path / "model.mlir"
    path.write_text(MODULE)
    return parse_source(read_source(str(path)), make_context())


def run(module, *passes: Pass, **options):
    return run_pipeline(module, loose_steps(passes), DriverOptions(**options))


def fail(module, tmp_path, *passes: Pass, **options) -> PassError:
    with pytest.raises(PassError) as caught:
        run(module, *passes, reproducer_dir=tmp_path / "repro", **options)
    return caught.value


def names(module) -> list[str]:
    return [operation.operation.name for operation in find(module, "blu.*")]


def test_passes_run_in_order_on_a_copy(module):
    before = module_text(module)
    report = run_pipeline(module, DROPPING)
    assert names(report.module) == ["blu.negative", "blu.exp"] or names(report.module) == ["blu.exp"]
    assert module_text(module) == before
    assert [item.name for item in report.runs] == ["cse", "blu-toy-drop-negations", "canonicalize", "blu-check-level"]
    assert report.runs[1].statistics == {"pairs": 1}
    assert "cse" in report.timing() and "blu-toy-drop-negations: 1 pairs" in report.statistics()


def test_passes_that_only_look_are_given_no_copy(module, monkeypatch):
    copied: list[str] = []
    copy = driver.copy_module
    monkeypatch.setattr(driver, "copy_module", lambda given: copied.append(module_text(given)) or copy(given))
    before, check = module_text(module), CheckLevel(to="blu")
    run(module, check, CSE, check, CANONICALIZE, check)
    assert len(copied) == 3 and copied[0] == copied[1] == before == module_text(module)


def test_the_result_says_how_far_it_is(module):
    assert read_position(run_pipeline(module, DROPPING).module) == PipelinePosition("blu", 4)
    assert read_position(run(module, CSE).module) is None


def test_fail_names_pass_level_operation_and_line(module, tmp_path):
    error = fail(module, tmp_path, CSE, ToyComplain())
    assert error.location == f"{tmp_path}/model.mlir:6:10"
    assert (error.pass_name, error.level, error.operation) == ("blu-toy-complain", "blu", "blu.exp")
    assert "failed at level 'blu' on 'blu.exp': exponentials are not welcome" in error.message
    assert error.advice.startswith("use exp2")


def test_a_python_exception_is_chained_and_placed(module, tmp_path):
    error = fail(module, tmp_path, ToyRaise())
    assert isinstance(error.__cause__, KeyError)
    assert "KeyError: 'missing' (raised at toy_passes.py:" in error.message
    assert error.location == f"{tmp_path}/model.mlir:6:10"


def test_ir_that_does_not_verify_is_the_fault_of_the_pass_before(module, tmp_path):
    error = fail(module, tmp_path, ToyBreak(), CSE)
    assert "pass 'blu-toy-break' left IR that is wrong: 'func.func' op requires attribute 'sym_name'" in error.message
    assert error.location == f"{tmp_path}/model.mlir:3:3"


@pytest.fixture
def all_are_ours(monkeypatch):
    """Passes of these tests count as Blu's own."""
    monkeypatch.setattr(driver, "is_extended", lambda: False)
    monkeypatch.setattr(registry, "is_ours", lambda cls: True)


@pytest.mark.parametrize("after", [(), (CSE, CANONICALIZE), (CANONICALIZE, ToyRaise()), (ToyComplain(), CSE)])
def test_a_pass_that_is_not_verified_at_once_is_blamed_all_the_same(module, tmp_path, all_are_ours, after):
    """Though nothing is wrong but where the level ends, or another pass fails before that."""
    error = fail(module, tmp_path, CANONICALIZE, CSE, ToyBreak(), *after)
    assert "pass 'blu-toy-break' left IR that is wrong: 'func.func' op requires attribute 'sym_name'" in error.message
    reproducer = read_reproducer(next((tmp_path / "repro").iterdir()).read_text(), "x")
    assert reproducer is not None and reproducer.pipeline.startswith("blu-toy-break")
    assert len(list((tmp_path / "repro").iterdir())) == 1


def test_a_pass_that_fails_after_others_is_named_itself(module, tmp_path, all_are_ours):
    error = fail(module, tmp_path, CANONICALIZE, CSE, ToyRaise(), CSE)
    assert "pass 'blu-toy-raise' failed" in error.message and isinstance(error.__cause__, KeyError)


def test_a_failing_pass_leaves_the_module_as_it_was(module, tmp_path):
    before = module_text(module)
    fail(module, tmp_path, ToyBreak())
    assert module_text(module) == before


def test_the_reproducer_holds_the_ir_before_and_the_passes_left(module, tmp_path):
    error = fail(module, tmp_path, ToyDropNegations(), CANONICALIZE, ToyComplain(), CSE)
    text = Path(error.reproducer).read_text()
    assert str(error.reproducer) in error.advice
    header = read_reproducer(text, "x")
    assert header.pipeline == "blu-toy-complain,cse"
    assert "exponentials" in header.error and "torch-mlir" in header.versions
    again = parse_source(read_source(error.reproducer), make_context())
    assert len(names(again)) < len(names(module))
    with pytest.raises(PassError, match="exponentials are not welcome"):
        run(again, *parse_pipeline(header.pipeline), reproduce=False)


def test_a_reproducer_that_cannot_be_written_hides_nothing(module, tmp_path):
    (tmp_path / "repro").write_text("a file where the folder should be")
    error = fail(module, tmp_path, ToyComplain())
    assert "exponentials are not welcome" in error.message
    assert "no reproducer could be written" in error.advice and error.reproducer is None


def test_kept_operations_are_no_longer_valid(module, tmp_path):
    run(module, ToyKeep())
    assert len(toy_passes.KEPT) == 2
    with pytest.raises(RuntimeError, match="invalidated"):
        str(toy_passes.KEPT[0])
    error = fail(module, tmp_path, ToyKeep(), CANONICALIZE, ToyUseKept())
    assert "op no longer valid, used at toy_passes.py" in error.message
    assert "find operations anew" in error.advice


def test_operations_of_the_caller_stay_valid(module):
    mine = list(find(module, "blu.exp"))
    run(module, ToyKeep(), CANONICALIZE)
    assert "blu.exp" in str(mine[0])


def test_illegal_operations_name_the_missing_rule(module, tmp_path):
    pipeline = Pipeline("toy", (Stage("blu", (CSE,)), Stage("linalg", (CANONICALIZE,))))
    with pytest.raises(PassError) as caught:
        run_pipeline(module, pipeline, DriverOptions(reproducer_dir=tmp_path))
    assert "'blu.negative' is not legal at level 'linalg': no rule @lowers(Negative)" in caught.value.message
    assert caught.value.location == f"{tmp_path}/model.mlir:4:10"
    assert "blu-check-level" in Path(caught.value.reproducer).read_text()


def test_unknown_levels_are_refused():
    with pytest.raises(ParseError, match="there is no level 'lianlg'") as caught:
        Stage("lianlg", ())
    assert "did you mean 'linalg'" in caught.value.advice


def test_stopping_and_starting(module):
    pipeline = Pipeline("toy", (Stage("blu", (CSE, ToyDropNegations())), Stage("linalg", (CANONICALIZE,))))
    assert [step.name for step in pipeline.steps(stop="blu")] == ["cse", "blu-toy-drop-negations", "blu-check-level"]
    assert [step.name for step in pipeline.steps(stop="cse")] == ["cse"]
    assert [step.name for step in pipeline.steps(start="blu")] == ["blu-check-level", "canonicalize", "blu-check-level"]
    half = run_pipeline(module, pipeline.steps(stop="blu-toy-drop-negations")).module
    rest = pipeline.steps(start=read_position(half))
    assert [step.number for step in rest] == [3, 4, 5]
    with pytest.raises(ParseError, match="no level or pass 'canonicalise'") as caught:
        pipeline.steps(stop="canonicalise")
    assert "did you mean 'canonicalize'" in caught.value.advice
    with pytest.raises(ParseError, match="no level 'memref' to start from"):
        pipeline.steps(start="memref")


def test_plugins_are_inserted_beside_their_anchor(module, monkeypatch):
    placements = [registry.Placement(ToyDropNegations, "cse", True), registry.Placement(ToyKeep, "cse", False)]
    monkeypatch.setattr(registry, "placements", lambda: tuple(placements))
    pipeline = Pipeline("toy", (Stage("blu", (CSE, CANONICALIZE)),))
    expected = "blu-toy-keep,cse,blu-toy-drop-negations,canonicalize,blu-check-level{to=blu}"
    assert str(pipeline) == expected


def test_plugins_are_inserted_beside_plugins(monkeypatch):
    placements = [registry.Placement(ToyKeep, "blu-toy-drop-negations", True)]
    placements += [registry.Placement(ToyDropNegations, "cse", True)]
    monkeypatch.setattr(registry, "placements", lambda: tuple(placements))
    expected = "cse,blu-toy-drop-negations,blu-toy-keep,blu-check-level{to=blu}"
    assert str(Pipeline("toy", (Stage("blu", (CSE,)),))) == expected


@pytest.mark.parametrize("side", [True, False])
def test_a_place_beside_no_pass_is_refused_with_a_guess(monkeypatch, side):
    placements = [registry.Placement(ToyKeep, "blu-simplfy", side, "mine.py:3")]
    monkeypatch.setattr(registry, "placements", lambda: tuple(placements))
    sentence = f"mine.py:3: pass 'blu-toy-keep' is to run {'after' if side else 'before'} 'blu-simplfy'"
    for pipeline in (cpu.PIPELINE, sm90.PIPELINE):
        with pytest.raises(ParseError, match=sentence) as caught:
            pipeline.steps()
        assert "did you mean 'blu-simplify'?" in caught.value.advice


@pytest.mark.parametrize("anchor", ["blu-toy-keep", "blu-toy-drop-negations"])
def test_plugins_that_stand_beside_each_other_only_are_refused(monkeypatch, anchor):
    placements = [registry.Placement(ToyKeep, anchor, True)]
    placements += [registry.Placement(ToyDropNegations, "blu-toy-keep", True)]
    monkeypatch.setattr(registry, "placements", lambda: tuple(placements))
    with pytest.raises(ParseError, match="which no pipeline comes to"):
        cpu.PIPELINE.steps()


def test_a_plugin_of_no_level_is_refused(monkeypatch):
    wrong = SimpleNamespace(name="blu-odd", level="lianlg")
    monkeypatch.setattr(registry, "placements", lambda: (registry.Placement(wrong, "blu-simplify", True, "p.py:3"),))
    with pytest.raises(ParseError, match=r"p\.py:3: pass 'blu-odd' says level = 'lianlg'") as caught:
        check_placements(["blu-simplify"])
    assert "did you mean 'linalg'" in caught.value.advice
    with pytest.raises(TypeError, match="either after= or before="):
        registry.register_pass(after=3)


def test_a_place_in_another_targets_pipeline_is_no_mistake(monkeypatch):
    placements = (registry.Placement(ToyKeep, "blu-launch-batches", True),)
    monkeypatch.setattr(registry, "placements", lambda: placements)
    assert "blu-toy-keep" not in str(cpu.PIPELINE)
    assert "blu-launch-batches,blu-toy-keep" in str(sm90.PIPELINE)


def test_dumps_are_complete_and_continue(module, tmp_path):
    folder = tmp_path / "ir"
    whole = run_pipeline(module, DROPPING, DriverOptions(dump_dir=folder)).module
    manifest = json.loads((folder / "manifest.json").read_text())["passes"]
    files = [entry for entry in manifest if "file" in entry]
    assert [entry["name"] for entry in files] == ["input", "blu-toy-drop-negations", "canonicalize"]
    assert [entry["changed"] for entry in manifest[1:]] == [False, True, True, False]
    stems = ["000-input", "002-blu-toy-drop-negations", "003-canonicalize"]
    expected = {f"{stem}.mlir" for stem in stems} | {f"{stem}.diff" for stem in stems[1:]} | {"manifest.json"}
    assert {path.name for path in folder.iterdir()} == expected
    for entry in files:
        path = folder / entry["file"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"]
        again = parse_source(read_source(str(path)), make_context())
        rest = run_pipeline(again, DROPPING.steps(start=read_position(again) or None)).module
        assert module_text(rest) == module_text(whole)


def test_every_dump_of_the_cpu_pipeline_continues_to_the_same_result(module, tmp_path):
    with module.context:
        module.operation.attributes["blu.target"] = X86_64_V3.to_attribute()
    whole = run_pipeline(module, PIPELINE, DriverOptions(dump_dir=tmp_path)).module
    dumps = sorted(tmp_path.glob("0*.mlir"))
    assert len(dumps) > 5
    for dump in dumps:
        again = parse_source(read_source(str(dump)), make_context())
        rest = run_pipeline(again, PIPELINE.steps(start=read_position(again))).module
        # Text has no place for the locations of loop variables: everything else is the same.
        assert module_text(rest, locations=False) == module_text(whole, locations=False)


def test_a_second_dump_removes_the_first_only(module, tmp_path):
    folder = tmp_path / "ir"
    run(module, ToyDropNegations(), dump_dir=folder)
    (folder / "notes.txt").write_text("mine")
    run(module, CSE, dump_dir=folder)
    assert sorted(path.name for path in folder.iterdir()) == ["000-input.mlir", "manifest.json", "notes.txt"]


def test_printing(module, capsys):
    run(module, CSE, ToyDropNegations(), printing=PrintOptions(after_change=True))
    printed = capsys.readouterr().err
    assert "IR Dump After blu-toy-drop-negations" in printed and "After cse" not in printed
    run(module, CSE, ToyDropNegations(), printing=PrintOptions(before=("cse",)))
    assert capsys.readouterr().err.count("IR Dump Before cse") == 1


def test_printing_into_files(module, tmp_path):
    run(module, CSE, CANONICALIZE, printing=PrintOptions(after_all=True, tree_dir=tmp_path / "tree"))
    found = sorted(path.name for path in (tmp_path / "tree").iterdir())
    assert found == ["001-after-cse.mlir", "002-after-canonicalize.mlir"]


def test_compare_and_progress_are_called_for_each_pass(module, tmp_path):
    seen = []
    run(module, CSE, CANONICALIZE, compare=lambda ir, step: seen.append(step.name), on_pass=lambda s: seen.append(s))
    assert [getattr(item, "name", item) for item in seen] == ["cse", "cse", "canonicalize", "canonicalize"]

    def differ(result, step):
        raise ValueError("numbers differ")

    error = fail(module, tmp_path, CSE, compare=differ)
    assert "pass 'cse' left IR that is wrong: ValueError: numbers differ" in error.message


FATAL = '''
import ctypes, time
from blu.passes.framework.base import Pass

class ToyCrash(Pass):
    """Reads address 0.

    IR -> end of the process
    """

    level = "blu"

    def run(self, module):
        ctypes.string_at(0)

class ToyHang(Pass):
    """Waits.

    IR -> nothing
    """

    def run(self, module):
        while True:
            time.sleep(0.1)
'''


@pytest.fixture
def fatal(tmp_path):
    path = tmp_path / f"fatal_{tmp_path.name}.py"
    path.write_text(FATAL)
    return registry.load_pass_file(path)


def test_isolated_passes_give_the_same_module(module):
    steps = Pipeline("mlir", (Stage("blu", (CSE, CANONICALIZE)),)).steps()
    inside = run_pipeline(module, steps)
    outside = run_pipeline(module, steps, DriverOptions(isolate=True, pass_timeout=120))
    assert module_text(outside.module) == module_text(inside.module)
    assert [item.name for item in outside.runs] == [item.name for item in inside.runs]


def test_a_crash_in_isolation_is_an_error(module, tmp_path, fatal):
    error = fail(module, tmp_path, CSE, fatal[0](), isolate=True, pass_timeout=120)
    assert "pass 'blu-toy-crash' at level 'blu' crashed with SIGSEGV" in error.message
    header = read_reproducer(Path(error.reproducer).read_text(), "x")
    assert header.pipeline == "blu-toy-crash"
    assert header.load_pass == (str(registry.loaded_files()[0]),)


def test_a_hang_in_isolation_is_an_error(module, tmp_path, fatal):
    error = fail(module, tmp_path, fatal[1](), CSE, isolate=True, pass_timeout=1)
    assert "pass 'blu-toy-hang' did not end within 1 s" in error.message
    assert read_reproducer(Path(error.reproducer).read_text(), "x").pipeline == "blu-toy-hang,cse"


def test_an_error_in_isolation_arrives_whole(module, tmp_path):
    error = fail(module, tmp_path, parse_pipeline("blu-check-level{to=llvm}")[0], isolate=True, pass_timeout=120)
    assert (error.pass_name, error.operation) == ("blu-check-level", "func.func")
    assert Path(error.reproducer).exists()


def test_isolation_needs_passes_that_a_child_can_import(module):
    with pytest.raises(UnsupportedError, match=r"'blu-toy-keep' is defined in tests\.support\.programs\.toy_passes"):
        run(module, ToyKeep(), isolate=True)


def test_what_is_wrong_with_a_whole_file_is_placed_at_its_start(tmp_path):
    (tmp_path / "x.mlir").write_text("func.func private @f()\nfunc.func private @g()\n")
    module = parse_source(read_source(str(tmp_path / "x.mlir")), make_context())
    error = fail(module, tmp_path, parse_pipeline("blu-check-level{to=blu}")[0])
    assert error.location == f"{tmp_path / 'x.mlir'}:1:1"
