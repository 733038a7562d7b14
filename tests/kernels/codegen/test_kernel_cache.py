"""The cache of kernels: what is compiled once is compiled for all programs, and what is damaged is compiled again."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blu
from blu.compiler import fingerprint
from blu.compiler.cache import KERNELS, Cache, CacheWarning
from blu.compiler.cli.cache import main as blu_cache
from blu.compiler.codegen.kernel_cache import KernelCache
from blu.compiler.codegen.kernel_texts import kernel_texts, stand_in_of
from blu.compiler.codegen.worker_pool import Task, WaitingTasks, WorkerPool
from blu.dialects.core.mlir import ir
from blu.errors import PassError
from blu.runtime.load import load_program

KEY, OTHER = "a" * 64, "b" * 64
TARGETS = ["cpu", "sm_80"]


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """An empty cache, and how often workers are asked for what."""
    monkeypatch.setenv("BLU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("BLU_PTXAS", "")
    counts: Counter[str] = Counter()
    ask = WorkerPool.ask

    def count(pool: WorkerPool, kind: str, target: dict[str, Any], text: str | bytes) -> bytes:
        counts[kind] += 1
        return ask(pool, kind, target, text)

    monkeypatch.setattr(WorkerPool, "ask", count)
    return counts


def compiled(function: Any, *shapes: tuple[int, ...], target: str = "cpu") -> dict[str, bytes]:
    """The members of a program, compiled in any case."""
    return blu.jit(function).trace(*map(blu.spec, shapes)).lower(target).executable()


def rows(x):
    return blu.softmax(blu.sin(x), axis=-1)


def product(x, w):
    return blu.gelu(x @ w)


@pytest.mark.parametrize("target", TARGETS)
def test_a_second_program_compiles_only_the_kernels_that_it_does_not_share(target: str, asked: Counter[str]) -> None:
    kind = "kernels" if target == "cpu" else "ptx"
    compiled(lambda x, w: (rows(x), product(x, w)), (16, 32), (32, 8), target=target)
    assert asked[kind] == 2
    # The product is the first kernel here, and it has another number there.
    compiled(lambda x, w: (product(x, w), blu.cumsum(x, 1), rows(x)), (16, 32), (32, 8), target=target)
    assert asked[kind] == 3
    compiled(lambda x: rows(x), (16, 33), target=target)
    assert asked[kind] == 4, "another shape"


@pytest.mark.parametrize("target", TARGETS)
def test_neither_lines_nor_numbers_of_kernels_are_part_of_their_code(target: str, asked: Counter[str]) -> None:
    first = compiled(lambda x: rows(x), (16, 32), target=target)
    sources = "def moved(x):\n    import blu\n\n\n    y = blu.sin(x)\n    return blu.softmax(y, axis=-1)"
    scope: dict[str, Any] = {}
    exec(compile(sources, "elsewhere.py", "exec"), scope)
    before = asked.total()
    second = compiled(scope["moved"], (16, 32), target=target)
    assert asked.total() == before
    code = [name for name in first if name.endswith((".o", ".ptx"))]
    assert code and [_without_place(first[name]) for name in code] == [_without_place(second[name]) for name in code]


def _without_place(code: bytes) -> bytes:
    """PTX without its first comment, which says the user's line."""
    return code.partition(b"\n")[2] if code.startswith(b"// ") else code


def test_code_of_a_gpu_says_the_users_line_of_its_kernel(asked: Counter[str]) -> None:
    ptx = compiled(rows, (6, 40), target="sm_80")["rows_0.ptx"].decode()
    assert ptx.startswith(f"// rows_0: {__file__}:{rows.__code__.co_firstlineno + 1}\n")


def test_twins_in_a_program_are_compiled_once(asked: Counter[str]) -> None:
    executable = compiled(lambda x, y: (blu.cumsum(x, 1), blu.cumsum(y, 1)), (4, 8), (4, 8))
    assert len(json.loads(executable["plan.json"])["launches"]) == 2 and asked["kernels"] <= 1


def test_another_process_finds_what_this_one_compiled(asked: Counter[str], tmp_path: Path) -> None:
    compiled(lambda x: rows(x), (16, 32))
    code = """
import logging, numpy, blu
logging.basicConfig(level="INFO")
x = numpy.ones((16, 32), "f4")
numpy.asarray(blu.jit(lambda x: (blu.softmax(blu.sin(x), axis=-1), blu.cumsum(x, 0)))(x))
""".replace("numpy.asarray(", "print(")
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert finished.returncode == 0 and "1 of 2 kernels compiled, 1 found compiled" in finished.stderr, finished.stderr


