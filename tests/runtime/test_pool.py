"""The native thread pool: every block exactly once, the same bits for any number of threads, stops when told to."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import contextmanager

import llvmlite.binding as llvm
import numpy as np
import pytest

from blu.errors import BluError, CacheError
from blu.plan.schema import MAX_BLOCKS
from blu.runtime import host
from blu.runtime.host import load_object
from blu.runtime.pool import ThreadPool, default_threads, pool_path, pool_text
from tests.support.folders import ROOT
from tests.support.kernels import native_code as native

COUNT = native.loop_kernel(
    "count",
    """  %at = getelementptr i64, ptr %p0, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, 1
  store i64 %new, ptr %at""",
    1,
)
# Each block sums its own row, in order, so the bits depend on nothing but the block.
ROW_SUM = native.loop_kernel(
    "row_sum",
    """  %row = mul i64 %i, 100
  br label %column
column:
  %j = phi i64 [ 0, %body ], [ %j.next, %column ]
  %sum = phi float [ 0.0, %body ], [ %sum.next, %column ]
  %index = add i64 %row, %j
  %at = getelementptr float, ptr %p0, i64 %index
  %x = load float, ptr %at
  %sum.next = fadd float %sum, %x
  %j.next = add i64 %j, 1
  %last = icmp eq i64 %j.next, 100
  br i1 %last, label %store, label %column
store:
  %out = getelementptr float, ptr %p1, i64 %i
  store float %sum.next, ptr %out""",
    2,
)
# Each block keeps a core busy for about a millisecond (a chain of dependent multiplications).
SLOW = native.loop_kernel(
    "slow",
    """  %at = getelementptr i64, ptr %p0, i64 %i
  br label %spin
spin:
  %j = phi i64 [ 0, %body ], [ %j.next, %spin ]
  %x = phi i64 [ %i, %body ], [ %x.next, %spin ]
  %x.mul = mul i64 %x, 6364136223846793005
  %x.next = xor i64 %x.mul, %j
  %j.next = add i64 %j, 1
  %last = icmp eq i64 %j.next, 800000
  br i1 %last, label %store, label %spin
