"""Collectives of programs on a fake GPU, whose other rank gives the same as this one: streams, graphs, errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from blu.errors import DeviceError, RankError
from blu.runtime.cuda import CudaProgram, to_device
from blu.runtime.cuda import program as cuda_program
from blu.runtime.cuda.driver.choice import device_of_rank
from blu.runtime.ranks import axes, team
from blu.runtime.ranks.axes import axis_groups
from blu.runtime.ranks.group import Done, Exchange, Pending, RankGroup
from blu.runtime.ranks.world import World
from tests.support.programs import cuda_programs as programs
from tests.support.programs.fake_cuda import MAIN, SECOND, FakeDriver, view

COUNT = programs.COUNT
X = np.arange(COUNT, dtype=np.float32)


class Watch:
    """Is told of exchanges, and remembers it."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.waits = 0

    def started(self, exchange: str, line: str = "") -> None:
        self.told.append((exchange, line))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        self.waits += 1
        yield


class Twins(RankGroup):
    """Two ranks that hold the same; this is the second."""

    library = "nccl"
    rank, size = 1, 2

    def __init__(self, gpu: FakeDriver):
        self.gpu = gpu
        self.error: Exception | None = None
        self.failed = False
        self.watch = Watch()

    def _split(self, color: int | None, key: int) -> RankGroup | None:
        return self

    def check(self) -> None:
        if self.failed:
            raise DeviceError("an exchange of NCCL's failed", advice="start again")

    @contextmanager
    def together(self) -> Iterator[None]:
        self.gpu.log.append("together")
        yield
        self.gpu.log.append("begun")

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _begin(self, exchange: Exchange, stream: int) -> Pending:
        self.gpu.log.append(exchange.kind)
        if self.error is not None:
            raise self.error
        factor = 2 if exchange.kind == "all_reduce" else 1
        copies = exchange.taken(2) // exchange.count

        def exchange_now() -> None:
            values = view(exchange.source, exchange.count, np.float32) * np.float32(factor)
            view(exchange.target, exchange.taken(2), np.float32)[:] = np.tile(values, copies)

        self.gpu.enqueue_on(stream, exchange_now)
        return Done()