def test_programs_of_known_kernels_compute_what_others_do(asked: Counter[str]) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 32), (32, 8)))

    def program(x, w):
        return blu.erf(x) @ w, rows(x), blu.argsort(x, 1), blu.sum(x, 0), blu.sqrt(x * x)

    new, found = (load_program(compiled(program, x.shape, w.shape)).run([x, w]) for _ in range(2))
    assert asked["kernels"] == len({kernel.text for kernel in texts(program, x.shape, w.shape)})
    for left, right in zip(new, found, strict=True):
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right))
    np.testing.assert_array_equal(np.asarray(new[2]), np.argsort(x, 1, kind="stable"))
    np.testing.assert_allclose(np.asarray(new[3]), x.sum(0), rtol=1e-5, atol=1e-5)


def texts(function: Any, *shapes: tuple[int, ...], target: str = "cpu") -> list[Any]:
    """The texts of a program's kernels."""
    return list(kernel_texts(blu.jit(function).trace(*map(blu.spec, shapes)).lower(target).module))


def test_a_text_holds_what_its_kernel_refers_to_and_no_more() -> None:
    shared, plain = texts(lambda x, y: (x @ x, blu.sin(y)), (64, 64), (7,), target="sm_90a")
    assert b"blu_shared" in shared.text and b"blu_shared" not in plain.text
    for kernel in (shared, plain):
        assert b"blu.grid" not in kernel.text and b"blu.kernel" in kernel.text
        assert Path(__file__).name.encode() not in kernel.text
        with ir.Context():
            assert ".py" not in ir.Module.parse(kernel.text).operation.get_asm(enable_debug_info=True)


def test_names_keep_their_length_and_lose_their_number() -> None:
    assert [stand_in_of(name) for name in ("gemm_7", "loops_12_batch")] == ["gemm_q", "loops_qq_batch"]
    [kernel] = texts(lambda x: rows(x), (4, 8))
    assert kernel.named(b"rows_q.entry rows_q") == b"rows_0.entry rows_0"


def test_another_target_is_another_kernel(asked: Counter[str]) -> None:
    for target in ("x86-64-v3", "x86-64-v2", "x86-64-v3"):
        compiled(lambda x: rows(x), (16, 32), target=target)
    assert asked["kernels"] == 2


def test_the_kernel_that_fails_is_named_as_in_the_program(asked: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, kind: str, target: dict[str, Any], text: str | bytes) -> bytes:
        if kind == "kernels" and b"gemm_q" in text:
            raise PassError("no code at kernel 'gemm_q'", operation="gemm_q")
        return b""

    monkeypatch.setattr(WorkerPool, "ask", refuse)
    with pytest.raises(PassError, match="no code at kernel 'gemm_0'") as caught:
        compiled(lambda x, w: (rows(x), product(x, w)), (16, 32), (32, 8))
    assert caught.value.operation == "gemm_0" and Path(__file__).name in str(caught.value.location)


