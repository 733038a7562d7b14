"""`blu tune`: what is tried, kept and refused, and that programs are compiled by its tables."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blu
from blu import nn
from blu.compiler.cli.main import main
from blu.compiler.codegen.worker_pool import WorkerPool
from blu.compiler.target import host_target_name
from blu.compiler.tuning.candidate import ScheduleCandidate, difference
from blu.compiler.tuning.compiling import CandidateCompiler, CompiledCandidate, WantedCandidate
from blu.compiler.tuning.distance import FLOATS, distance
from blu.compiler.tuning.problem import KernelProblem, problems_of
from blu.compiler.tuning.rounds import SearchRounds
from blu.compiler.tuning.search import ScheduleSearch, SearchResult
from blu.compiler.tuning.table import TunedSchedule, read_table, write_table
from blu.dialects.targets.nvidia import TARGETS
from blu.errors import BluError, SettingError, TunedScheduleWarning
from blu.passes.framework.families import SCHEDULE, family_of
from blu.passes.framework.kernels import kernels_in
from blu.passes.gpu.gemm.scheduling import neighbours
from blu.passes.kernels.schedules import around, read_fields
from blu.plan.tensors import DTYPES

FILE = """
import blu

def f(x: blu.spec((40, 96), "f32"), w: blu.spec((96, 70), "f32")):
    return blu.softmax(x @ w, axis=-1)
"""
BLOCKS = 3
"""What no rule chooses."""
TILES = {"kind": "tiles", "claim": BLOCKS}


def f(x: Any, w: Any) -> Any:
    return blu.softmax(x @ w, axis=-1)


def traced() -> Any:
    return blu.jit(f).trace(blu.spec((40, 96), "f32"), blu.spec((96, 70), "f32"))


def by_family(program: Any, target: str) -> dict[str, list[KernelProblem]]:
    found: dict[str, list[KernelProblem]] = {}
    for item in problems_of(program.with_target(TARGETS[target])):
        found.setdefault(item.family, []).append(item)
    return found


def schedules_in(module: Any) -> dict[str, list[dict]]:
    """The schedules of a module's kernels, by families."""
    found: dict[str, list[dict]] = {}
    with module.context:
        for kernel in kernels_in(module).values():
            if SCHEDULE in kernel.attributes:
                found.setdefault(family_of(kernel).name, []).append(read_fields(kernel.attributes[SCHEDULE]))
    return found


@pytest.fixture
def product() -> KernelProblem:
    return by_family(traced(), host_target_name())["gemm"][0]


@pytest.fixture(scope="module")
def compiler() -> Iterator[CandidateCompiler]:
    compiler = CandidateCompiler(2)
    yield compiler
    compiler.close()


def searched(problem: KernelProblem, seconds: float = 600.0) -> SearchResult:
    """What is known at the end of a search."""
    *_, found = SearchRounds([problem], time.monotonic() + seconds).run()
    return found


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(FILE)
    return tmp_path / "tuned.json"


