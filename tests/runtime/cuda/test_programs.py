"""The CUDA runtime on a fake GPU: loading, arguments, graphs, donations, checks, and all that can fail."""

from __future__ import annotations

import _thread
import os
import re
import threading

import numpy as np
import pytest

from blu.errors import ArgumentError, DeviceError, OutOfMemoryError, UnsupportedError
from blu.runtime import Program, load_program
from blu.runtime.array import Array
from blu.runtime.artifact import write_artifact
from blu.runtime.cuda import CudaProgram, DeviceArray, to_device
from blu.runtime.cuda.driver import driver as drivers
from tests.support.programs import cuda_programs as programs
from tests.support.programs.fake_cuda import FakeDriver

X = np.arange(programs.COUNT, dtype=np.float32)


def test_results_are_on_the_gpu(gpu):
    program = CudaProgram.load(programs.twice())
    [result] = program.run([X])
    assert isinstance(result, DeviceArray) and isinstance(result, Array)
    assert np.array_equal(result.numpy(), X + 2)
    assert np.array_equal(np.asarray(result), X + 2) and result[3].item() == 5.0
    assert (result.shape, result.dtype, result.ndim, result.nbytes, len(result)) == (X.shape, X.dtype, 1, 256, 64)
    assert "cuda:0" in repr(result)


def test_the_dispatcher_goes_by_target_or_members(gpu, tmp_path):
    assert isinstance(load_program(programs.twice()), CudaProgram)
    target = {"target": {"name": "sm_90a", "triple": "nvptx64-nvidia-cuda"}}
    write_artifact(tmp_path / "f.blu", programs.twice(), target)
    [result] = load_program(tmp_path / "f.blu").run([X])
    assert np.array_equal(result.numpy(), X + 2)
    with pytest.raises(UnsupportedError, match="nvptx64"):
        Program.load(tmp_path / "f.blu")
    with pytest.raises(UnsupportedError, match="compiled for a GPU"):
        Program.load(programs.twice())


def test_numpy_arguments_may_change_after_the_call(gpu):
    program, x = CudaProgram.load(programs.twice()), X.copy()
    results = []
    for step in range(5):
        x[...] = X + step
        results += program.run([x])
    x[...] = -1
    assert gpu.count("synchronize") == 1  # at loading: no run has waited
    for step, result in enumerate(results):
        assert np.array_equal(result.numpy(), X + step + 2)


def test_large_arguments_bypass_the_staging_memory(gpu):
    count = 3 << 18
    gpu.kernels["shift"] = programs.shift
    launches = [programs.launch("shift", ["input", 0, 0], ["output", 0, 0], blocks=count // 32)]
    spec = programs.tensor("x", count), programs.tensor("y", count), programs.tensor("z", count)
    plan = programs.members(launches, inputs=list(spec), outputs=[programs.tensor("", count, input=None)])
    x = np.arange(count, dtype=np.float32)
    program = CudaProgram.load(plan)
    [result] = program.run([x, x, x])
    assert np.array_equal(result.numpy(), x + 1)


def test_device_arrays_are_not_copied(gpu):
    program, x = CudaProgram.load(programs.twice()), to_device(X)
    copies = gpu.count("copy_in")
    [result] = program.run([x])
    [again] = program.run([result])
    assert gpu.count("copy_in") == copies
    assert np.array_equal(again.numpy(), X + 4) and np.array_equal(x.numpy(), X)


def test_host_arrays_of_blu_and_python_numbers(gpu):
    launches = [programs.launch("shift", ["input", 0, 0], ["output", 0, 0], threads=1, blocks=1)]
    plan = programs.members(launches, inputs=[programs.tensor("x")], outputs=[programs.tensor("", input=None)])
    program = CudaProgram.load(plan)
    assert [float(program.run([value])[0]) for value in (1.5, np.float32(2), Array(np.array(3, np.float32)))] == [
        2.5,
        3.0,
        4.0,
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "takes 1 arguments"),
        ([X.astype(np.float64)], "f64"),
        ([X[:3]], r"f32\[3\]"),
        ([X[:3]], "compile the function for this shape"),
        (["text"], "a str"),
    ],
)
def test_argument_errors(gpu, arguments, message):
    program = CudaProgram.load(programs.twice())
    with pytest.raises(ArgumentError, match=message):
        program.run(arguments)
    with pytest.raises(ArgumentError, match="64"):
        program.run([to_device(X.astype(np.float64))])
    with pytest.raises(ArgumentError, match="shape"):
        program.run([to_device(X[:3])])