def test_passes_of_the_users_leave_the_cache_of_kernels_on(
    asked: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blu.compiler.cache.is_extended", lambda: True)
    for _ in range(2):
        blu.jit(lambda x: rows(x)).trace(blu.spec((16, 32))).compile()
    assert asked["kernels"] == 1


def test_what_makes_code_is_in_the_modules_that_are_part_of_its_key() -> None:
    used, package = set(), "blu.compiler.codegen"
    for name in fingerprint.CODE_GENERATION:
        for node in ast.walk(ast.parse(Path(importlib.import_module(name).__file__ or "").read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("blu"):
                names = [f"{package}.{alias.name}" for alias in node.names] if node.module == package else [node.module]
                used.update(names)
    assert f"{package}.llvm_skew" in used
    outside = used - {*fingerprint.CODE_GENERATION, *fingerprint.READ_BY_CODE_GENERATION}
    # What these do is to walk through a module, to raise errors, to declare classes, and to say where ptxas is.
    known = {"blu", "blu.dataclass", "blu.dialects.core.mlir", "blu.dialects.core.modules", "blu.errors"}
    assert outside <= known, "no key covers this"


def test_a_change_of_code_generation_is_another_key_and_one_of_a_pass_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def keys(changed: str) -> tuple[str, str]:
        read = fingerprint._content
        with monkeypatch.context() as patch:
            change = {changed: b"#"}
            patch.setattr(fingerprint, "_content", lambda path: read(path) + change.get(Path(path).name, b""))
            fingerprint._code_fingerprint.cache_clear()
            fingerprint.source_fingerprint.cache_clear()
            return fingerprint.code_key("text"), fingerprint.key_of("text")

    names = ("", "llvm_skew.py", "families.py", "fuse.py", "worker_pool.py")
    (code, program), generator, effort, rule, pool = map(keys, names)
    fingerprint._code_fingerprint.cache_clear()
    fingerprint.source_fingerprint.cache_clear()
    assert len({code, generator[0], effort[0]}) == 3 and rule[0] == pool[0] == code
    assert len({program, generator[1], effort[1], rule[1], pool[1]}) == 5


@pytest.fixture
def kernels(tmp_path: Path) -> KernelCache:
    return KernelCache(Cache(tmp_path / "cache"))


def file_of(kernels: KernelCache, key: str = KEY) -> Path:
    assert kernels.cache.directory is not None
    return kernels.cache.directory / KERNELS / f"{key}.kernel"


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_code_comes_back_as_it_was_put(kernels: KernelCache, size: int) -> None:
    assert kernels.get(KEY) is None
    kernels.put(KEY, bytes(range(256)) * size)
    assert kernels.get(KEY) == bytes(range(256)) * size and kernels.get(OTHER) is None
    assert file_of(kernels).stat().st_mode & 0o077 == 0, "others can read or write it"
    assert [path.name for path in file_of(kernels).parent.iterdir()] == [file_of(kernels).name]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text", "other key", "longer", "directory", "pipe"])
def test_damaged_code_is_reported_once_and_replaced(kernels: KernelCache, damage: str) -> None:
    kernels.put(KEY, b"code" * 100)
    path = file_of(kernels)
    data = path.read_bytes()
    if damage in ("directory", "pipe"):
        path.unlink()
        path.mkdir() if damage == "directory" else os.mkfifo(path)
    elif damage == "other key":
        kernels.put(OTHER, b"code of another kernel")
        path.write_bytes(file_of(kernels, OTHER).read_bytes())
    else:
        flipped = data[:-7] + bytes([data[-7] ^ 1]) + data[-6:]
        path.write_bytes({"cut": data[:-1], "flip": flipped, "longer": data + b"x"}.get(damage, damage.encode()))
        if damage == "empty":
            path.write_bytes(b"")
    with pytest.warns(CacheWarning, match="compiling again") as caught:
        assert kernels.get(KEY) is None
        assert kernels.get(KEY) is None
    kernels.put(KEY, b"code" * 100)
    assert len(caught) == 1 and kernels.get(KEY) == b"code" * 100


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_code_of_another_user_is_not_run(kernels: KernelCache) -> None:
    kernels.put(KEY, b"code")
    os.chown(file_of(kernels), 12345, 12345)
    with pytest.warns(CacheWarning, match="belongs to another user"):
        assert kernels.get(KEY) is None


def test_a_directory_that_others_can_write_is_neither_read_nor_written(kernels: KernelCache) -> None:
    kernels.put(KEY, b"code")
    assert kernels.cache.directory is not None
    kernels.cache.directory.chmod(0o777)
    with pytest.warns(CacheWarning, match="can be written by others"):
        assert kernels.get(KEY) is None
    kernels.put(OTHER, b"code")
    assert not file_of(kernels, OTHER).exists()


@pytest.mark.parametrize("place", ["below a file", "proc"])
def test_a_directory_that_cannot_be_used_costs_one_warning(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    directory = {"below a file": tmp_path / "file" / "cache", "proc": Path("/proc/blu-cache")}[place]
    kernels = KernelCache(Cache(directory))
    with pytest.warns(CacheWarning, match="compile cache") as caught:
        for key in (KEY, OTHER):
            kernels.put(key, b"code")
            assert kernels.get(key) is None
    assert len(caught) == 1


def test_what_was_used_longest_ago_makes_room_for_programs_and_kernels(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit=35_000)
    kernels = KernelCache(cache)
    cache.put(OTHER, {"kernels.o": bytes(10_000)}, {})
    keys = [letter * 64 for letter in "cde"]
    os.utime(tmp_path / "cache" / "entries" / f"{OTHER}.blu", times=(time.time() - 50,) * 2)
    for age, key in enumerate(keys[:2]):
        kernels.put(key, bytes(10_000))
        os.utime(file_of(kernels, key), times=(time.time() - 100 + age,) * 2)
    assert kernels.get(keys[0]) is not None  # now the one used last
    kernels.put(keys[2], bytes(10_000))
    assert [kernels.get(key) is not None for key in keys] == [True, False, True]
    cache.put("f" * 64, {"kernels.o": bytes(10_000)}, {})
    assert cache.get(OTHER) is None and kernels.get(keys[0]) is not None


def test_room_is_looked_for_at_the_first_write_and_after_a_share_of_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, looked = Cache(tmp_path / "cache", limit=64_000), []
    monkeypatch.setattr(Cache, "_evict", lambda self, keep: looked.append(keep.stem))
    for number in range(7):
        KernelCache(cache).put(f"{number:064}", bytes(300))
    assert [int(name) for name in looked] == [0, 4]


def test_processes_rely_on_what_another_saw_a_minute_ago(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(Cache, "_evict", lambda self, keep: looked.append(keep.stem))
    processes = [KernelCache(Cache(tmp_path / "cache", limit=64_000)) for _ in range(4)]
    processes[0].put(f"{0:064}", bytes(300))
    processes[1].put(f"{1:064}", bytes(300))
    assert [int(name) for name in looked] == [0]
    processes[2].put(f"{2:064}", bytes(1_000))  # a share of the limit at once
    os.utime(tmp_path / "cache" / "looked", times=(time.time() - 61,) * 2)
    processes[3].put(f"{3:064}", bytes(300))
    assert [int(name) for name in looked] == [0, 2, 3]


def test_a_cache_that_is_off_keeps_no_kernels() -> None:
    kernels = KernelCache(Cache(None))
    kernels.put(KEY, b"code")
    assert kernels.get(KEY) is None and kernels.cache.kernels() == (0, 0)


def test_kernels_are_listed_and_cleared(asked: Counter[str], capsys: pytest.CaptureFixture[str]) -> None:
    compiled(lambda x: rows(x), (16, 32))
    assert blu_cache([]) == 0
    assert "0 programs and the code of 2 kernels" in capsys.readouterr().out  # one is the pool of threads
    assert blu_cache(["clear"]) == 0 and blu_cache([]) == 0
    assert "0 programs and the code of 0 kernels, 0.0 MB" in capsys.readouterr().out


def test_nothing_is_compiled_twice_where_nothing_can_be_kept(
    asked: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLU_CACHE_LIMIT", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count in (1, 2):
            compiled(lambda x: rows(x), (16, 32))
            assert asked["kernels"] == count


def test_a_commands_progress_says_how_many_kernels_are_new(
    asked: Counter[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from blu.compiler.cli.compile import main

    (tmp_path / "model.py").write_text(
        "import blu\ndef f(x): return blu.softmax(blu.sin(x), axis=-1)\ndef f_example(): return (blu.spec((4, 8)),)\n"
    )
    words = [f"{tmp_path}/model.py::f", "-o", f"{tmp_path}/f.blu", "--target=x86-64-v3", "-v"]
    for said in ("1 of 1 kernels compiled", "0 of 1 kernels compiled, 1 found compiled"):
        assert main(words) == 0
        assert said in capsys.readouterr().err


def test_of_tasks_that_wait_the_longest_is_begun_first() -> None:
    waiting = WaitingTasks[str]()
    for number, length in enumerate((2, 9, 9, 4)):
        waiting.put(number, Task(lambda length=length: f"{length}", length))
    assert [waiting.do_longest() for _ in range(4)] == [(1, "9"), (2, "9"), (3, "4"), (0, "2")]


def test_results_are_in_the_order_of_tasks_and_errors_are_raised() -> None:
    pool = WorkerPool(2)
    assert pool.side_by_side(Task(lambda n=n: n, 10 - n % 3) for n in range(20)) == list(range(20))
    assert pool.side_by_side([]) == []
    with pytest.raises(ZeroDivisionError):
        pool.side_by_side([Task(lambda: 1), Task(lambda: 1 // 0)])