store:
  store i64 %x.next, ptr %at""",
    1,
)


@pytest.fixture(scope="module")
def kernels():
    return load_object(native.compile_object(COUNT + ROW_SUM + SLOW))


@pytest.fixture
def make_pool():
    code = load_object(native.pool_object())
    pools = []

    def make(threads):
        pools.append(ThreadPool(code, threads))
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def table_of(*rows):
    return np.array(rows, np.int64)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_20000_launches_run_every_block_exactly_once(kernels, make_pool, threads):
    pool = make_pool(threads)
    counts = np.zeros(67, np.int64)
    args = native.pointers(counts)
    entry = kernels.address("count.entry")
    shapes = [(67, 1), (67, 5), (1, 1), (0, 1), (40, 64), (33, 8), (66, 3), (2, 1)]
    table = table_of(*[(entry, native.address(args), *shape) for shape in shapes * 250])
    for _ in range(10):
        pool.run(native.address(table), len(table))
    expected = sum(2500 * (np.arange(67) < blocks) for blocks, _ in shapes)
    assert (counts == expected).all()


@pytest.mark.parametrize("threads", [2, 4])
def test_workers_wake_from_sleep(kernels, make_pool, threads):
    pool = make_pool(threads)
    counts = np.zeros(64, np.int64)
    args = native.pointers(counts)
    for round_ in range(1, 21):
        assert pool.launch(kernels.address("count.entry"), native.address(args), 64, 1) == 64
        assert (counts == round_).all()
        time.sleep(0.01)


def test_workers_take_part(kernels, make_pool):
    pool = make_pool(2)
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU")
    results, args = np.zeros(256, np.int64), None
    args = native.pointers(results)
    before = time.process_time() - time.thread_time()
    pool.launch(kernels.address("slow.entry"), native.address(args), 256, 1)
    assert time.process_time() - time.thread_time() - before > 0.01


def test_bits_do_not_depend_on_threads_or_chunks(kernels, make_pool):
    data = np.random.default_rng(0).standard_normal((50, 100)).astype(np.float32)
    results = []
    for threads in (1, 2, 4):
        pool = make_pool(threads)
        for chunk in (1, 3, 7, 100):
            out = np.zeros(50, np.float32)
            args = native.pointers(data, out)
            pool.launch(kernels.address("row_sum.entry"), native.address(args), 50, chunk)
            results.append(out.tobytes())
    assert len(set(results)) == 1
    assert np.allclose(np.frombuffer(results[0], np.float32), data.sum(axis=1), atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_launches_of_a_table_run_in_order(kernels, make_pool, threads):
    """The second launch sums what the first has counted up, in the same memory."""
    pool = make_pool(threads)
    bits, out = np.zeros((40, 100), np.float32), np.zeros(40, np.float32)
    count, total = native.pointers(bits), native.pointers(bits, out)
    table = table_of(
        (kernels.address("count.entry"), native.address(count), 2000, 16),
        (kernels.address("row_sum.entry"), native.address(total), 40, 1),
    )
    for round_ in range(1, 50):
        pool.run(native.address(table), 2)
        rows = np.full((40, 50), round_, np.int64).view(np.float32).reshape(40, 100)
        expected = np.zeros(40, np.float32)
        for column in range(100):
            expected += rows[:, column]
        assert (out == expected).all()


@contextmanager
def cancelling(pool, results):
    """Cancel what the block runs, once a first result is written."""

    def cancel():
        while not results.any():
            time.sleep(0.001)
        pool.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    yield
    canceller.join()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_cancel_stops_a_launch_and_leaves_the_pool_usable(kernels, make_pool, threads):
    pool = make_pool(threads)
    results = np.zeros(20_000, np.int64)
    args = native.pointers(results)
    table = table_of((kernels.address("slow.entry"), native.address(args), 20_000, 2))
    with cancelling(pool, results), pytest.raises(BluError, match="cancelled at launch 0 of 1"):
        pool.run(native.address(table), 1)
    done = np.flatnonzero(results)
    assert 0 < len(done) < 20_000
    assert len(done) >= done[-1], "blocks are claimed in order, none is left out"
    counts = np.zeros(64, np.int64)
    args = native.pointers(counts)
    pool.launch(kernels.address("count.entry"), native.address(args), 64, 1)
    assert (counts == 1).all()


def test_a_run_of_many_slices_runs_every_block_once(kernels, make_pool):
    """Native code returns to Python every 50 ms and goes on at the block where it stopped."""
    pool = make_pool(2)
    results, counts = np.zeros(300, np.int64), np.zeros(300, np.int64)
    slow, count = native.pointers(results), native.pointers(counts)
    table = table_of(
        (kernels.address("slow.entry"), native.address(slow), 300, 1),
        (kernels.address("count.entry"), native.address(count), 300, 7),
    )
    pool.run(native.address(table), 2)
    assert results[1:].all() and (counts == 1).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_arrays_are_placed_and_the_table_is_run_in_one_call(kernels, make_pool, threads):
    """The rows of a table that takes several slices, whose kernels find arrays of this run, at offsets."""
    pool = make_pool(threads)
    args, addresses, slow = np.zeros(3, np.int64), np.zeros(2, np.int64), np.zeros(120, np.int64)
    args[1] = native.address(slow)
    table = table_of(
        (kernels.address("count.entry"), native.address(args), 40, 7),
        (kernels.address("slow.entry"), native.address(args[1:]), 120, 1),
        (kernels.address("count.entry"), native.address(args[2:]), 40, 7),
    )
    moves = table_of((0, 0, 0), (2, 1, 80))
    objects = np.zeros(2, np.int64)
    placing = (native.address(objects), 2, native.address(addresses), native.address(moves), 2, native.address(args))
    request = pool.request(native.address(table), 3, *placing)
    for _ in range(2):
        first, last = np.zeros(40, np.int64), np.zeros(50, np.int64)
        objects[:] = id(first), id(last)
        pool.begin(native.address(request), native.address(table), 3)
        assert (first == 1).all() and (last == [0] * 10 + [1] * 40).all()
        assert addresses.tolist() == [native.address(first), native.address(last)]
    assert slow[1:].all()


def test_what_has_begun_can_be_cancelled(kernels, make_pool):
    pool = make_pool(2)
    args, results = np.zeros(1, np.int64), np.zeros(20_000, np.int64)
    table = table_of((kernels.address("slow.entry"), native.address(args), 20_000, 2))
    objects, addresses, moves = table_of(id(results)), np.zeros(1, np.int64), table_of((0, 0, 0))
    placing = (native.address(objects), 1, native.address(addresses), native.address(moves), 1, native.address(args))
    request = pool.request(native.address(table), 1, *placing)
    with cancelling(pool, results), pytest.raises(BluError, match="cancelled at launch 0 of 1"):
        pool.begin(native.address(request), native.address(table), 1)
    assert 0 < np.count_nonzero(results) < 20_000


def test_impossible_grids_are_refused(kernels, make_pool):
    pool = make_pool(1)
    with pytest.raises(BluError, match="blocks"):
        pool.launch(kernels.address("count.entry"), 0, MAX_BLOCKS + 1, 1)
    with pytest.raises(BluError, match="chunk"):
        pool.launch(kernels.address("count.entry"), 0, 1, 0)


def test_closed_pool_has_no_threads_left(make_pool):
    before = threading.active_count()
    pool = make_pool(4)
    assert threading.active_count() == before + 3
    pool.close()
    assert threading.active_count() == before
    pool.close()


def test_number_of_threads(monkeypatch):
    monkeypatch.setenv("BLU_NUM_THREADS", "3")
    assert default_threads() == 3
    monkeypatch.delenv("BLU_NUM_THREADS")
    assert default_threads() == len(os.sched_getaffinity(0))
    for wrong in ("0", "-1", "two", "2000", "1.5"):
        monkeypatch.setenv("BLU_NUM_THREADS", wrong)
        with pytest.raises(BluError, match="BLU_NUM_THREADS"):
            default_threads()


def test_pool_of_another_version_is_refused():
    text = pool_text(native.TRIPLE).replace("ret i32 2", "ret i32 7")
    with pytest.raises(CacheError, match=r"version 7.*version 2"):
        ThreadPool(load_object(native.compile_object(text)), 1)


def test_pool_compiles_for_aarch64():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    triple = "aarch64-unknown-linux-gnu"
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2)
    module = llvm.parse_assembly(pool_text(triple))
    module.triple, module.data_layout = triple, str(machine.target_data)
    module.verify()
    assembly = machine.emit_assembly(module)
    assert "yield" in assembly and "blu_run:" in assembly
    assert pool_path().read_text() == pool_text("x86_64-pc-linux-gnu")


def run_script(text, **environment):
    """A fresh interpreter that has `native`, `np`, `Program` and a program `slow` of 20 s."""
    prelude = """
        import sys
        sys.path.insert(0, ROOT)
        import numpy as np, os, signal, threading, time
        from tests.runtime.test_pool import SLOW, COUNT
        from tests.support.kernels import native_code as native
        from blu.runtime import Program, host
        def make(kernel, blocks):
            out = {"name": "", "shape": [blocks], "dtype": "i64", "donated": True}
            plan = {"inputs": [out], "outputs": [out | {"input": 0}]}
            plan["launches"] = [{"kernel": kernel, "blocks": blocks, "chunk": 1, "args": [["input", 0, 0]]}]
            return Program.load(native.members(SLOW + COUNT, plan))
    """
    prelude = textwrap.dedent(prelude).replace("ROOT", repr(str(ROOT)))
    command = [sys.executable, "-c", prelude + textwrap.dedent(text)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )


@pytest.mark.parametrize("threads", ["1", "2"])
def test_control_c_interrupts_within_seconds(threads):
    process = run_script(
        """
        program = make("slow", 20_000)
        try:
            print("ready", flush=True)
            program.run([np.zeros(20_000, np.int64)])
        except KeyboardInterrupt:
            worked = time.process_time()
            counts = make("count", 100).run([np.zeros(100, np.int64)])[0]
            print("interrupted", (counts == 1).all(), worked, flush=True)
        """,
        BLU_NUM_THREADS=threads,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out.startswith("interrupted True ") and not err
    assert float(out.split()[2]) < 8, "seconds of processors, of the twenty that it takes"


def test_child_of_fork_has_a_pool_of_its_own():
    process = run_script(
        """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        program = make("count", 1000)
        program.run([np.zeros(1000, np.int64)])
        child = os.fork()
        if not child:
            ok = all((program.run([np.full(1000, i)])[0] == i + 1).all() for i in range(200))
            sys.exit(0 if ok and threading.active_count() == 4 else 3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), (program.run([np.zeros(1000, int)])[0] == 1).all())
        """,
        BLU_NUM_THREADS="4",
    )
    out, err = process.communicate(timeout=60)
    assert out == "0 True\n" and not err


def test_interpreter_exits_while_another_thread_runs():
    process = run_script(
        """
        program = make("slow", 20_000)
        threading.Thread(target=program.run, args=([np.zeros(20_000, np.int64)],), daemon=True).start()
        time.sleep(0.3)
        print("leaving", flush=True)
        """,
        BLU_NUM_THREADS="2",
    )
    out, err = process.communicate(timeout=30)
    assert (out, err, process.returncode) == ("leaving\n", "", 0)


def test_importing_the_runtime_imports_no_compiler():
    text = "import sys, blu.runtime; print([m for m in sys.modules if 'mlir' in m or 'llvm' in m])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr


def test_threads_can_be_changed(monkeypatch):
    monkeypatch.setenv("BLU_NUM_THREADS", "2")
    code = load_object(native.pool_object())
    host.set_threads(3)
    assert host.run_exclusively(code, lambda pool: pool.threads) == 3
    host.set_threads(1)
    assert host.run_exclusively(code, lambda pool: pool.threads) == 1
    with pytest.raises(BluError, match="threads=0"):
        host.set_threads(0)