def test_a_donated_device_array_is_updated_in_place(gpu):
    program, state = CudaProgram.load(programs.update()), to_device(X)
    address = state.address
    result, other = program.run([state, X], overwrite=True)
    assert result is state
    assert np.array_equal(state.numpy(), 2 * X) and np.array_equal(other.numpy(), X + 1)
    result, _ = program.run([state, X])
    assert result.address == address and state.is_donated
    assert np.array_equal(result.numpy(), 3 * X)


def test_a_donated_host_array_stays_as_it_was(gpu):
    program, state = CudaProgram.load(programs.update()), X.copy()
    first, _ = program.run([state, X])
    second, _ = program.run([state, X])
    assert np.array_equal(state, X)
    assert np.array_equal(first.numpy(), 2 * X) and np.array_equal(second.numpy(), 2 * X)
    assert first.address != second.address


def test_a_donated_array_that_is_passed_twice_is_copied(gpu):
    program, x = CudaProgram.load(programs.update()), to_device(X)
    result, _ = program.run([x, x], overwrite=True)
    assert np.array_equal(result.numpy(), 2 * X) and np.array_equal(x.numpy(), X)


def test_results_into_given_arrays(gpu):
    program, x, target = CudaProgram.load(programs.twice()), to_device(X), to_device(X)
    [result] = program.run([x], outputs=[target])
    assert result is target and np.array_equal(target.numpy(), X + 2)
    with pytest.raises(ArgumentError, match="shares memory"):
        program.run([x], outputs=[x])
    with pytest.raises(ArgumentError, match="host memory"):
        program.run([x], outputs=[X])
    with pytest.raises(ArgumentError, match="result 0 is f32"):
        program.run([x], outputs=[to_device(X[:5])])
    with pytest.raises(ArgumentError, match="1 results, 2 arrays"):
        program.run([x], outputs=[None, None])


def test_misaligned_arrays_are_copied(gpu):
    base = to_device(np.concatenate([X, X]))
    inside = DeviceArray(base.address + 4, X.shape, X.dtype, base)
    [result] = CudaProgram.load(programs.twice()).run([inside])
    assert np.array_equal(result.numpy(), np.concatenate([X[1:], [0]]) + 2)


def test_graphs_are_captured_once_for_each_set_of_addresses(gpu):
    program, x = CudaProgram.load(programs.twice()), to_device(X)
    targets = [to_device(X) for _ in range(3)]
    for _ in range(4):
        for target in targets:
            program.run([x], outputs=[target])
    assert gpu.count("capture") == 3 and gpu.count("replay") == 11 and gpu.count("update") == 0
    assert all(np.array_equal(target.numpy(), X + 2) for target in targets)


def test_further_sets_of_addresses_update_a_graph(gpu):
    program, x = CudaProgram.load(programs.twice()), to_device(X)
    kept = [program.run([x])[0] for _ in range(10)]
    assert gpu.count("capture") == 4
    assert gpu.count("update") == 5  # one launch of two writes to the result
    other = to_device(2 * X)
    [result] = program.run([other], outputs=[kept[0]])
    assert np.array_equal(result.numpy(), 2 * X + 2)
    assert all(np.array_equal(array.numpy(), X + 2) for array in kept[1:])


def test_results_that_are_dropped_make_room(gpu):
    program, x = CudaProgram.load(programs.twice()), to_device(X)
    program.run([x])
    allocations = gpu.count("allocate")
    for _ in range(50):
        program.run([x])
    assert gpu.count("allocate") == allocations and gpu.count("capture") == 1


def test_without_graphs(gpu, monkeypatch):
    monkeypatch.setenv("BLU_CUDA_GRAPH", "0")
    [result] = CudaProgram.load(programs.twice()).run([X])
    [again] = CudaProgram.load(programs.twice()).run([X])
    assert np.array_equal(result.numpy(), X + 2) and np.array_equal(again.numpy(), X + 2)
    assert gpu.count("capture") == 0 and gpu.count("shift") == 4


