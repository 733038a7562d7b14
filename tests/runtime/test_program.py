"""Programs: arguments are checked and never misread, results are right, failures are named, threads may share one."""

import gc
import threading
import time
import tracemalloc
import weakref

import ml_dtypes
import numpy as np
import pytest

from blu.errors import ArgumentError, BluError, OutOfMemoryError, OutOfRangeError
from blu.plan.tensors import DTYPES
from blu.runtime import Array, host
from blu.runtime import memory as runtime_memory
from blu.runtime.memory import allocate, allocate_array, machine_memory, release_kept
from tests.support.programs.runtime_programs import SHAPE, launch, load, numbers, tensor


@pytest.fixture(scope="module")
def multiply_add():
    """out = x * y + 2.5, by way of the arena."""
    return load(
        np.array([0.0] * 16 + [2.5], np.float32).tobytes(),
        arena_bytes=512,
        inputs=[tensor("x", SHAPE), tensor("y", SHAPE)],
        outputs=[tensor("", SHAPE, input=None)],
        constants=[{"offset": 64, "bytes": 4}],
        launches=[
            launch("multiply", 60, ["input", 0, 0], ["input", 1, 0], ["arena", 128]),
            launch("shift", 60, ["arena", 128], ["constant", 0, 0], ["output", 0, 0]),
        ],
    )


@pytest.fixture(scope="module")
def scale():
    """x is donated: x *= y."""
    return load(
        inputs=[tensor("x", SHAPE, donated=True), tensor("y", SHAPE)],
        outputs=[tensor("", SHAPE, input=0)],
        launches=[launch("multiply", 60, ["input", 0, 0], ["input", 1, 0], ["output", 0, 0])],
    )


def test_results_are_right_and_fresh(multiply_add):
    x, y = numbers(0), numbers(1)
    (first,) = multiply_add.run([x, y])
    (second,) = multiply_add.run([y, y])
    assert (first == x * y + np.float32(2.5)).all()
    assert (second == y * y + np.float32(2.5)).all()
    assert first.ctypes.data % 64 == 0 and first.flags.carray and first.dtype == np.float32


def test_summary_and_specs(multiply_add, scale):
    assert repr(multiply_add) == (
        "Program(main: 2 arguments, 1 results, 2 launches of 2 kernels, arena 512 bytes, peak 1300 bytes)"
    )
    assert [spec.name for spec in multiply_add.inputs] == ["x", "y"]
    assert repr(multiply_add.inputs) == "(x: f32[6, 10], y: f32[6, 10])"
    assert repr(scale.inputs[0]) == "x: f32[6, 10] donated"
    assert scale.outputs[0].input == 0
    assert multiply_add.peak_bytes == 512 + 68 + 3 * 240
    assert repr(multiply_add.plan.launches[0]) == "Launch(multiply, blocks=60, chunk=16, model.py:3)"
    with pytest.raises(AttributeError):
        multiply_add.inputs[0].name = "z"


def awkward_layouts():
    base = numbers(5)
    wide = np.repeat(base, 3, axis=1)[:, ::3]
    misaligned = np.frombuffer(bytearray(b"x" + base.tobytes()), np.uint8)[1:].view(np.float32).reshape(SHAPE)
    read_only = base.copy()
    read_only.flags.writeable = False
    return {
        "strided": wide,
        "transposed": np.asfortranarray(base),
        "negative strides": base[::-1, ::-1].copy()[::-1, ::-1],
        "big-endian": base.astype(">f4"),
        "misaligned": misaligned,
        "read-only": read_only,
        "broadcast": np.broadcast_to(base[:1], SHAPE),
        "subclass": base.view(np.matrix),
        "Array": Array(base.copy()),
    }


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("layout", awkward_layouts())
def test_awkward_layouts_are_never_misread(multiply_add, scale, layout):
    x, y = awkward_layouts()[layout], numbers(6)
    expected = np.array(x, np.float32)
    (result,) = multiply_add.run([x, y])
    assert (result == expected * y + np.float32(2.5)).all()
    (result,) = multiply_add.run([y, x])
    assert (result == expected * y + np.float32(2.5)).all()
    (scaled,) = scale.run([x, y], overwrite=True)
    assert (scaled == expected * y).all() and scaled.flags.writeable
    if layout != "Array":
        assert (np.asarray(x, np.float32) == expected).all(), "what cannot be written in place stays as it was"


