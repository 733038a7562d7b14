"""The tools that check GPU programs on a machine without a compiler: packing here, checking there (on a fake GPU)."""

from __future__ import annotations

import importlib
import json
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import assemble, find_ptxas
from blu.compiler.codegen.ptx_stores import check_stores
from blu.dialects.core.context import make_context
from blu.dialects.core.op import OPS
from blu.runtime import Artifact
from blu.runtime.cuda.driver import driver as drivers
from tests.support.folders import ROOT
from tests.support.programs.fake_cuda import FakeDriver, view


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The tools, imported as when they are run."""
    for folder in (ROOT, ROOT / "bench", ROOT / "bench" / "gpu"):
        monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(blu, "__path__", list(blu.__path__))
    before = set(sys.modules)
    names = ("pack", "gpu_check", *(f"bench.gpu.{name}" for name in ("stored", "case", "processes", "faults")))
    yield {name: importlib.import_module(name) for name in names}
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("bench", "pack", "gpu_check", "checkout"):
            del sys.modules[name]


def _double(threads: int, source: int, target: int) -> None:
    view(target, 12, np.float32)[:] = 2 * view(source, 12, np.float32)


def _triple(threads: int, source: int, target: int) -> None:
    view(target, 12, np.float32)[:] = 3 * view(source, 12, np.float32)


@pytest.fixture
def packed(tools: dict[str, ModuleType], tmp_path: Path) -> Path:
    """A folder of a case that compiles, and one that does not."""
    case = tools["bench.gpu.case"].Case
    cases = [
        case("double (3, 4)", lambda x: x * 2.0, (blu.spec((3, 4)),), 1e-6, scale=0.5),
        case("no shape", lambda x: blu.reshape(x, (5,)), (np.ones((3, 4), np.float32),), 0.0),
    ]
    packer = tools["pack"].Packer("sm_90a", tmp_path, "these sources")
    entries = [packer.pack(item) for item in cases]
    tools["bench.gpu.stored"].save_index(tmp_path, entries)
    return tmp_path


def test_every_op_is_checked_with_rows_of_all_lengths(tools):
    make_context()
    lengths = importlib.import_module("bench.gpu.check_lengths")
    # Made from nothing, without a kernel, or with cases of their own; einsum becomes matmul.
    others = {"iota", "constant", "random_bits", "barrier", "refused_gradient", "stop_gradient", "einsum"}
    others |= {"attention", "attention_piece", "attention_gradient"}
    others |= {"convolution", "max_pool"}  # decomposed: products, and what others have kernels for
    others |= {"max_pool_place", "max_pool_gradient"}  # windows have sizes of their own
    others |= {name for name, cls in OPS.items() if cls.host_step or cls.region_fields()}  # made of others' kernels
    assert {name for name, cls in OPS.items() if cls.__module__.startswith("blu.")} == others | set(lengths.LONGER)
    sample = next(sample for sample in OPS["sum"].samples() if sample.operands[0].size)
    longer = [lengths.LONGER["sum"](sample, length) for length in lengths.LENGTHS]
    assert [item.operands[0].shape for item in longer] == [(3, length) for length in (1, 31, 33, 65, 257, 1025, 5000)]


def _double_and_one(threads: int, source: int, target: int) -> None:
    view(target, 13, np.float32)[:] = 2 * view(source, 13, np.float32)


def _double_all_but_one(threads: int, source: int, target: int) -> None:
    view(target, 11, np.float32)[:] = 2 * view(source, 11, np.float32)


def _double_and_clear(threads: int, source: int, target: int) -> None:
    _double(threads, source, target)
    view(source, 12, np.float32)[:] = 0


@pytest.mark.parametrize(
    ("kernel", "failure"),
    [
        (_double, ""),
        (_triple, "wrong"),
        (_double_and_one, "writes behind result 0"),
        (_double_all_but_one, "not the same bits"),
        (_double_and_clear, "writes to argument 0"),
    ],
)
def test_a_case_is_packed_and_checked(tools, packed, kernel, failure):
    plan = json.loads((packed / "cases.json").read_text())
    assert [entry["name"] for entry in plan] == ["double (3, 4)", "no shape"] and "reshape" in plan[1]["failure"]
    case, broken = tools["bench.gpu.stored"].load_index(packed)
    names = Artifact.open(packed / f"{case.program}.blu").names()
    driver = FakeDriver({name.partition(".")[0]: kernel for name in names})
    drivers.use_driver(driver)
    found = tools["gpu_check"].check(case, packed, repeats=2)
    drivers.use_driver(None)
    assert found["failure"] == failure and found["launches"] == 1
    assert failure != "wrong" or (found["same"] and found["error"] == pytest.approx(0.5))
    assert failure or (found["same"] and found["error"] == 0.0)
    assert found["gpu"] == 1.5 and found["kernels"][0][1:] == (1, 1.5)
    assert tools["gpu_check"].check(broken, packed, 2)["failure"].startswith("not compiled")


def test_shapes_are_drawn_by_a_seed(tools):
    pack, stored = tools["pack"], tools["bench.gpu.stored"]
    names = {seed: [case.name for case in pack.all_cases(seed)] for seed in (1, 2)}
    assert names[1] == [case.name for case in pack.all_cases(1)] and len(names[1]) == len(set(names[1])) > 500
    assert not set(names[1]) & set(names[2])
    for kind in ("sorts", "columns"):
        case = next(case for case in pack.all_cases(1) if f" {kind} 0" in case.name)
        compiled = blu.jit(case.function).trace(*case.arguments).compile("cpu")
        pairs = zip(compiled.program.run([item.copy() for item in case.arguments]), case.reference(), strict=True)
        assert all(stored.relative_error(np.asarray(a), np.asarray(b)) <= case.relative_error for a, b in pairs)


def test_what_is_packed_is_used_again(tools, packed, monkeypatch):
    case = tools["bench.gpu.case"].Case("double again", lambda x: x * 2.0, (blu.spec((3, 4)),), 1e-6, scale=0.5)
    before = {path: path.stat().st_mtime_ns for path in packed.iterdir()}
    first = tools["bench.gpu.stored"].load_index(packed)[0]
    found = tools["pack"].Packer("sm_90a", packed, "these sources").pack(case)
    assert (found.program, found.values, found.bounds) == (first.program, first.values, [1e-6])
    assert before == {path: path.stat().st_mtime_ns for path in packed.iterdir()}
    other = tools["pack"].Packer("sm_90a", packed, "other sources").pack(case)
    assert other.program != first.program and other.values == first.values
    tools["pack"].Packer("sm_90a", packed, "").tidy([other])
    assert {path.stem for path in packed.iterdir()} == {"cases", other.program, other.values}


def test_results_have_bounds_by_their_dtypes(tools):
    case, stored = tools["bench.gpu.case"].Case, tools["bench.gpu.stored"]
    both = case("both", lambda: None, (), {"f32": 1e-6, "bf16": 1e-2})
    assert [both.bound(dtype) for dtype in ("f32", "bf16", "i32")] == [1e-6, 1e-2, 0.0]
    entry = stored.StoredCase("both", bounds=[0.5, 0.1], steps=[1, 1], finite=[1, 1])
    arrays = {"result0": np.array([1.0]), "result1": np.array([1.0])}
    assert stored.largest_error(entry, [np.array([1.25]), np.array([1.0625])], arrays) == (0.0625, 0.1)
    assert stored.largest_error(entry, [np.array([1.25]), np.array([np.nan])], arrays)[0] == math.inf


def test_planted_faults_are_programs_that_assemble(tools, tmp_path):
    faults = tools["bench.gpu.faults"]
    entries = faults.write_faults(tmp_path)
    assert [entry.name for entry in entries] == [*(fault.name for fault in faults.FAULTS), "no fault"]
    assert sorted(fault.tool for fault in faults.FAULTS) == sorted(tools["gpu_check"].TOOLS)
    assert Artifact.open(tmp_path / "fault0.blu").names()
    for fault in (*faults.FAULTS, faults.SOUND):
        check_stores(fault.ptx, fault.name)
    if find_ptxas() is not None:
        assemble({str(number): fault.ptx for number, fault in enumerate((*faults.FAULTS, faults.SOUND))}, "sm_90a")


def test_arrays_are_stored_with_their_dtypes(tools, tmp_path):
    stored = tools["bench.gpu.stored"]
    arrays = {"a": np.ones(3, ml_dtypes.bfloat16), "b:c": np.zeros((2, 2), bool), "d": np.array(7, np.int64)}
    stored.save_arrays(tmp_path / "x.npz", arrays)
    for name, array in stored.load_arrays(tmp_path / "x.npz").items():
        assert array.dtype == arrays[name].dtype and np.array_equal(array, arrays[name])
    assert stored.draw(3, [2], "bf16", 0.5).tolist() == stored.draw(3, [2], "bf16", 0.5).tolist()
    assert stored.sample_step(10) == 1 and stored.sample_step(1 << 20) == 65
    assert stored.finite_count(np.array([1, np.nan, np.inf])) == 1 and stored.finite_count(np.arange(3)) == 3


def test_only_large_normal_arrays_are_drawn_again(tools):
    random, scale_of = np.random.default_rng(0), tools["pack"]._scale_of
    normal = random.standard_normal((300, 400), dtype=np.float32)
    assert scale_of(normal * 3) == pytest.approx(3, rel=0.02)
    assert scale_of(normal.astype(ml_dtypes.bfloat16)[:20]) is None  # small
    assert scale_of(np.concatenate([normal, normal]).astype(ml_dtypes.bfloat16)) == pytest.approx(1, rel=0.02)
    for other in (normal + 1, np.abs(normal), np.zeros_like(normal), normal.cumsum(), np.where(normal > 2, np.nan, 1)):
        assert scale_of(other) is None
    assert scale_of(random.random((300, 400)) - 0.5) is None
    assert scale_of(np.ones((300, 400), np.int32)) is None


@pytest.mark.parametrize(
    ("found", "expected", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([1.0, np.nan], [1.0, 2.0], math.inf),
        ([np.nan, 2.0], [np.nan, 2.0], 0.0),
        ([np.inf, 2.0], [-np.inf, 2.0], math.inf),
        ([0.25], [0.0], 0.25),
        ([], [], 0.0),
    ],
)
def test_relative_errors(tools, found, expected, error):
    stored = tools["bench.gpu.stored"]
    assert stored.relative_error(np.array(found), np.array(expected)) == error
    assert stored.relative_error(np.array([1, 2]), np.array([1, 3])) == math.inf


CHILD = """
import json, os, sys
names = sys.argv[sys.argv.index("--run") + 1:]
for name in names:
    if name == "crash":
        print("the last words", flush=True)
        os._exit(7)
    if name == "found":
        print("========= Invalid __global__ read of size 4 bytes", flush=True)
    print(json.dumps({"name": name, "failure": "lost" if name == "lost" else ""}), flush=True)
    if name == "lost":
        os._exit(3)