@pytest.fixture(params=["late", "eager"])
def twins(request: pytest.FixtureRequest, gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Twins:
    """The group along every axis of two ranks; its stream runs as late, or as early as it may."""
    gpu.is_second_eager = request.param == "eager"
    group = Twins(gpu)
    monkeypatch.setattr(World, "of_environment", classmethod(lambda cls: World(1, 2, 1, 2)))
    name = f"fake {id(group)}"
    groups: Callable[..., Any] = lambda plan: axis_groups(plan.mesh, name, lambda world: group)  # noqa: E731
    monkeypatch.setattr(cuda_program, "gpu_groups", groups)
    monkeypatch.setattr(cuda_program, "gpu_watch", lambda: group.watch)
    return group


def collective(kind: str, source: list, target: list, start: int, wait: int, **more: Any) -> dict[str, Any]:
    entry = {"kind": kind, "axis": "dp", "ranks": 2, "reduction": "sum" if kind == "all_reduce" else ""}
    entry |= {"dtype": "f32", "count": COUNT, "source": source, "target": target, "start": start, "wait": wait}
    return {**entry, "location": "model.py:40", **more}


def members(launches: list, collectives: list, mesh: dict[str, int] | None = None, **plan: Any) -> dict[str, bytes]:
    axes = [{"axis": axis, "ranks": ranks} for axis, ranks in (mesh or {"dp": 2}).items()]
    whole = {"inputs": [programs.tensor("x", COUNT)], "outputs": [programs.tensor("", COUNT, input=None)], **plan}
    return programs.members(launches, mesh=axes, collectives=collectives, **whole)


def arena(slot: int) -> list:
    return ["arena", 4 * COUNT * slot]


def overlapped(empty: bool = False) -> dict[str, bytes]:
    """result = 2 * (x + 1) + (x + 2), the sum over ranks beside the second kernels; with launches of no blocks, or
    without."""
    first = programs.launch("shift", ["input", 0, 0], arena(0))
    beside = programs.launch("shift", arena(0), arena(2))
    last = programs.launch("add", arena(1), arena(2), ["output", 0, 0])
    nothing = [programs.launch("shift", ["input", 0, 0], arena(0), blocks=0)] * (2 if empty else 0)
    launches = [*nothing, first, *nothing, beside, *nothing, last, *nothing]
    ends = 1 + len(nothing), 2 + 2 * len(nothing)
    return members(launches, [collective("all_reduce", arena(0), arena(1), *ends)], arena_bytes=12 * COUNT)


def several() -> dict[str, bytes]:
    """result = 2 * (x + 1) + 4 * (x + 1): two collectives that need nothing of each other, and one of the first's
    result, all before the last kernel."""
    first = [programs.launch("shift", ["input", 0, 0], arena(slot)) for slot in (0, 1)]
    last = programs.launch("add", arena(3), arena(4), ["output", 0, 0])
    places = [(arena(0), arena(2)), (arena(1), arena(3)), (arena(2), arena(4))]
    collectives = [collective("all_reduce", *pair, 2, 2) for pair in places]
    return members([*first, last], collectives, arena_bytes=20 * COUNT)


def into_result() -> dict[str, bytes]:
    """result = 2 * x, as it is exchanged, and x + 1."""
    launches = [programs.launch("shift", ["input", 0, 0], ["output", 1, 0])]
    outputs = [programs.tensor("", COUNT, input=None)] * 2
    return members(launches, [collective("all_reduce", ["input", 0, 0], ["output", 0, 0], 0, 1)], outputs=outputs)


@pytest.mark.parametrize("empty", [False, True], ids=["", "empty launches"])
def test_ranks_exchange_beside_kernels_launched_or_replayed(twins: Twins, empty: bool) -> None:
    program = CudaProgram.load(overlapped(empty))
    kept = [(program.run([X + step])[0], step) for step in range(8)]
    for result, step in kept:
        assert np.array_equal(result.numpy(), 2 * (X + step + 1) + (X + step + 2))
    gpu = twins.gpu
    assert gpu.count("replay") == 7 and gpu.count("capture") == 4 and gpu.count("update") == 3
    assert gpu.count("all_reduce") == 1 + 4  # a replay asks nobody
    assert gpu.count("open_stream") == 1


def test_what_needs_nothing_of_each_other_begins_together(twins: Twins) -> None:
    """Also in a graph, and timed step by step each by itself."""
    program, gpu = CudaProgram.load(several()), twins.gpu
    for step in range(8):
        assert np.array_equal(program.run([X + step])[0].numpy(), 6 * (X + step + 1))
    named = [name for name in gpu.log if name in ("together", "begun", "all_reduce", "add")]
    assert named[:6] == ["together", "all_reduce", "all_reduce", "begun", "all_reduce", "add"]
    assert gpu.count("together") == gpu.count("all_reduce") // 3 == 2 and gpu.count("replay") == 7
    program.time_launches([X])
    assert gpu.count("together") == 2


def test_the_second_stream_waits_for_the_first_and_it_for_the_second(twins: Twins) -> None:
    program, gpu = CudaProgram.load(overlapped()), twins.gpu
    before = len(gpu.log)
    program.run([to_device(X)])
    begin = [f"record_on {MAIN}", f"let_wait {SECOND}", "all_reduce", f"record_on {SECOND}"]
    enqueued = [name for name in gpu.log[before:] if name in ("shift", "add", *begin, f"let_wait {MAIN}")]
    assert enqueued == ["shift", *begin, "shift", f"let_wait {MAIN}", "add"]


def test_what_is_exchanged_elsewhere_is_captured_anew(twins: Twins) -> None:
    program, gpu = CudaProgram.load(into_result()), twins.gpu
    kept = [program.run([X + step]) for step in range(8)]
    for step, (total, other) in enumerate(kept):
        assert np.array_equal(total.numpy(), 2 * (X + step)) and np.array_equal(other.numpy(), X + step + 1)
    assert gpu.count("capture") == 7 and gpu.count("update") == 0
    x = to_device(X)
    for _ in range(3):
        program.run([x], outputs=kept[0])
    assert gpu.count("capture") == 8
    assert np.array_equal(kept[0][0].numpy(), 2 * X)


def test_several_collectives_end_in_the_order_of_their_needs(twins: Twins) -> None:
    """a = 2 * x and b = 2 * (2 * x) begin together with kernels; b is waited for first."""
    launches = [
        programs.launch("shift", ["input", 0, 0], arena(2)),
        programs.launch("add", arena(1), arena(2), arena(3)),
        programs.launch("add", arena(0), arena(3), ["output", 0, 0]),
    ]
    both = [
        collective("all_reduce", ["input", 0, 0], arena(0), 0, 2),
        collective("all_reduce", arena(0), arena(1), 0, 1),
    ]
    program = CudaProgram.load(members(launches, both, arena_bytes=16 * COUNT))
    for step in range(3):
        [result] = program.run([X + step])
        x = X + step
        assert np.array_equal(result.numpy(), 2 * x + 4 * x + x + 1)


def test_other_kinds_get_their_elements(twins: Twins) -> None:
    outputs = [programs.tensor("", 2 * COUNT, input=None), programs.tensor("", COUNT, input=None)]
    both = [
        collective("all_gather", ["input", 0, 0], ["output", 0, 0], 0, 0),
        collective("permute", ["input", 0, 0], ["output", 1, 0], 0, 0, amount=1),
    ]
    program = CudaProgram.load(members([], both, outputs=outputs))
    for _ in range(3):
        gathered, moved = program.run([X])
        assert np.array_equal(gathered.numpy(), np.tile(X, 2)) and np.array_equal(moved.numpy(), X)
    assert twins.gpu.count("replay") == 2


def test_an_axis_of_one_rank_is_a_copy_and_a_rank_knows_its_number(twins: Twins) -> None:
    outputs = [programs.tensor("", COUNT, input=None)]
    outputs += [programs.tensor("", dtype="i32", input=None)] * 2
    alone = {"axis": "tp", "ranks": 1}
    number = {"dtype": "i32", "count": 1}
    all_three = [
        collective("all_reduce", ["input", 0, 0], arena(0), 0, 1, **alone),
        collective("all_reduce", arena(0), arena(0), 0, 1, **alone),
        collective("axis_index", ["input", 0, 0], ["output", 1, 0], 0, 1, **number),
        collective("axis_index", ["input", 0, 0], ["output", 2, 0], 0, 1, **number, **alone),
    ]
    launches = [programs.launch("shift", arena(0), ["output", 0, 0])]
    program = CudaProgram.load(members(launches, all_three, {"dp": 2, "tp": 1}, outputs=outputs))
    for _ in range(3):
        copies = twins.gpu.count("copy")
        result, index, other = program.run([to_device(X)])
        assert np.array_equal(result.numpy(), X + 1)
        assert index.item() == 1 and other.item() == 0
        assert twins.gpu.count("copy") - copies in (0, 3)
    assert twins.gpu.count("open_stream") == 0 and twins.gpu.count("all_reduce") == 0


def test_waiting_for_each_step_names_the_collective_that_failed(twins: Twins, monkeypatch: Any) -> None:
    monkeypatch.setenv("BLU_CUDA_SYNC", "1")
    program, gpu = CudaProgram.load(overlapped()), twins.gpu
    for _ in range(2):
        [result] = program.run([X])
        assert np.array_equal(result.numpy(), 3 * X + 4)
    assert gpu.count("capture") == 0
    begun = gpu.log.index("all_reduce")
    assert gpu.log.index(f"let_wait {MAIN}") < gpu.log.index("shift", begun)
    inner = gpu._is_done

    def fail_once() -> bool:
        if gpu.log[-1] == f"let_wait {MAIN}":
            gpu.failures["synchronize"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
        return inner()

    monkeypatch.setattr(gpu, "_is_done", fail_once)
    with pytest.raises(DeviceError, match=r"the end of all_reduce over dp at model\.py:40") as caught:
        program.run([X])
    assert "shift" not in str(caught.value) and "add" not in str(caught.value)


@pytest.mark.parametrize("kind", [RankError, DeviceError])
@pytest.mark.parametrize("runs", [0, 1], ids=["launched", "captured"])
def test_a_collective_that_cannot_begin_names_its_line(twins: Twins, kind: type, runs: int) -> None:
    program = CudaProgram.load(overlapped())
    for _ in range(runs):
        program.run([X])
    twins.error = kind("NCCL could not start all_reduce", advice="look there")
    with pytest.raises(kind, match=r"^model\.py:40: NCCL could not start all_reduce\n  look there"):
        program.run([X])
    twins.error = None
    for _ in range(3):
        [result] = program.run([X])
        assert np.array_equal(result.numpy(), 3 * X + 4)


def test_an_exchange_that_failed_meanwhile_is_told_by_the_next_run(twins: Twins) -> None:
    program = CudaProgram.load(overlapped())
    x = to_device(X)
    program.run([x])
    twins.failed = True
    before = twins.gpu.count("shift")
    with pytest.raises(DeviceError, match=r"^model\.py:40: an exchange of NCCL's failed\n  start again"):
        program.run([x])
    assert twins.gpu.count("shift") == before


def test_the_watch_is_told_of_each_run_once_captured_or_not(twins: Twins) -> None:
    """Ranks that capture in different runs tell the same."""
    program, other = CudaProgram.load(overlapped()), CudaProgram.load(programs.twice())
    for step in range(7):
        program.run([X + step])
    other.run([X])
    assert twins.watch.told == [("what main exchanges", "model.py:40")] * 7


def test_whoever_watches_sees_a_rank_that_waits_to_read_an_array(twins: Twins, monkeypatch: Any) -> None:
    """A copy to memory that is not pinned waits for the GPU inside the driver: it comes after a wait that is told."""
    program = CudaProgram.load(overlapped())
    [result, *_] = program.run([X])
    waits, copy_out = twins.watch.waits, twins.gpu.copy_out
    seen: list[int] = []

    def copy(target: int, address: int, nbytes: int) -> None:
        seen.append(twins.watch.waits - waits)
        copy_out(target, address, nbytes)

    monkeypatch.setattr(twins.gpu, "copy_out", copy)
    result.numpy()
    assert seen == [1]


def test_a_run_that_is_broken_off_leaves_no_memory_to_a_collective(twins: Twins, monkeypatch: Any) -> None:
    monkeypatch.setenv("BLU_CUDA_GRAPH", "0")
    program, gpu = CudaProgram.load(overlapped()), twins.gpu
    inner = gpu._launch

    def fail_beside(kernel: Any) -> None:
        if gpu.log[-1] == f"record_on {SECOND}":
            gpu.failures["shift"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
        inner(kernel)

    monkeypatch.setattr(gpu, "_launch", fail_beside)
    with pytest.raises(DeviceError, match="launch the kernel 'shift'"):
        program.run([to_device(X)])
    assert gpu.log[-2:] == ["shift", f"let_wait {MAIN}"]
    monkeypatch.undo()
    [result] = program.run([X])
    assert np.array_equal(result.numpy(), 3 * X + 4)


def test_a_lost_gpu_names_kernels_and_collectives(twins: Twins) -> None:
    program, gpu = CudaProgram.load(overlapped()), twins.gpu
    program.run([X])[0].numpy()
    gpu.failures["replay"] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(DeviceError, match=r"(?s)shift at .*all_reduce over dp at model\.py:40.*add at"):
        program.run([X])


def test_kernels_are_timed_without_collectives(twins: Twins) -> None:
    program = CudaProgram.load(overlapped())
    assert [name for name, _, _ in program.time_launches([X], repeats=2)] == ["shift", "shift", "add"]
    assert twins.gpu.count("all_reduce") == 0


def test_a_closed_program_leaves_nothing(twins: Twins) -> None:
    gpu = twins.gpu
    before = gpu.pool.used_bytes
    with CudaProgram.load(overlapped()) as program:
        for _ in range(3):
            program.run([X])
    assert gpu.pool.used_bytes == before and not gpu.modules


def test_programs_exchange_through_the_team_that_was_joined(monkeypatch: Any, gpu: FakeDriver) -> None:
    group = Twins(gpu)
    group.observer = group.watch
    monkeypatch.setattr(World, "of_environment", classmethod(lambda cls: World(1, 2, 1, 2)))
    monkeypatch.setattr(axes, "_joined", {})
    monkeypatch.setattr(axes, "_worlds", {})
    monkeypatch.setattr(team, "_joined", None)
    monkeypatch.setenv("NCCL_GRAPH_REGISTER", "")  # so that it is unset afterwards
    monkeypatch.delenv("NCCL_GRAPH_REGISTER")
    team.use_team(team.RankTeam(World(1, 2, 1, 2), group, watch=group.watch))  # type: ignore[arg-type]
    program = CudaProgram.load(overlapped())
    results = [program.run([X])[0] for _ in range(3)]
    assert all(np.array_equal(result.numpy(), 3 * X + 4) for result in results)
    assert group.watch.told == [("what main exchanges", "model.py:40")] * 3
    assert os.environ["NCCL_GRAPH_REGISTER"] == "0"


def test_a_program_for_more_ranks_than_there_are_says_so(gpu: FakeDriver) -> None:
    with pytest.raises(RankError, match=r"for 2 ranks \(dp=2\), and this is one process alone"):
        CudaProgram.load(overlapped())


@pytest.mark.parametrize(
    ("count", "local_rank", "number"), [(0, 0, 0), (1, 0, 0), (1, 3, 0), (4, 0, 0), (4, 3, 3), (8, 3, 3)]
)
def test_a_rank_takes_the_gpu_of_its_number(monkeypatch: Any, count: int, local_rank: int, number: int) -> None:
    monkeypatch.setattr(World, "of_environment", classmethod(lambda cls: World(4 + local_rank, 8, local_rank, 4)))
    assert device_of_rank(count) == number


def test_a_rank_without_a_gpu_says_so(monkeypatch: Any) -> None:
    monkeypatch.setattr(World, "of_environment", classmethod(lambda cls: World(7, 8, 3, 4, host="node2")))
    with pytest.raises(RankError, match="rank 7 is number 3 of 4 on node2, which has 3 GPUs"):
        device_of_rank(3)