def early_of(program: CudaProgram) -> list[bool]:
    """Of each kernel whether it begins before the one before it is over."""
    return [kernel.early for kernel in program._kernels]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, [False, True]), ({"BLU_CUDA_OVERLAP": "0"}, [False, False]), ({"BLU_CUDA_SYNC": "1"}, [False, False])],
)
def test_kernels_begin_early_that_follow_another_one(gpu, monkeypatch, settings, expected):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    program = CudaProgram.load(programs.twice(early=True))
    assert early_of(program) == expected
    for _ in range(3):
        assert np.array_equal(program.run([X])[0].numpy(), X + 2)


def test_a_kernel_is_timed_alone(gpu, monkeypatch):
    program, launched, launch = CudaProgram.load(programs.twice(early=True)), [], gpu._launch
    monkeypatch.setattr(gpu, "_launch", lambda kernel: launched.append(kernel.early) or launch(kernel))
    program.time_launches([X], repeats=2)
    assert launched and not any(launched)


def test_constants_are_uploaded_once(gpu):
    constants = bytes(64) + (X + 5).tobytes()
    launches = [programs.launch("add", ["input", 0, 0], ["constant", 1, 0], ["output", 0, 0])]
    plan = {"inputs": [programs.tensor("x", 64)], "outputs": [programs.tensor("", 64, input=None)]}
    plan["constants"] = [{"offset": 0, "bytes": 4}, {"offset": 64, "bytes": 256}]
    program = CudaProgram.load(programs.members(launches, constants, **plan))
    copies = gpu.count("copy_in")
    [result] = program.run([to_device(X)])
    assert np.array_equal(result.numpy(), 2 * X + 5) and gpu.count("copy_in") == copies + 1
    assert program.peak_bytes == 256 + len(constants) + 2 * X.nbytes


def test_offsets_and_empty_launches(gpu):
    launches = [
        programs.launch("shift", ["input", 0, 128], ["output", 0, 0], blocks=1),
        programs.launch("shift", ["input", 0, 0], ["output", 0, 128], blocks=1),
        programs.launch("shift", ["input", 0, 0], ["output", 0, 0], blocks=0),
    ]
    plan = programs.members(launches, inputs=[programs.tensor("x", 64)], outputs=[programs.tensor("", 64, input=None)])
    [result] = CudaProgram.load(plan).run([X])
    assert np.array_equal(result.numpy(), np.roll(X, 32) + 1)


def test_empty_arrays(gpu):
    plan = programs.members([], inputs=[programs.tensor("x", 0, 3)], outputs=[programs.tensor("", 0, 3, input=None)])
    [result] = CudaProgram.load(plan).run([np.empty((0, 3), np.float32)])
    assert result.numpy().shape == (0, 3) and result.__cuda_array_interface__["data"] == (0, False)


def test_large_shared_memory_is_asked_for(gpu):
    launches = [programs.launch("shift", ["input", 0, 0], ["output", 0, 0], shared=size) for size in (0, 100_000)]
    plan = programs.members(launches, inputs=[programs.tensor("x", 64)], outputs=[programs.tensor("", 64, input=None)])
    CudaProgram.load(plan)
    assert gpu.shared_bytes == {"shift": 100_000} and len(gpu.modules) == 1


def test_every_launch_is_timed(gpu):
    times = CudaProgram.load(programs.twice()).time_launches([X], repeats=3)
    assert times == [("shift", "model.py:5", 1.5), ("shift", "model.py:5", 1.5)]
    assert gpu.count("replay") == 3


def test_out_of_memory_says_how_much(gpu):
    with pytest.raises(OutOfMemoryError, match=r"cannot allocate 33554432 bytes of GPU memory for an array: \d+ of"):
        to_device(np.zeros(1 << 23, np.float32))
    gpu.total_bytes = gpu.allocated_bytes
    with pytest.raises(OutOfMemoryError, match="intermediate results: 0 of"):
        CudaProgram.load(programs.twice())


def test_kept_memory_is_given_back_before_giving_up(gpu):
    gpu.total_bytes = 1 << 20
    for size in (600_000, 700_000, 800_000):
        array = to_device(np.ones(size, np.uint8))
        assert array.numpy().all()
        del array
    assert gpu.pool.used_bytes == 0 and gpu.pool.peak_bytes >= 800_000


def test_the_pool_can_be_off(gpu, monkeypatch):
    monkeypatch.setenv("BLU_CUDA_POOL", "0")
    driver = FakeDriver(programs.KERNELS)
    drivers.use_driver(driver)
    array = to_device(X)
    assert driver.allocated_bytes == X.nbytes
    del array
    assert driver.allocated_bytes == 0


