"""Launches that find the arguments of many calls in a table, on a fake GPU: the table follows the arrays."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from blu.errors import CacheError, DeviceError
from blu.runtime.cuda import CudaProgram, staging, to_device
from blu.runtime.cuda.driver import driver as drivers
from tests.support.programs import cuda_programs as programs
from tests.support.programs.fake_cuda import FakeDriver, view

COUNT = programs.COUNT
X, Y = np.arange(COUNT, dtype=np.float32), np.full(COUNT, 5, np.float32)


def shift_each(threads: int, table: int) -> None:
    """For each of two pairs of arrays in the table: target = source + 1."""
    for source, target in view(table, 4, np.uint64).reshape(2, 2).tolist():
        programs.shift(threads // 2, source, target)


def shift_pairs(count: int, threads: int, table: int) -> None:
    """For each of `count` pairs of arrays in the table: target = source + 1."""
    for source, target in view(table, 2 * count, np.uint64).reshape(count, 2).tolist():
        programs.shift(threads // count, source, target)


@pytest.fixture
def gpu() -> Iterator[FakeDriver]:
    """The process's GPU, a fake one."""
    driver = FakeDriver({**programs.KERNELS, "shift_batch": shift_each})
    drivers.use_driver(driver)
    yield driver
    drivers.use_driver(None)


def batched(**changes) -> dict[str, bytes]:
    """state = state + 1, in place; result = (x + 1) + 1, the first sum of which is in the arena."""
    launch = programs.launch("shift_batch", ["table", 0, 0])
    launch["grid"][2] = 2
    plan = {
        "launches": [launch, programs.launch("shift", ["arena", 0], ["output", 1, 0])],
        "tables": [[["input", 0, 0], ["output", 0, 0], ["input", 1, 0], ["arena", 0]]],
        "inputs": [programs.tensor("state", COUNT, donated=True), programs.tensor("x", COUNT)],
        "outputs": [programs.tensor("", COUNT, input=0), programs.tensor("", COUNT, input=None)],
        **changes,
    }
    return programs.members(plan.pop("launches"), **plan)


def test_a_table_holds_the_addresses_of_all_calls(gpu):
    program = CudaProgram.load(batched())
    state, x = to_device(X), to_device(Y)
    for step in range(1, 5):
        changed, result = program.run([state, x], overwrite=True)
        assert changed is state
        assert np.array_equal(result.numpy(), Y + 2) and np.array_equal(state.numpy(), X + step)
    addresses = view(program._tables.address(0), 4, np.uint64).tolist()
    assert addresses == [state.address, state.address, x.address, program._arena.address]


def test_each_of_several_tables_of_different_lengths_is_found(gpu):
    """The n-th table shows n pairs of arrays: x + 1, and so on from where the table before left off."""
    sizes = (1, 2, 1, 3, 2)
    for size in set(sizes):
        gpu.kernels[f"shift_{size}"] = partial(shift_pairs, size)
    launches, tables, results = [], [], 0
    for number, size in enumerate(sizes):
        launch = programs.launch(f"shift_{size}", ["table", number, 0])
        launch["grid"][2] = size
        launches.append(launch)
        pairs = [[["input", number, 0], ["output", results + place, 0]] for place in range(size)]
        tables.append([argument for pair in pairs for argument in pair])
        results += size
    plan = {
        "tables": tables,
        "inputs": [programs.tensor(f"x{number}", COUNT) for number in range(len(sizes))],
        "outputs": [programs.tensor("", COUNT, input=None) for _ in range(results)],
    }
    program = CudaProgram.load(programs.members(launches, **plan))
    for _ in range(2):
        found = program.run([X * (number + 1) for number in range(len(sizes))])
        expected = [X * (number + 1) + 1 for number, size in enumerate(sizes) for _ in range(size)]
        assert all(np.array_equal(one.numpy(), other) for one, other in zip(found, expected, strict=True))


def test_tables_are_written_again_only_where_arrays_have_moved(gpu):
    program = CudaProgram.load(batched())
    state, x, other = to_device(X), to_device(Y), to_device(2 * Y)
    program.run([state, x], overwrite=True)
    before = gpu.count("copy_in")
    # Results are elsewhere each time, which the table does not show.
    kept = [program.run([state, x], overwrite=True) for _ in range(6)]
    assert gpu.count("copy_in") == before and gpu.count("replay") == 6
    [_, result] = program.run([state, other], overwrite=True)
    assert gpu.count("copy_in") == before + 1 and gpu.count("update") >= 1
    assert np.array_equal(result.numpy(), 2 * Y + 2) and np.array_equal(kept[-1][1].numpy(), Y + 2)