def test_a_layout_changed_in_place_is_noticed(multiply_add):
    x, y = numbers(7), numbers(8)
    expected = multiply_add.run([x, y])[0].tobytes()
    with pytest.raises(ArgumentError, match=r"'x' is f32\[60\], the program takes f32\[6, 10\]"):
        multiply_add.run([x.reshape(60), y])
    assert multiply_add.run([x, y])[0].tobytes() == expected


def test_donated_argument_is_updated_in_place(scale):
    x, y = numbers(1), numbers(2)
    expected = x * y
    (result,) = scale.run([x, y], overwrite=True)
    assert result is x and (x == expected).all()


def test_donated_memory_that_another_argument_shares_is_copied_first(scale):
    x = numbers(3)
    before = x.copy()
    (result,) = scale.run([x, x], overwrite=True)
    assert (result == before * before).all() and (x == before).all() and result is not x
    both = numbers(4, (8, 10))
    before = both.copy()
    (result,) = scale.run([both[:6], both[2:]], overwrite=True)
    assert (result == before[:6] * before[2:]).all() and (both == before).all()


def test_overlaps_hidden_by_a_longer_array_are_found(scale):
    """Sorted by address, the array in between does not meet the donated one; the enclosing one does."""
    from blu.runtime.arguments import overlapping

    def check(written, *ranges):
        starts, ends = np.array(ranges, np.int64).T
        return overlapping(written, starts, ends - starts)

    assert check([2], (0, 100), (10, 20), (50, 60)) == [2]
    assert check([2], (0, 50), (10, 20), (50, 60)) == []
    assert check([0, 1], (0, 10), (5, 20), (30, 40)) == [0, 1]
    assert check([0], (5, 5), (0, 10)) == []


def test_results_can_be_written_into_given_arrays(multiply_add, scale):
    x, y, out = numbers(1), numbers(2), np.zeros(SHAPE, np.float32)
    assert multiply_add.run([x, y], outputs=[out])[0] is out
    assert (out == x * y + np.float32(2.5)).all()
    assert multiply_add.run([x, y], outputs=[None])[0] is not out
    for wrong in (np.zeros(SHAPE), np.zeros((6, 11), np.float32), out[:, ::-1], x.view(np.int32), [1.0]):
        with pytest.raises(ArgumentError, match="the array for result 0"):
            multiply_add.run([x, y], outputs=[wrong])
    with pytest.raises(ArgumentError, match="shares memory"):
        multiply_add.run([x, y], outputs=[x])
    with pytest.raises(ArgumentError, match="1 results, 2 arrays"):
        multiply_add.run([x, y], outputs=[out, out])
    with pytest.raises(ArgumentError, match="donated argument 0: pass None"):
        scale.run([x, y], outputs=[out])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([numbers(0)], r"takes 2 arguments \(x, y\), 1 were given"),
        ([numbers(0)] * 3, r"takes 2 arguments \(x, y\), 3 were given"),
        ([numbers(0), numbers(0).astype(np.float64)], r"'y' is f64\[6, 10\], the program takes f32\[6, 10\]"),
        ([numbers(0), np.zeros((6, 10), np.complex64)], r"'y' is complex64\[6, 10\]"),
        ([numbers(0), np.zeros((10, 6), np.float32)], r"'y' is f32\[10, 6\], the program takes f32\[6, 10\]"),
        ([numbers(0), np.zeros((6, 10, 1), np.float32)], r"'y' is f32\[6, 10, 1\]"),
        ([numbers(0), 1.0], r"'y' is a float, the program takes f32\[6, 10\]"),
        ([numbers(0), [[1.0] * 10] * 6], "'y' is a list"),
        ([numbers(0), None], "'y' is a NoneType"),
        ([numbers(0), "text"], "'y' is a str"),
        ([numbers(0), np.ma.masked_array(numbers(0))], "'y' is a masked array"),
    ],
)
def test_wrong_arguments_are_named(multiply_add, values, message):
    with pytest.raises(ArgumentError, match=message):
        multiply_add.run(values)