print("========= ERROR SUMMARY: 0 errors")
"""


def test_a_case_that_ends_its_process_does_not_end_the_others(tools):
    names = ["a", "crash", "b", "lost", "c", "found", "d"]
    reported: list[str] = []
    runner = tools["bench.gpu.processes"].Runner(
        [sys.executable, "-c", CHILD], len(names), report=lambda found: reported.append(found["name"])
    )
    results = runner.run(names)
    assert reported == names
    assert [result["name"] for result in results] == names
    failures = [result["failure"] for result in results]
    assert failures[0] == failures[2] == failures[4] == failures[6] == ""
    assert failures[1] == "the process ended with 7: the last words" and failures[3] == "lost"
    assert "Invalid __global__ read" in failures[5]


def test_findings_are_those_of_the_case_that_has_them(tools):
    """They may come after the last case: each case of such a process runs again alone."""
    names = ["a", "b", "late", "c", "d"]
    child = CHILD.replace("names = sys.argv", 'late = "late" in sys.argv; names = sys.argv') + (
        'if late:\n    print("========= Race reported")\n'
    )
    results = tools["bench.gpu.processes"].Runner([sys.executable, "-c", child], 3, jobs=2).run(names)
    assert [result["name"] for result in results] == names
    assert [result["name"] for result in results if result["failure"]] == ["late"]


def test_a_summary_says_what_is_wrong_and_what_nearly_is(tools):
    found = [{"name": f"{number}", "error": number / 8, "bound": 2.0, "failure": ""} for number in range(12)]
    results = {"results": [*found, {"name": "bad", "failure": "wrong"}], "memcheck": found[:2]}
    summary = tools["gpu_check"].summary_of(results)
    assert summary["results"] == {"cases": 13, "right": 12} and summary["memcheck"] == {"cases": 2, "right": 2}
    assert summary["failures"] == {"bad": "wrong"} and len(summary["errors by their bounds"]) == 10
    assert next(iter(summary["errors by their bounds"].items())) == ("11", 0.688)


SANITIZER = """
import json, sys
tool = sys.argv[1]
for name in sys.argv[sys.argv.index("--run") + 1:]:
    if (tool, name) == ("memcheck", "out-of-bounds write"):
        print("========= Invalid __global__ write of size 4 bytes")
    if (tool, name) == ("racecheck", "double (3, 4)"):
        print("========= Race reported")
    print(json.dumps({"name": name, "failure": ""}), flush=True)
