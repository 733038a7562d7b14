"""What checks find on a (fake) GPU is reported late, but never lost: by later runs, readers, and at the end."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from blu.errors import ArgumentError, OutOfRangeError
from blu.plan.schema import NOTHING_FOUND
from blu.runtime.cuda import CudaProgram, DeviceArray, memory_stats, synchronize, to_device
from blu.runtime.cuda.driver import driver as drivers
from blu.runtime.cuda.findings import MOST_UNREAD
from blu.runtime.cuda.hand_over import NAME, THREADS, text_for
from tests.support.programs import cuda_programs as programs
from tests.support.programs.fake_cuda import view
from tests.support.ptx import machine

X = np.arange(programs.COUNT, dtype=np.float32)
GOOD, BAD, DIVISORS = np.array([1, -10, 9, 0]), np.array([1, 10, 2, 3]), np.array([1, 2, 3, 4])
RUN = r"model.py:7: take: index 10 is out of range for a dimension of size 10 \(run {} of main\)"


@pytest.fixture(params=["copies", "a kernel"])
def program(gpu, request) -> CudaProgram:
    """A program with checks, whose findings are copied, or handed over."""
    gpu.hands_over = request.param == "a kernel"
    gpu.kernels[NAME] = _hand_over
    return CudaProgram.load(programs.checked())


def _hand_over(threads: int, status: int, found: int, runs: int) -> None:
    number, places, count = view(runs, 3, np.int64)
    slots = view(status, count, np.int64)
    view(found, places * count, np.int64).reshape(places, count)[number % places] = slots
    slots.fill(NOTHING_FOUND)
    view(runs, 1, np.int64)[0] += 1


def test_what_timed_launches_find_is_forgotten(program):
    program.time_launches([X, BAD, DIVISORS], repeats=1)
    assert np.array_equal(_run(program).numpy(), X + 1)


@pytest.mark.parametrize("slots", [1, THREADS, THREADS + 1])
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
def test_the_kernel_that_hands_over(capability, slots):
    status, found, runs = np.arange(slots), np.full((3, slots), 7), np.array([4, 3, slots])
    machine.run(text_for(capability), [1], [status, found, runs], shared_bytes=0)
    assert (found == [[7], [0], [7]] + np.array([[0], [1], [0]]) * np.arange(slots)).all()
    assert (status == NOTHING_FOUND).all() and runs.tolist() == [5, 3, slots]


def _run(program: CudaProgram, indices: np.ndarray = GOOD, divisors: np.ndarray = DIVISORS) -> DeviceArray:
    return program.run([X, indices, divisors])[0]


def test_no_run_waits(gpu, program):
    arrays = [to_device(array) for array in (X, GOOD, DIVISORS)]
    waits = gpu.count("synchronize")
    for _ in range(MOST_UNREAD):
        program.run(arrays)
    assert gpu.count("synchronize") == waits and gpu.count("wait") == 0
    assert len(gpu.findings) == MOST_UNREAD


def test_reading_any_array_reports_what_runs_have_found(program):
    other = to_device(X)
    _run(program)
    result = _run(program, BAD)
    with pytest.raises(OutOfRangeError, match=RUN.format(2)):
        other.numpy()
    assert np.array_equal(result.numpy(), X + 1)  # reported once
    result = _run(program)
    assert np.array_equal(result.numpy(), X + 1)  # what was found before is forgotten


@pytest.mark.parametrize("read", [float, repr, np.asarray, lambda array: array.__dlpack__(),
                                  lambda array: array.__cuda_array_interface__])  # fmt: skip
def test_all_ways_of_reading_report(program, read):
    number = to_device(np.float32(1))
    _run(program, BAD)
    with pytest.raises(OutOfRangeError, match=RUN.format(1)):
        read(number)
    read(number)


def test_synchronize_and_close_report(program):
    _run(program, BAD)
    with pytest.raises(OutOfRangeError, match=RUN.format(1)):
        synchronize()
    synchronize()
    result = _run(program, BAD)
    with pytest.raises(OutOfRangeError, match=RUN.format(2)):
        program.close()
    assert np.array_equal(result.numpy(), X + 1)


def test_a_later_run_reports_and_does_not_run(gpu, program):
    _run(program, BAD)
    _run(program, BAD)
    gpu._run_queue()
    launched = gpu.count("shift") + gpu.count("replay")
    for number in (1, 2):
        with pytest.raises(OutOfRangeError, match=RUN.format(number)):
            _run(program)
    assert gpu.count("shift") + gpu.count("replay") == launched
    assert np.array_equal(_run(program).numpy(), X + 1)


def test_the_host_is_only_so_far_ahead(gpu):
    numbers = {"blocks": 1, "threads": 4}
    plan = programs.members(
        [programs.launch("gather", ["input", 0, 0], ["status", 0], **numbers)],
        inputs=[programs.tensor("i", 4, dtype="i64")],
        checks=[{"kind": "index", "op": "take", "size": 10, "location": "model.py:7"}],
    )
    program, good, bad = CudaProgram.load(plan), to_device(GOOD), to_device(BAD)
    program.run([bad])
    for _ in range(MOST_UNREAD):
        program.run([good])
    assert len(gpu.findings) == MOST_UNREAD + 1 and gpu.count("wait") == 0
    with pytest.raises(OutOfRangeError, match=RUN.format(1)):
        program.run([good])
    assert len(gpu.findings) == MOST_UNREAD
    for _ in range(3 * MOST_UNREAD):
        program.run([good])
    assert len(gpu.findings) == MOST_UNREAD + 1


def test_divisors_warn(program):
    result = _run(program, GOOD, GOOD)
    with pytest.warns(RuntimeWarning, match=r"division by zero in floor_divide \(model.py:8\) gives 0"):
        result.numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(_run(program).numpy(), X + 1)


def test_waiting_for_each_kernel_reports_at_once(gpu, monkeypatch):
    monkeypatch.setenv("BLU_CUDA_SYNC", "1")
    program = CudaProgram.load(programs.checked())
    with pytest.raises(OutOfRangeError, match=r"index 10"):
        _run(program, BAD)
    assert np.array_equal(_run(program).numpy(), X + 1)


def test_a_dead_program_reports(program, gpu):
    result = _run(program, BAD)
    del program
    with pytest.raises(OutOfRangeError, match=RUN.format(1)):
        result.numpy()


def test_the_end_of_the_process_logs_what_nobody_has_read(gpu, program, caplog):
    _run(program)
    _run(program, BAD)
    _run(program, BAD)
    gpu._run_queue()
    drivers.report_unread(gpu)
    assert caplog.text.count("found when the process ended") == 2 and "run 3 of main" in caplog.text
    assert not len(gpu.findings)


def test_a_gpu_that_hangs_does_not_hold_up_the_end(gpu, program, monkeypatch):
    _run(program, BAD)
    monkeypatch.setattr(drivers, "LAST_SECONDS", 0.1)
    drivers.report_unread(gpu)  # it would wait for ever
    assert len(gpu.findings) == 1


def test_closing_gives_everything_back(gpu):
    before = gpu.allocated_bytes
    with CudaProgram.load(programs.checked()) as program:
        _run(program)
        _run(program)
        assert len(gpu.modules) == 3
    assert gpu.allocated_bytes == before and not gpu.modules
    program.close()
    with pytest.raises(ArgumentError, match="the program is closed"):
        _run(program)


def test_memory_is_accounted_for(gpu):
    array = to_device(X)
    stats = memory_stats()
    assert (stats.used, stats.peak, stats.kept, stats.total) == (512, 512, 0, gpu.total_bytes)
    assert stats.free == gpu.total_bytes - 512
    del array
    stats = memory_stats()
    assert (stats.used, stats.peak, stats.kept) == (0, 512, 512)


def test_a_program_that_dies_gives_everything_back(gpu):
    program = CudaProgram.load(programs.twice())
    for _ in range(2):
        result = program.run([X])[0]
    used = gpu.pool.used_bytes
    del program
    assert gpu.pool.used_bytes < used and gpu.modules  # in use until the GPU is done with it
    assert np.array_equal(result.numpy(), X + 2) and not gpu.modules
    del result
    assert gpu.pool.used_bytes == 0