def test_scalars_of_their_own_kind_are_taken():
    for dtype, good, bad in [
        ("f32", [1.5, 2, np.float32(3.0)], [True, np.float64(3.0), "1"]),
        ("bf16", [1.5, 2], [True]),
        ("i32", [7, -(2**31), np.int32(4)], [2**31, 1.0, True]),
        ("u8", [255], [256, -1, 0.5]),
        ("bool", [True, np.bool_(False)], [1, 0.0]),
    ]:
        size = DTYPES[dtype].itemsize
        program = load(
            inputs=[tensor("s", (), dtype)],
            outputs=[tensor("", (), dtype)],
            launches=[launch("copy", size, ["input", 0, 0], ["output", 0, 0])],
        )
        for value in good:
            assert program.run([value])[0] == np.asarray(value, DTYPES[dtype])
        for value in bad:
            with pytest.raises(ArgumentError, match="'s' is"):
                program.run([value])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_empty_tensors(dtype):
    size = DTYPES[dtype].itemsize
    for shape in [(3, 5), (0, 5), ()]:
        nbytes = int(np.prod(shape)) * size
        program = load(
            inputs=[tensor("x", shape, dtype)],
            outputs=[tensor("", shape, dtype)],
            launches=[launch("copy", nbytes, ["input", 0, 0], ["output", 0, 0], chunk=2)],
        )
        x = np.arange(int(np.prod(shape))).reshape(shape).astype(DTYPES[dtype])
        (result,) = program.run([x])
        assert result.dtype == DTYPES[dtype] and result.shape == shape and result.tobytes() == x.tobytes()
    assert DTYPES["bf16"] == ml_dtypes.bfloat16


@pytest.fixture(scope="module")
def checked():
    return load(
        status_slots=2,
        inputs=[tensor("index", (50,), "i64"), tensor("divisor", (50,), "i64")],
        launches=[
            launch("gather", 50, ["input", 0, 0], ["status", 0]),
            launch("divide", 50, ["input", 1, 0], ["status", 8]),
        ],
        checks=[
            {"kind": "index", "op": "take", "size": 10, "location": "model.py:7"},
            {"kind": "divide", "op": "floor_divide", "size": 0, "location": "model.py:9"},
        ],
    )


def test_an_index_out_of_range_raises(checked):
    good, bad = np.arange(50) % 10, np.arange(50) % 10
    good[7], bad[33] = -10, -11
    for _ in range(2):
        with pytest.raises(OutOfRangeError, match=r"model.py:7: take: index -11 is out of range.*of size 10") as caught:
            checked.run([bad, np.ones(50, np.int64)])
        assert isinstance(caught.value, IndexError) and caught.value.location == "model.py:7"
        assert checked.run([good, np.ones(50, np.int64)]) == []


def test_a_division_by_zero_warns(checked):
    divisor = np.ones(50, np.int64)
    divisor[3] = 0
    with pytest.warns(RuntimeWarning, match=r"integer division by zero in floor_divide \(model.py:9\)") as caught:
        checked.run([np.zeros(50, np.int64), divisor])
    assert caught[0].filename == __file__
    with pytest.raises(OutOfRangeError):
        checked.run([np.full(50, 10), divisor])