"""


def test_a_tool_must_report_the_fault_that_is_planted_for_it(tools, packed, tmp_path, monkeypatch):
    """A tool that finds its fault and nothing else, and one that does the contrary."""
    check, report = tools["gpu_check"], tmp_path / "report.json"
    monkeypatch.setattr(check, "_sanitizer", lambda tool: [sys.executable, "-c", SANITIZER, tool])
    monkeypatch.setenv("BLU_CUDA_POOL", "1")
    failed = []
    for tool in ("memcheck", "racecheck"):
        options = ["--tool", tool, "--only", "double", "--jobs", "2", "--json", str(report)]
        monkeypatch.setattr(sys, "argv", ["gpu_check.py", str(packed), *options])
        failed.append(check.main())
        assert os.environ["BLU_CUDA_POOL"] == "0", "memcheck knows the bounds of what is not pooled"
        found = json.loads(report.read_text())
        failed += [bool(item["failure"]) for item in (*found["planted faults"], *found[tool])]
    assert failed == [0, False, False, False, 1, True, False, True]


def test_what_was_measured_is_kept_when_a_run_is_cut(tools, tmp_path, monkeypatch):
    run = importlib.import_module("bench.gpu.packed").run
    problems = [SimpleNamespace(name=name, path=tmp_path / f"{name}.blu") for name in ("one", "two", "three")]
    for problem in (problems[0], problems[2]):
        problem.path.touch()

    def measure(problem: SimpleNamespace) -> dict[str, object]:
        if problem.name == "three":
            raise KeyboardInterrupt
        return {"problem": problem.name, "right": True}

    save = tmp_path / "report.json"
    monkeypatch.setattr(sys, "argv", ["bench", "--save", f"{save}"])
    with pytest.raises(KeyboardInterrupt):
        run("", tmp_path, problems, str, measure, lambda rows: {"rows": rows})
    assert json.loads(save.read_text()) == {"rows": [{"problem": "one", "right": True}], "not packed": ["two"]}
    monkeypatch.setattr(sys, "argv", ["bench", "--only", "one|two"])
    assert run("", tmp_path, problems, str, measure, lambda rows: {}) == 1
    monkeypatch.setattr(sys, "argv", ["bench", "--only", "one"])
    assert run("", tmp_path, problems, str, measure, lambda rows: {}) == 0