@pytest.mark.parametrize("call", ["replay", "synchronize"])
def test_a_lost_context_names_the_launches(gpu, call):
    program = CudaProgram.load(programs.checked())
    inputs = [X, np.arange(4), np.arange(1, 5)]
    [result, *_] = [program.run(inputs)[0] for _ in range(2)]
    gpu.failures[call] = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(DeviceError) as caught:
        program.run(inputs)[0].numpy()
    text = str(caught.value)
    assert "read or wrote memory that it may not" in text and "start it again" in text
    assert "gather at model.py:6" in text and "shift at model.py:5" in text
    for action in (lambda: program.run(inputs), result.numpy, lambda: to_device(X)):
        with pytest.raises(DeviceError, match="the GPU stopped"):
            action()


def test_a_failed_launch_names_its_kernel(gpu, monkeypatch):
    monkeypatch.setenv("BLU_CUDA_GRAPH", "0")
    program = CudaProgram.load(programs.twice())
    gpu.failures["shift"] = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"
    with pytest.raises(DeviceError, match=r"model.py:5: cannot launch the kernel 'shift'") as caught:
        program.run([X])
    assert caught.value.location == "model.py:5"
    [result] = program.run([X])
    assert np.array_equal(result.numpy(), X + 2)


def test_waiting_for_each_kernel_names_the_one_that_failed(gpu, monkeypatch):
    monkeypatch.setenv("BLU_CUDA_SYNC", "1")
    program = CudaProgram.load(programs.checked())
    inputs = [X, np.arange(4), np.arange(1, 5)]
    for _ in range(2):
        program.run(inputs)
    assert gpu.count("capture") == 0 and gpu.count("synchronize") == 1 + 2 * 4
    gpu.failures["synchronize"] = "CUDA_ERROR_MISALIGNED_ADDRESS"
    with pytest.raises(DeviceError, match=r"model\.py:6: the GPU stopped") as caught:
        program.run(inputs)
    assert "gather at model.py:6" in str(caught.value) and "shift" not in str(caught.value)


def test_ctrl_c_ends_the_waiting(gpu, monkeypatch, caplog):
    program = CudaProgram.load(programs.checked())
    inputs = [X, np.arange(4), np.arange(1, 5)]
    monkeypatch.setattr(drivers, "PATIENCE", 0.05)
    gpu.hangs = True
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    [result] = program.run(inputs)
    with pytest.raises(KeyboardInterrupt):  # it would wait for ever
        result.numpy()
    assert re.search(r"the GPU has been at work for \d+ s, with divide, gather, shift", caplog.text)
    gpu.hangs = False
    assert np.array_equal(result.numpy(), X + 1)


@pytest.mark.parametrize("call", ["load_module", "function", "copy_in", "capture", "copy_out", "pinned"])
def test_other_failures_say_what_was_being_done(gpu, call):
    gpu.failures[call] = "CUDA_ERROR_UNKNOWN"
    with pytest.raises(DeviceError, match=r"cannot .*CUDA_ERROR_UNKNOWN: as told"):
        program = CudaProgram.load(programs.checked())
        for _ in range(2):
            program.run([X, np.arange(4), np.arange(1, 5)])


def test_a_forked_process_cannot_use_the_gpu(gpu, monkeypatch):
    program = CudaProgram.load(programs.twice())
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(UnsupportedError, match="spawn"):
        program.run([X])


def test_threads_take_turns(gpu):
    program, failed = CudaProgram.load(programs.update()), []

    def work(seed: int) -> None:
        state = to_device(np.full_like(X, seed))
        for _ in range(20):
            [state, _] = program.run([state, X])
        if not np.array_equal(state.numpy(), seed + 20 * X):
            failed.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_peak_and_summary(gpu):
    program = CudaProgram.load(programs.update())
    assert program.peak_bytes == 256 + 2 * 256 + 256
    assert "CudaProgram(main: 2 arguments, 2 results, 2 launches of 2 kernels" in program.summary()
    assert program.inputs[0].donated and program.outputs[0].input == 0


def test_arrays_die_with_their_last_reader(gpu):
    program = CudaProgram.load(programs.twice())
    before = gpu.pool.used_bytes
    [result] = program.run([to_device(X)])
    assert gpu.pool.used_bytes == before + 512
    del result
    assert gpu.pool.used_bytes == before