def test_python_threads_may_share_programs(multiply_add, scale):
    failures = []

    def work(seed):
        x, y = numbers(seed), numbers(seed + 100)
        expected, product = x * y + np.float32(2.5), x * y
        for _ in range(300):
            fine = (multiply_add.run([x, y])[0] == expected).all() and (scale.run([x.copy(), y])[0] == product).all()
            if not fine:
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def test_results_outlive_the_program_and_programs_are_freed():
    program = load(
        inputs=[tensor("x", (4,), "u8")],
        outputs=[tensor("", (4,), "u8")],
        launches=[launch("copy", 4, ["input", 0, 0], ["output", 0, 0])],
    )
    (result,) = program.run([np.arange(4, dtype=np.uint8)])
    alive, mapping = weakref.ref(program), weakref.ref(program._code._memory)
    del program
    gc.collect()
    assert alive() is None and mapping() is None
    assert result.tolist() == [0, 1, 2, 3]


def test_runs_do_not_leak(multiply_add):
    x, y = numbers(0), numbers(1)
    multiply_add.run([x, y])
    tracemalloc.start()
    for _ in range(50):
        multiply_add.run([x, y])
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(500):
        multiply_add.run([x, y])
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 5000


def test_inputs_are_not_kept_alive(multiply_add):
    x = numbers(0)
    gone = weakref.ref(x)
    multiply_add.run([x, numbers(1)])
    del x
    assert gone() is None


def test_overhead_of_a_run_with_ten_arguments():
    program = load(
        inputs=[tensor(f"x{i}", (4,), "u8") for i in range(10)],
        outputs=[tensor("", (4,), "u8")],
        launches=[launch("copy", 4, ["input", i, 0], ["output", 0, 0]) for i in range(10)],
    )
    arguments = [np.full(4, i, np.uint8) for i in range(10)]
    times = []
    for _ in range(500):
        start = time.perf_counter()
        (result,) = program.run(arguments)
        times.append(time.perf_counter() - start)
    assert result.tolist() == [9] * 4
    assert min(times) < 100e-6, "it is about 15 us on an idle machine"


def test_large_results_are_aligned_recycled_and_independent():
    release_kept()
    first = allocate_array((3 << 20,), np.dtype(np.uint8))
    first.fill(1)
    at = first.ctypes.data
    second = allocate_array((3 << 20,), np.dtype(np.uint8))
    second.fill(2)
    view = first[100:200]
    del first
    assert (view == 1).all() and at % (2 << 20) == 0
    third = allocate_array((3 << 20,), np.dtype(np.uint8))
    assert third.ctypes.data != at, "a view keeps its buffer"
    del view
    fourth = allocate_array((3 << 20,), np.dtype(np.uint8))
    assert fourth.ctypes.data == at, "a dropped buffer is used again"
    assert (second == 2).all()
    release_kept()


def test_too_large_allocations_are_refused_at_once(monkeypatch):
    for nbytes in (machine_memory() + 1, 1 << 61):
        with pytest.raises(OutOfMemoryError, match=f"cannot allocate {nbytes} bytes for a test") as caught:
            allocate(nbytes, "a test")
        assert isinstance(caught.value, MemoryError)
    monkeypatch.setattr(runtime_memory, "_available_memory", lambda: 65 << 20)
    with pytest.raises(OutOfMemoryError, match="free"):
        allocate(66 << 20)
    with pytest.raises(OutOfMemoryError, match="intermediate results"):
        load(arena_bytes=1 << 60)


def test_calls_during_a_run_of_the_same_thread_are_refused(multiply_add):
    """A signal handler may run between two slices of a run; it must not overwrite the run's pointers."""
    code = multiply_add._pool_code
    with pytest.raises(BluError, match="while this thread runs another"):
        host.run_exclusively(code, lambda _: multiply_add.run([numbers(0), numbers(1)]))
    with pytest.raises(BluError, match="during a run"):
        host.run_exclusively(code, lambda _: host.set_threads(2))
    assert multiply_add.run([numbers(0), numbers(1)])[0].shape == SHAPE


def test_a_program_asks_the_pool_that_there_is(multiply_add):
    x, y = numbers(0), numbers(1)
    before = multiply_add.run([x, y])[0]
    first, *_ = multiply_add._request
    try:
        host.set_threads(1)
        assert (multiply_add.run([x, y])[0] == before).all()
        assert multiply_add._request[0] is host._pool is not first
    finally:
        host.set_threads(2)