@pytest.fixture
def as_if(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Times that schedules have, by a function of their fields."""

    def say(microseconds: Callable[[dict], float]) -> None:
        monkeypatch.setattr(ScheduleCandidate, "microseconds", lambda self: microseconds(self.schedule))

    return say


def test_a_kernel_alone_has_the_schedule_that_it_has_in_its_program(product: KernelProblem) -> None:
    whole = schedules_in(traced().lower(stop="blu-fit-cpu-schedules").module)
    assert [product.chosen()] == whole["gemm"]
    assert product.operands == "40x96xf32, 96x70xf32 -> 40x70xf32"
    assert product.line.endswith(f"test_tune.py:{f.__code__.co_firstlineno + 1}")


def test_the_same_holds_of_views_on_a_gpu() -> None:
    """Products whose factors are turned around, attention on parts of one matrix: a step of GPT-2."""
    model = nn.GPT2({"vocab_size": 512, "n_layer": 2, "n_embd": 128, "n_head": 2, "n_positions": 64})

    def gradients(model: Any, tokens: Any, targets: Any) -> Any:
        with blu.autocast("bf16"):
            return blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)

    tokens = blu.spec((4, 64), "i32")
    program = blu.jit(gradients).trace(model, tokens, tokens)
    whole = schedules_in(program.lower("sm_90a", stop="blu-fit-schedules").module)
    alone = by_family(program, "sm_90a")
    assert len(alone["gemm"]) > 8 and len(alone["attention_gradient"]) == 1
    for family in ("gemm", "attention_piece", "attention_gradient"):
        assert all(item.chosen() in whole[family] for item in alone[family])
    assert any(len(item.names) > 1 for items in alone.values() for item in items) or len(whole["gemm"]) > 8


def test_what_is_faster_is_found_step_by_step(product: KernelProblem, as_if) -> None:
    """Two fields, of which each alone gains something."""
    chosen = product.chosen()
    as_if(lambda fields: 100.0 - 30 * (fields["claim"] != chosen["claim"]) - 30 * (fields["rows"] != chosen["rows"]))
    found = searched(product)
    assert found.is_better and found.before == 100 and found.after == 40 and found.gain == 2.5
    assert found.best["claim"] != chosen["claim"] and found.best["rows"] != chosen["rows"]
    assert found.tried > found.misfits > 0 and found.wrong == []


@pytest.mark.parametrize("gain", [0.98, 1.0])
def test_what_gains_no_more_than_noise_is_not_kept(product: KernelProblem, as_if, gain: float) -> None:
    chosen = product.chosen()
    as_if(lambda fields: 100.0 if fields == chosen else 100 * gain)
    found = searched(product)
    assert not found.is_better and found.best == chosen


def test_without_time_the_chosen_schedule_is_all_that_is_measured(product: KernelProblem) -> None:
    found = searched(product, 0.0)
    assert found.tried == 0 and found.best == found.chosen == product.chosen() and found.before > 0


def test_results_that_are_others_are_seen(product: KernelProblem, compiler: CandidateCompiler) -> None:
    chosen, claimed = compiler.compile([WantedCandidate(product, given) for given in ({}, TILES)])
    assert isinstance(chosen, CompiledCandidate) and isinstance(claimed, CompiledCandidate)
    one = ScheduleCandidate.load(chosen)
    other = ScheduleCandidate.load(chosen, [np.float32(1.001) * item for item in one.inputs])
    assert difference(ScheduleCandidate.load(claimed, one.inputs), one.results()) == ""
    assert difference(other, one.results()).startswith("result 0 is off by 2.0e-03 of its norm, of 2e-05")


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i32", "bool"])
def test_arrays_are_compared_a_piece_at_a_time(dtype: str, monkeypatch) -> None:
    """Equal infinities and NaN do not count, whichever piece they are in; one other element does."""
    monkeypatch.setattr("blu.compiler.tuning.distance.PIECE", 8)
    one = np.arange(21).reshape(3, 7).astype(DTYPES[dtype])
    if dtype in FLOATS:
        one[0, 0], one[2, 6] = np.inf, np.nan
    other = one.copy()
    assert distance(one, other) == 0.0
    other[1, 5] = 0
    expected = 12 / np.sqrt(sum(item * item for item in range(1, 20)) - 144) if dtype in FLOATS else float("inf")
    assert distance(one, other) == pytest.approx(expected, rel=1e-12)
    assert distance(np.zeros(0, one.dtype), np.zeros(0, one.dtype)) == 0.0


def test_candidates_are_compiled_side_by_side_and_say_why_they_do_not_fit(
    product: KernelProblem, compiler: CandidateCompiler, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("BLU_CACHE_DIR", str(tmp_path))
    at_work, most, pair = set(), [], threading.Barrier(2)

    def ask(*request: Any) -> bytes:
        at_work.add(threading.get_ident())
        if not most:
            pair.wait(60)  # the first two are there at once
        most.append(len(at_work))
        answer = WorkerPool.ask(compiler.pool, *request)
        at_work.discard(threading.get_ident())
        return answer

    monkeypatch.setattr(compiler.pool, "ask", ask)
    given = [{}, TILES, {"kind": "tiles", "lanes": 3}, {"kind": "nothing"}]
    chosen, claimed, odd, nothing = compiler.compile([WantedCandidate(product, item) for item in given])
    assert max(most) == 2 and at_work == set()
    assert isinstance(chosen, CompiledCandidate) and isinstance(claimed, CompiledCandidate)
    assert chosen.schedule == product.chosen() and claimed.schedule["claim"] == BLOCKS
    assert isinstance(odd, BluError) and isinstance(nothing, BluError)
    assert "lanes" in odd.message and "nothing" in nothing.message
    again = len(most)
    [cached] = compiler.compile([WantedCandidate(product, {})])
    assert isinstance(cached, CompiledCandidate)
    assert cached.members["kernels.o"] == chosen.members["kernels.o"] and len(most) == again
    assert compiler.compile([WantedCandidate(product, {})], time.monotonic()) == [None]


def test_a_wrong_candidate_is_said_and_not_kept(product: KernelProblem, as_if, monkeypatch) -> None:
    as_if(lambda fields: 1.0 / fields["claim"])
    monkeypatch.setattr("blu.compiler.tuning.search.difference", lambda found, other: "result 0 is another")
    found = searched(product)
    assert not found.is_better and len(found.wrong) == found.tried - found.misfits > 0


def test_neighbours_are_doubled_and_halved_and_other_tiles() -> None:
    assert list(around({"kind": "a", "rows": 2, "claim": 1, "ahead": 0})) == [
        {"kind": "a", "rows": 4, "claim": 1, "ahead": 0},
        {"kind": "a", "rows": 1, "claim": 1, "ahead": 0},
        {"kind": "a", "rows": 2, "claim": 2, "ahead": 0},
    ]
    wgmma = {"kind": "wgmma", "rows": 128, "columns": 192, "stages": 4, "registers": "none", "sums": "boxed"}
    wgmma |= {"group": 8, "split": 2, "lead": 3}
    tiles = {(item["rows"], item["columns"], item["stages"]) for item in neighbours(wgmma)}
    assert {(128, 128, 5), (64, 64, 10), (128, 192, 5), (128, 192, 3)} <= tiles
    assert {item["sums"] for item in neighbours(wgmma)} == {"boxed", "staged", "held"}
    parts = {(item["split"], item["lead"], item["sums"]) for item in neighbours(wgmma)}
    assert {(4, 3, "staged"), (3, 1, "staged"), (1, 1, "staged"), (2, 4, "boxed"), (2, 2, "boxed")} <= parts
    assert (3, 0, "staged") in parts and all(lead or split == 3 for split, lead, _ in parts)


def test_what_the_model_expects_to_be_slow_is_not_tried(monkeypatch) -> None:
    """One tile of warpgroups on each multiprocessor: half as many columns take as many rounds, twice the parts more."""
    program = blu.jit(lambda x, y: x @ y).trace(blu.spec((4096, 4096), "bf16"), blu.spec((4096, 4096), "bf16"))
    problem = by_family(program, "sm_90a")["gemm"][0]
    chosen = problem.chosen()
    assert chosen["kind"] == "wgmma" and problem.expected(chosen) > 0
    assert problem.expected({**chosen, "rows": 64, "columns": 64}) > 1.5 * problem.expected(chosen)
    assert problem.expected({**chosen, "stages": 3}) == problem.expected(chosen)
    assert problem.expected({"kind": "few_rows", "columns": 32}) == 0
    assert problem.expected({**chosen, "split": 2, "lead": 2}) == problem.expected({**chosen, "split": 2})
    search = ScheduleSearch(problem)
    search.take(1)
    search._look_around()
    assert search.found.unlikely > 0
    likely = [problem.expected(given) for given in search.waiting]
    assert 0 < max(likely) <= 1.3 * problem.expected(chosen)
    assert [item for item in likely if item] == sorted(item for item in likely if item)


def test_the_command_writes_a_table_by_which_programs_are_compiled(
    product: KernelProblem, file: Path, as_if, monkeypatch, capsys
) -> None:
    twice = 2 * product.chosen()["claim"]
    as_if(lambda fields: 10.0 if fields.get("claim") == twice else 20.0)
    assert main(["tune", "model.py::f", "--budget", "60", "-v"]) == 0
    said = capsys.readouterr().out
    assert f"2.00 claim = {twice}" in said and f"10.0 us (2.00x): claim = {twice}" in said
    assert "1 of 2 kernels are faster, by 10 us together\nBLU_TUNED=tuned.json compiles programs by tuned.json" in said
    entry = read_table(file)[0]
    assert entry.about["microseconds"] == {"chosen": 20.0, "tuned": 10.0} and entry.about["line"] == "model.py:5"
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((40, 96), np.float32), rng.standard_normal((96, 70), np.float32)
    plain = traced().compile()
    monkeypatch.setenv("BLU_TUNED", str(file))
    tuned = traced().compile()
    assert schedules_in(traced().lower(stop="blu-fit-cpu-schedules").module)["gemm"] == [entry.schedule]
    assert plain.details["key"] != tuned.details["key"]
    assert np.allclose(plain(*arrays), tuned(*arrays), rtol=1e-6)


def test_ctrl_c_leaves_what_was_found(product: KernelProblem, file: Path, as_if, monkeypatch) -> None:
    search, calls, twice = ScheduleSearch.measure, [], 2 * product.chosen()["claim"]
    as_if(lambda fields: 1.0 if fields.get("claim") == twice else 2.0)

    def interrupted(self: ScheduleSearch, *arguments: Any) -> None:
        calls.append(self)
        if len(calls) == 4:
            raise KeyboardInterrupt
        search(self, *arguments)

    monkeypatch.setattr(ScheduleSearch, "measure", interrupted)
    assert main(["tune", "model.py::f"]) == 130
    assert [item.family for item in read_table(file)] == ["gemm"]


@pytest.mark.parametrize("schedule", [{"kind": "nothing"}, {"kind": "tiles", "lanes": 3}])
def test_a_schedule_that_does_not_fit_any_more_is_left_out(
    product: KernelProblem, file: Path, monkeypatch, schedule: dict
) -> None:
    fields = {**product.chosen(), **schedule}
    write_table(file, [TunedSchedule(product.problem, host_target_name(), "gemm", fields)])
    monkeypatch.setenv("BLU_TUNED", str(file))
    with pytest.warns(TunedScheduleWarning, match="kernel 'gemm_0' has the schedule that is chosen, not the tuned one"):
        module = traced().lower(stop="blu-fit-cpu-schedules").module
    assert schedules_in(module)["gemm"] == [product.chosen()]
    assert "blu.untuned" not in str(module)


def test_entries_of_other_targets_and_problems_change_nothing(product: KernelProblem, file: Path, monkeypatch) -> None:
    fields = {**product.chosen(), "claim": BLOCKS}
    write_table(
        file,
        [
            TunedSchedule(product.problem, "sm_90a", "gemm", fields),
            TunedSchedule("0" * 24, host_target_name(), "gemm", fields),
        ],
    )
    before = traced().lower(stop="blu-fit-cpu-schedules").text
    monkeypatch.setenv("BLU_TUNED", str(file))
    assert traced().lower(stop="blu-fit-cpu-schedules").text == before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting property name"),
        ("[]", 'a table of schedules is {"version": 1'),
        ('{"version": 2, "schedules": []}', 'a table of schedules is {"version": 1'),
        ('{"version": 1, "schedules": [3]}', "3 is no entry"),
        ('{"version": 1, "schedules": [{"problem": "a"}]}', "an entry says its 'problem', 'target' and 'family'"),
        (
            '{"version": 1, "schedules": [{"problem": "a", "target": "b", "family": "c", "schedule": {"rows": 1.5}}]}',
            "fields of a schedule are numbers and texts",
        ),
        (None, "No such file or directory"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, monkeypatch, text: str | None, reason: str) -> None:
    path = tmp_path / "tuned.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("BLU_TUNED", str(path))
    with pytest.raises(SettingError) as caught:
        traced().compile()
    assert f"{path} is no table of tuned schedules: " in str(caught.value) and reason in str(caught.value)


def test_tables_are_sorted_and_keep_the_last_of_equal_entries(tmp_path: Path) -> None:
    path = tmp_path / "tuned.json"
    entries = [
        TunedSchedule(problem, "sm_90a", "gemm", {"kind": "wgmma", "rows": rows})
        for problem, rows in ("b1", "a2", "b3")
    ]
    write_table(path, entries)
    assert read_table(path) == [entries[1], entries[2]]
    assert [json.loads(line.rstrip(","))["problem"] for line in path.read_text().splitlines()[1:-1]] == ["a", "b"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--budget", "0"], "--budget 0: there is no time to measure anything"),
        (["--only", "attention"], "--only 'attention' is found in no kernel's name"),
        (["--only", "("], "--only '(' is no regular expression"),
        (["--train"], "--train: model.py::f is no GPT-2"),
        (["--autocast", "bf61"], "did you mean 'bf16'?"),
    ],
)
def test_what_cannot_be_tuned_is_said(file: Path, capsys, words: list[str], message: str) -> None:
    assert main(["tune", "model.py::f", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error


def test_kernels_of_a_gpu_are_listed_where_there_is_none(file: Path, capsys) -> None:
    assert main(["tune", "model.py::f", "--target", "sm_90a", "--list"]) == 0
    said = capsys.readouterr().out
    assert "gemm_0: 40x96xf32, 96x70xf32 -> 40x70xf32 (" in said and "kind = simt" in said
    assert main(["tune", "model.py::f", "--target", "sm_90a"]) == 1
    assert "kernels are measured where they run, and sm_90a does not run here" in capsys.readouterr().err
