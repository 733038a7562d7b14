"""Schedules in the IR: chosen, given by others, and refused where they do not fit; those of products on GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import blu
from blu.compiler.cli import compile as compile_command
from blu.compiler.jit import Traced
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.errors import PassError
from blu.passes.framework.base import Pass
from blu.passes.framework.kernels import kernels_in
from blu.passes.gpu.gemm import schedule as kinds
from blu.passes.gpu.lower.choose_schedules import ChooseSchedules
from blu.passes.gpu.lower.emit_kernels import EmitGpuKernels
from blu.passes.gpu.lower.fit_schedules import FitSchedules
from blu.passes.gpu.lower.scratch import ReserveGpuScratch
from blu.passes.gpu.lower.split_products import SplitProducts
from blu.passes.kernels.schedules import Fields, wish_for
from tests.support.folders import ROOT
from tests.support.kernels.gpu_program import compile_program

DEEP = ((64, 4096), (4096, 64))


def traced(*shapes: Sequence[int], dtype: str = "bf16") -> Traced:
    """A product, and a kernel that is none."""
    return blu.jit(lambda x, y: blu.exp(x @ y).sum()).trace(*(blu.spec(tuple(shape), dtype) for shape in shapes))


def refusal(fields: Fields, *shapes: Sequence[int], target: str = "sm_90a", dtype: str = "bf16") -> PassError:
    """The error of a product that is wished to be emitted so."""
    program = traced(*(shapes or DEEP), dtype=dtype)
    wish_for(program.traced.module, {"gemm_0": fields})
    with pytest.raises(PassError) as caught:
        program.lower(target, stop="blu-fit-schedules")
    return caught.value


def text_at(stop: str, target: str = "sm_90a", **schedules: Fields) -> str:
    program = traced(*DEEP)
    if schedules:
        wish_for(program.traced.module, schedules)
    return program.lower(target, stop=stop).text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"kind": "wgmna"}, "there is no kind of schedule 'wgmna'\n  did you mean 'wgmma'?"),
        ({"kind": "mma", "stagse": 3}, "of kind 'mma' has no field 'stagse'\n  did you mean 'stages'?"),
        ({"stages": 3}, "of kind 'product' has no field 'stages'"),
        ({"rows": 64}, "a tile is that of one kind of kernel\n  Give 'kind'"),
        ({"split": "two"}, "'split' of a schedule is a number, not 'two'"),
        ({"instruction": 16}, "instruction '16' does not multiply what is here: bf16 does"),
        ({"split": 0}, "'split' of a schedule is at least 1, not 0"),
        ({"split": 65}, "split = 65: k of 4096 has 64 steps of 128 bytes to share"),
        ({"instruction": "f16"}, "instruction 'f16' does not multiply what is here: bf16 does"),
        ({"kind": "wgmma", "rows": 96}, "rows = 96: tiles of warpgroups have 64 rows, or 128"),
        ({"kind": "wgmma", "columns": 200}, "a multiple of 64 columns, 256 at most"),
        ({"kind": "wgmma", "columns": 320}, "a multiple of 64 columns, 256 at most"),
        ({"kind": "wgmma", "columns": 256}, "takes 256 registers of each thread, of at most 192"),
        ({"kind": "wgmma", "registers": "both"}, "registers = 'both': it is the left factor that goes through them"),
        ({"kind": "wgmma", "registers": "left"}, "products of bf16 read factors in any order"),
        ({"kind": "wgmma", "sums": "kept"}, "sums = 'kept': sums are 'staged', 'held', 'boxed'"),
        ({"kind": "product", "copied": "all"}, "copied = 'all': it is undecided, none, left, right, both"),
        ({"kind": "wgmma", "copied": "left"}, "a factor is copied where its neighbours do not lie along k"),
        ({"kind": "wgmma", "stages": 1}, "stages = 1: one stage is filled while another is multiplied"),
        (
            {"kind": "wgmma", "stages": 6},
            "6 stages of tiles of 128 x 192 take 286848 bytes of shared memory, and a block on sm_90a has 232448",
        ),
        ({"kind": "mma", "rows": 96}, "there is no tile of 96 x 64: tiles are 128 x 128, 64 x 128"),
        ({"kind": "mma", "warp_rows": 16}, "a warp's tile is of 32 or 64, not of 16 x 32"),
        ({"kind": "mma", "warp_rows": 64}, "warps of 64 x 32 leave a block 64 threads: it takes 128 to copy its tiles"),
        ({"kind": "simt"}, "threads multiply f32 on their own, not bf16"),
        ({"kind": "few_rows"}, "kind 'few_rows' takes at most 4 rows"),
        ({"kind": "strips"}, "kind 'strips' takes at most 32 rows of halves"),
    ],
)
def test_a_schedule_that_does_not_fit_is_refused(fields: Fields, message: str) -> None:
    error = refusal(fields)
    assert message in str(error) and "the schedule of kernel 'gemm_0': " in error.message
    assert re.match(r".*test_schedules\.py:\d+", error.location or "")


@pytest.mark.parametrize(
    ("fields", "message", "target", "dtype"),
    [
        ({"kind": "product", "copied": "left"}, "factors are turned around for warpgroups", "sm_80", "f32"),
        ({"kind": "wgmma"}, "sm_80 has no warpgroup products", "sm_80", "bf16"),
        ({"kind": "wgmma"}, "warpgroups multiply bf16, f16, tf32, fp8, fp8_fast, not 3xtf32", "sm_90a", "f32"),
        ({"kind": "simt", "rows": 128, "columns": 128}, "a block on sm_89 has 101376", "sm_89", "f32"),
        ({"kind": "mma", "instruction": "f32"}, "cores multiply bf16, f16, tf32, 3xtf32, not f32", "sm_80", "f32"),
        ({"kind": "mma"}, "tiles of kind 'mma' do not multiply what is here: only loops do", "sm_80", "f64"),
    ],
)
def test_what_a_target_or_a_dtype_lacks_is_said(fields: Fields, message: str, target: str, dtype: str) -> None:
    assert message in refusal(fields, target=target, dtype=dtype).message


@pytest.mark.parametrize(
    ("fields", "shapes", "message"),
    [
        ({"kind": "wgmma"}, ((64, 4095), (4095, 64)), "rows that begin at multiples of 16 bytes"),
        ({"kind": "wgmma", "sums": "held"}, ((64, 64), (64, 66)), "rows that begin at multiples of 16 bytes"),
        ({"kind": "wgmma"}, ((64, 32), (32, 64)), "k is at least 64, not 32"),
        ({"kind": "few_rows", "columns": 24}, ((2, 64), (64, 64)), "columns = 24: blocks have 16, 32, 64, 128"),
        ({"kind": "strips", "columns": 24}, ((2, 64), (64, 64)), "columns = 24: strips have 16, 32, 64"),
        (
            {"kind": "strips", "columns": 16, "warps": 4},
            ((2, 64), (64, 64)),
            "warps = 4: blocks of strips have 8 or 16",
        ),
    ],
)
def test_what_strides_do_not_allow_is_said(fields: Fields, shapes: Sequence, message: str) -> None:
    assert message in refusal(fields, *shapes).message


def test_wishes_for_what_has_no_schedule_are_refused() -> None:
    with pytest.raises(PassError, match=r"for 'gemm_1', which is no kernel\n  did you mean 'gemm_0'\?"):
        text_at("blu-choose-schedules", gemm_1={"split": 2})
    specs = [blu.spec((4, 9), "i32"), blu.spec((1, 9), "i32"), blu.spec((), "i32")]
    program = blu.jit(lambda x, y, row: blu.dynamic_update_slice(x, y, (row, 0))).trace(*specs)
    wish_for(program.traced.module, {"update_0": {"split": 2}})
    message = "kernel 'update_0' has no schedule: there is one way to write kernels of the family 'update'"
    with pytest.raises(PassError, match=message):
        program.lower("sm_90a", stop="blu-choose-schedules")


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ("7 : i64", "blu.schedules = 7 : i64 is no dictionary of kernels' names"),
        ("{gemm_0 = 7 : i64}", "7 : i64 is no schedule, which is a dictionary"),
        ("{gemm_0 = {split}}", "'split' of a schedule is a number or a string, not unit"),
        ("{gemm_0 = {split = true}}", "'split' of a schedule is a number or a string, not true"),
    ],
)
def test_wishes_of_another_form_are_refused(wishes: str, message: str) -> None:
    program = traced(*DEEP)
    attributes = program.traced.module.operation.attributes
    attributes["blu.schedules"] = ir.Attribute.parse(wishes, program.traced.module.context)
    with pytest.raises(PassError, match=re.escape(message)):
        program.lower("sm_90a", stop="blu-choose-schedules")


@pytest.mark.parametrize("split", [1, 2, 5, 64])
def test_k_is_split_as_often_as_is_wished(split: int) -> None:
    """64 parts have one step of k each, 5 have 13 but for the last."""
    random = np.random.default_rng(0)
    left, right = (random.standard_normal(shape, np.float32) for shape in ((8, 2048), (2048, 8)))
    wish: Fields = {"kind": "simt", "rows": 64, "columns": 64, "split": split}
    program = compile_program(lambda x, y: x @ y, left, right, target="sm_80", schedules={"gemm_0": wish})
    (launch, *_) = program.plan["launches"]
    assert launch["grid"][0] == split and len(program.plan["launches"]) == (1 if split == 1 else 2)
    np.testing.assert_allclose(program.interpret(left, right)[0], left.astype(np.float64) @ right, atol=1e-4)


def test_a_schedule_is_read_back_as_it_was_written() -> None:
    with make_context(), ir.Location.unknown():
        for schedule in (kinds.WgmmaSchedule("f16", stages=3), kinds.MmaSchedule("tf32", 64), kinds.LoopsSchedule()):
            module = ir.Module.parse('func.func private @gemm_0() attributes {blu.kernel = "gemm"}')
            (kernel,) = kernels_in(module).values()
            kernel.attributes["blu.schedule"] = schedule.to_attribute()
            assert kinds.schedule_of(kernel) == schedule


@pytest.mark.parametrize("pass_", [SplitProducts(), ReserveGpuScratch()])
def test_passes_that_read_schedules_name_who_chooses(pass_: Pass) -> None:
    module = unscheduled("linalg", "blu.schedule")
    with module.context, pytest.raises(PassError, match=r"'gemm_0' has no blu.schedule\n  blu-choose-schedules"):
        pass_.run(module)


def test_an_emitter_does_not_choose() -> None:
    for stop, message in (("linalg", "has no blu.schedule"), ("memref", r"of kind 'product'.*\n  blu-fit-schedules")):
        module = unscheduled(stop, "nothing")
        with module.context, ir.Location.unknown(), pytest.raises(PassError, match=message):
            EmitGpuKernels().run(module)


def unscheduled(stop: str, attribute: str) -> ir.Module:
    """A product at a level, without an attribute of its kernel."""
    module = traced(*DEEP).lower("sm_90a", stop=stop).module
    for kernel in kernels_in(module).values():
        if attribute in kernel.attributes:
            del kernel.attributes[attribute]
    return module


def test_memory_for_other_parts_is_refused() -> None:
    module = traced(*DEEP).lower("sm_80", stop="memref").module
    kernel = kernels_in(module)["gemm_0"]
    with module.context, ir.Location.unknown():
        kernel.attributes["blu.schedule"] = kinds.MmaSchedule("bf16", split=2).to_attribute()
        with pytest.raises(PassError, match=r"split = 2 takes memory of memref<2x64x64xf32> for parts, .* has memref<"):
            FitSchedules().run(module)


def test_choosing_twice_changes_nothing() -> None:
    program = traced(*DEEP).lower("sm_90a", stop="blu-choose-schedules")
    once = program.text
    with program.module.context, ir.Location.unknown():
        ChooseSchedules().run(program.module)
    assert program.text == once


MODEL = """
import blu

