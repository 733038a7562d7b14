"""Collectives of compiled programs: under mpiexec, against what NumPy says of the operands of all ranks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import blu
from blu.errors import ArgumentError, CacheError, RankError
from blu.plan.collective import schedule_text
from blu.plan.mesh import Mesh
from blu.plan.schema import Plan
from blu.plan.timeline import Begin, Finish, LaunchRange, timeline
from tests.support.programs.rank_programs import run_ranks

PROGRAMS = Path(__file__).parent / "collective_programs.py"


MODES = {2: "ops gradients twice apart donated mesh", 3: "ops", 4: "ops mesh"}


@pytest.mark.parametrize("count", MODES)
def test_ranks_exchange_what_numpy_says(count: int) -> None:
    """Alone, in gradients, again, over memory that moves or is donated, and along two axes: `collective_programs.py`.

    All in one start of the ranks, which takes longer than what they do.
    """
    modes = MODES[count].split()
    found = run_ranks(PROGRAMS, count, ",".join(modes))
    assert [item["rank"] for item in found] == list(range(count))
    for mode in modes:
        CHECKS[mode]([item[mode] for item in found])


def check_ops(found: list[dict]) -> None:
    """Every collective gives what NumPy says of all ranks."""
    for item in found:
        assert len(item["errors"]) > 20
        assert {name: error for name, error in item["errors"].items() if error > 1e-6} == {}


def check_gradients(found: list[dict]) -> None:
    """<v, C x> summed over ranks is <C^T v, x> summed over ranks, for every linear collective."""
    first, second = found
    assert first["forward"].keys() == second["forward"].keys() and len(first["forward"]) == 8
    for name in first["forward"]:
        forward = first["forward"][name] + second["forward"][name]
        backward = first["backward"][name] + second["backward"][name]
        assert forward == pytest.approx(backward, rel=1e-12), name
        assert abs(forward) > 1e-3


def check_mesh(found: list[dict]) -> None:
    """Ranks of two axes exchange along each."""
    for item in found:
        assert item["rows"] == item["wanted_rows"]
        assert item["columns"] == item["wanted_columns"]


def check_twice(found: list[dict]) -> None:
    """Programs give the same bits again."""
    assert found == [{"runs": 2, "same": True}] * 2


def check_apart(found: list[dict]) -> None:
    """Arrays that move on one rank are exchanged."""
    assert [item["wrong"] for item in found] == [0, 0]


def check_donated(found: list[dict]) -> None:
    """Exchanges over donated arguments give the same bits."""
    assert [item["same"] for item in found] == [True, True]


CHECKS = {
    "ops": check_ops,
    "gradients": check_gradients,
    "mesh": check_mesh,
    "twice": check_twice,
    "apart": check_apart,
    "donated": check_donated,
}


def test_what_is_exchanged_is_written_over_donated_arguments_behind_their_last_reader() -> None:
    @blu.jit(mesh=blu.Mesh(dp=2), donate=("rows",))
    def program(rows, x):
        part, loss = blu.tanh(rows[:16]), x @ rows
        return {"loss": loss, "rows": blu.all_gather(part, "dp")}

    plan = plan_of(program, blu.spec((32, 32)), blu.spec((32, 32)))
    [collective] = plan.collectives
    assert (collective.target.space, collective.target.index) == ("input", 0)
    readers = [number for number, item in enumerate(plan.launches) if collective.target in item.args]
    assert len(readers) == 2 and max(readers) < collective.start


def test_donated_arguments_that_are_read_later_or_gathered_are_not_written_over() -> None:
    @blu.jit(mesh=blu.Mesh(dp=2), donate=("rows", "more"))
    def program(rows, more, x):
        gathered = blu.all_gather(blu.tanh(rows[:16]), "dp")
        return {"rows": gathered, "loss": x @ rows, "more": blu.all_gather(more[:16], "dp")}

    plan = plan_of(program, *[blu.spec((32, 32))] * 3)
    assert [item.target.space for item in plan.collectives] == ["output", "output"]


def test_a_program_for_more_ranks_than_there_are_says_so() -> None:
    program = blu.jit(lambda x: blu.all_reduce(x, "dp"), mesh=blu.Mesh(dp=2))
    with pytest.raises(RankError, match=r"for 2 ranks \(dp=2\), and this is one process alone"):
        program(np.ones(3, np.float32))


def test_an_axis_that_the_mesh_does_not_have_is_named() -> None:
    with pytest.raises(ArgumentError, match=r"no axis 'tp': the mesh has the axes dp"):
        blu.jit(lambda x: blu.all_reduce(x, "tp"), mesh=blu.Mesh(dp=2)).trace(blu.spec((3,)))
    with pytest.raises(ArgumentError, match="traced for one rank"):
        blu.jit(lambda x: blu.all_reduce(x, "dp")).trace(blu.spec((3,)))


def test_a_mesh_counts_ranks_with_its_last_axis_fastest() -> None:
    mesh = Mesh(dp=2, tp=3)
    assert mesh.size == 6
    assert mesh.coordinates(4) == {"dp": 1, "tp": 1}
    assert mesh.peers("tp", 4) == (3, 4, 5)
    assert mesh.peers("dp", 4) == (1, 4)
    assert mesh.peers("cp", 4) == (4,)
    assert Mesh.of_text(str(mesh)) == mesh and Mesh.of_text("") == Mesh()


@pytest.mark.parametrize("text", ["dp", "dp=", "dp=x", "=2", "dp=2,dp=3", "d p=2", "dp=0"])
def test_a_mesh_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="mesh"):
        Mesh.of_text(text)


def plan_of(program: object, *specs: object) -> Plan:
    return Plan.parse(program.trace(*specs).compile().executable["plan.json"])  # type: ignore[attr-defined]


def test_a_collective_overlaps_with_kernels_that_do_not_need_it() -> None:
    @blu.jit(mesh=blu.Mesh(dp=2))
    def program(x, w, v):
        total = blu.all_reduce(x @ w, "dp")
        other = blu.exp(x @ v)
        return total @ other

    plan = plan_of(program, *[blu.spec((32, 32))] * 3)
    [collective] = plan.collectives
    assert (collective.start, collective.wait, len(plan.launches)) == (1, 2, 3)
    moments = timeline(len(plan.launches), plan.collectives)
    assert moments == [LaunchRange(0, 1), Begin(0), LaunchRange(1, 2), Finish(0), LaunchRange(2, 3)]
    assert Path(__file__).name in schedule_text(plan.collectives)


def test_memory_of_a_collective_is_nobody_elses_while_it_runs() -> None:
    @blu.jit(mesh=blu.Mesh(dp=2))
    def program(x, w):
        gathered = blu.all_gather(x @ w, "dp")
        y = x
        for _ in range(4):
            y = blu.tanh(y @ w)
        return gathered @ w, y

    plan = plan_of(program, *[blu.spec((32, 32))] * 2)
    [collective] = plan.collectives
    assert collective.wait - collective.start >= 3
    own = [
        range(place.offset, place.offset + size)
        for place, size in ((collective.source, collective.bytes_given), (collective.target, collective.bytes_received))
        if place.space == "arena"
    ]
    assert own
    during = plan.launches[collective.start : collective.wait]
    written = [launch.args[-1] for launch in during if launch.args[-1].space == "arena"]
    assert written and not any(argument.offset in taken for argument in written for taken in own)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "gather"}, "a collective is a 'gather'"),
        ({"ranks": 3}, "has not 3 ranks"),
        ({"wait": 99}, "is over after launch 99"),
        ({"start": 2, "wait": 1}, "begun at 2"),
        ({"count": 1 << 40}, "reaches beyond"),
        ({"target": ["constant", 0, 0]}, "of which there is none"),
        ({"axis": "tp"}, "the axis tp"),
    ],
)
def test_a_damaged_collective_is_refused(change: dict, message: str) -> None:
    program = blu.jit(lambda x, w: blu.all_reduce(x @ w, "dp") @ w, mesh=blu.Mesh(dp=2))
    members = program.trace(blu.spec((8, 8)), blu.spec((8, 8))).compile().executable
    plan = json.loads(members["plan.json"])
    plan["collectives"][0] |= change
    with pytest.raises(CacheError, match=message):
        Plan.parse(json.dumps(plan).encode())