def test_runs_that_are_enqueued_see_the_table_as_it_was(gpu):
    """No run waits for the GPU, and each uses the arrays that it was given."""
    program = CudaProgram.load(batched())
    pairs = [(to_device(X * number), to_device(Y * number)) for number in range(1, 4)]
    order = [*range(3), *range(3), 0, 2, 1]
    program.run(pairs[0], overwrite=True)
    pairs[0] = (to_device(X), to_device(Y))
    waited = gpu.count("synchronize") + gpu.count("wait")
    results = [(number, program.run(pairs[number], overwrite=True)[1]) for number in order]
    assert gpu.count("synchronize") + gpu.count("wait") == waited
    for number, result in results:
        assert np.array_equal(result.numpy(), Y * (number + 1) + 2)
    for number, (state, _) in enumerate(pairs):
        assert np.array_equal(state.numpy(), X * (number + 1) + 3)


def test_addresses_on_their_way_are_not_overwritten(gpu, monkeypatch):
    """Where page-locked memory has room for those of a few runs only."""
    monkeypatch.setattr(staging, "_HALF_BYTES", 160)
    program, x = CudaProgram.load(batched()), to_device(Y)
    states = [to_device(X * number) for number in range(9)]
    for number in [*range(9), *range(9)]:
        program.run([states[number], x], overwrite=True)
    assert 0 < gpu.count("wait") < 18
    for number, state in enumerate(states):
        assert np.array_equal(state.numpy(), X * number + 2)


def test_a_failing_copy_is_explained(gpu):
    """And the next run tries again."""
    program = CudaProgram.load(batched())
    for x in (to_device(Y), to_device(2 * Y)):
        arrays = [to_device(X), x]
        gpu.failures["copy_in"] = "CUDA_ERROR_INVALID_VALUE"
        with pytest.raises(DeviceError, match="copy addresses to the GPU"):
            program.run(arrays, overwrite=True)
        [state, result] = program.run(arrays, overwrite=True)
        assert np.array_equal(state.numpy(), X + 1) and np.array_equal(result.numpy(), x.numpy() + 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tables": []}, "shift_batch takes table 0, of which there is none"),
        ({"tables": 3}, "the list of tables is 3"),
        ({"tables": [3]}, "a table is 3"),
        ({"tables": [[]]}, "runs for 2 calls with the 0 entries of table 0"),
        ({"tables": [[["arena", 0]] * 3]}, "runs for 2 calls with the 3 entries of table 0"),
        ({"tables": [[["arena", 0], ["input", 7, 0]]]}, "table 0 takes input 7, of which there is none"),
        ({"tables": [[["arena", 0], ["arena", 4 * COUNT + 1]]]}, "table 0 reaches beyond arena 0"),
        ({"tables": [[["table", 0, 0], ["arena", 0]]]}, "a table holds more than buffers"),
        ({"tables": [[["map", 0], ["arena", 0]]]}, "a table holds more than buffers"),
        ({"tables": [[["arena", 0], ["heap", 0]]]}, "a kernel argument is"),
        ({"launches": [programs.launch("shift_batch", ["table", 0, 8])]}, "takes table 0 from byte 8 on"),
        ({"launches": [programs.launch("shift_batch", ["table", 0])]}, "a kernel argument is"),
    ],
)
def test_damaged_tables_are_refused(gpu, changes, message):
    with pytest.raises(CacheError, match=message):
        CudaProgram.load(batched(**changes))


def test_programs_for_a_cpu_have_no_tables(gpu):
    launch = {"kernel": "shift", "blocks": 1, "chunk": 1, "args": [["table", 0, 0]]}
    with pytest.raises(CacheError, match="shift runs on a CPU and takes table 0"):
        CudaProgram.load(batched(launches=[launch]))


def shift_shown(threads: int, shown: int, target: int) -> None:
    """target = what a tensor map shows + 1"""
    programs.shift(threads, int(view(shown, 16, np.uint64)[0]), target)


def test_tensor_maps_follow_the_arrays_too(gpu, monkeypatch):
    """Without a wait, and after a copy that failed."""
    monkeypatch.setattr(gpu, "encode_map", lambda map_, address: np.full(16, address, np.uint64).tobytes())
    gpu.kernels["shift_shown"] = shift_shown
    shown = {"buffer": ["input", 0, 0], "offset": 0, "dtype": "f32", "shape": [COUNT], "strides": [1], "box": [COUNT]}
    program = CudaProgram.load(
        programs.members(
            [programs.launch("shift_shown", ["map", 0], ["output", 0, 0])],
            inputs=[programs.tensor("x", COUNT)],
            outputs=[programs.tensor("", COUNT, input=None)],
            tensor_maps=[shown],
        )
    )
    arrays = [to_device(X * number) for number in range(3)]
    waited = gpu.count("synchronize")
    results = [program.run([arrays[number]], overwrite=True)[0] for number in (0, 1, 2, 0, 1)]
    assert gpu.count("synchronize") == waited
    for number, result in zip((0, 1, 2, 0, 1), results, strict=True):
        assert np.array_equal(result.numpy(), X * number + 1)
    gpu.failures["copy_in"] = "CUDA_ERROR_INVALID_VALUE"
    with pytest.raises(DeviceError, match="describe tensors to the copy engine"):
        program.run([arrays[2]], overwrite=True)
    assert np.array_equal(program.run([arrays[2]], overwrite=True)[0].numpy(), X * 2 + 1)