def product(x: blu.spec((64, 4096), "bf16"), y: blu.spec((4096, 64), "bf16")):
    return x @ y
"""


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", '{"gemm_0": {"split": 7}}'), ("a.toml", "[gemm_0]\nsplit = 7\n")]
)
def test_schedules_come_from_a_file(tmp_path: Path, monkeypatch, capfd, name: str, text: str) -> None:
    said = compile_with(tmp_path, monkeypatch, capfd, name, text)
    assert said[0] == 0 and "split = 7 : i64" in said[1] and "blu.schedules" not in said[1]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "{", "a.json is neither JSON"),
        ("a.toml", "gemm_0 = 7", "a.toml does not say fields"),
        ("a.json", '{"gemm_0": {"split": true}}', "a.json does not say fields"),
        ("a.json", '{"gem_0": {"split": 2}}', "for 'gem_0', which is no kernel"),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path, monkeypatch, capfd, name: str, text: str, message: str) -> None:
    code, _, error = compile_with(tmp_path, monkeypatch, capfd, name, text)
    assert code in (1, 2) and message in error and "Traceback" not in error


def test_schedules_that_no_pass_reads_are_refused(tmp_path, monkeypatch, capfd) -> None:
    code, _, error = compile_with(tmp_path, monkeypatch, capfd, "a.json", "{}", stop="linalg")
    assert code == 2 and "--schedules=a.json has no effect on these passes" in error


def test_a_model_is_not_run_by_schedules_of_one_program(capfd) -> None:
    assert compile_command.main(["gpt2-demo", "--run", "--schedules=a.json"]) == 2
    assert "--run (or --logits) and --schedules do not go together" in capfd.readouterr().err


def test_a_kernel_by_hand_without_memory_for_parts_is_not_split() -> None:
    """At level memref nobody can give it any."""
    module = unscheduled("memref", "blu.schedule")
    kernel = kernels_in(module)["gemm_0"]
    with module.context, ir.Location.unknown():
        with pytest.raises(PassError, match=r"'gemm_0' has no blu.schedule"):
            FitSchedules().run(module)
        del kernel.attributes["blu.scratch"]
        FitSchedules().run(module)
        assert kinds.parts_of(kinds.schedule_of(kernel)) == 1


def compile_with(tmp_path, monkeypatch, capfd, name: str, text: str, stop: str = "memref") -> tuple[int, str, str]:
    """Exit code, output and errors of blu-compile with a file of schedules."""
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)
    Path(name).write_text(text)
    flags = ["--target=sm_90a", f"--schedules={name}", f"--compile-to={stop}"]
    code = compile_command.main(["model.py::product", *flags])
    said = capfd.readouterr()
    return code, said.out, said.err


def test_emitters_do_not_ask_those_who_choose() -> None:
    """Only the tables of families know these modules, what decides before they do, and they know each other."""
    names = "(?:choice|scheduling|limits)"
    choosing = re.compile(rf"^from blu\.passes\.(?:\w+\.)*(?:{names} import|\w+ import .*\b{names}\b)", re.MULTILINE)
    passes = ROOT / "passes"
    found = {path.stem for path in passes.rglob("*.py") if choosing.search(path.read_text())}
    assert "families" in found and found <= {
        "families",
        "choice",
        "scheduling",
        "limits",
        "product_sums",
        "split_column_sums",
        "copy_factors",
        "gradient",
        "gradients_in_products",
        "keep_logarithms",
        "normalize_in_products",
        "sum_rows_in_products",
        "views",
    }
