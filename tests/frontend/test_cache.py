"""Tests of the compile cache: hits, damage, strangers, concurrency, and directories that cannot be used."""

from __future__ import annotations

import errno
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from blu.compiler import cache as cache_module
from blu.compiler.cache import Cache, CacheWarning, default_cache
from blu.compiler.fingerprint import key_of, source_fingerprint
from blu.errors import SettingError

KEY, OTHER = "a" * 64, "b" * 64
MEMBERS = {"plan.json": b"{}", "kernels.o": b"\x7fELF" * 100}
DETAILS = {"name": "gpt2 decode", "target": {"name": "x86-64-v3"}}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def entry(cache: Cache, key: str = KEY) -> Path:
    assert cache.directory is not None
    return cache.directory / "entries" / f"{key}.blu"


def contents(found: dict[str, bytes] | None) -> dict[str, bytes] | None:
    return found and {name: data for name, data in found.items() if name != "manifest.json"}


def test_an_entry_comes_back_as_it_was_put(cache: Cache) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, MEMBERS, DETAILS)
    assert contents(cache.get(KEY)) == MEMBERS
    assert cache.get(OTHER) is None
    [listed] = cache.entries()
    assert (listed.key, listed.name, listed.target) == (KEY, "gpt2 decode", "x86-64-v3")


def test_a_request_is_answered_by_its_entry(cache: Cache) -> None:
    cache.put(KEY, MEMBERS, DETAILS)
    assert cache.recall(OTHER) is None
    cache.remember(OTHER, KEY)
    assert contents(cache.recall(OTHER)) == MEMBERS
    assert (cache.directory / "requests" / OTHER).write_text("../../etc/passwd")
    assert cache.recall(OTHER) is None


def test_what_was_compiled_once_is_not_compiled_again(cache: Cache) -> None:
    compiled = []

    def compile() -> dict[str, bytes]:
        compiled.append(1)
        return MEMBERS

    first = cache.get_or_compile(KEY, compile, DETAILS)
    second = cache.get_or_compile(KEY, compile, DETAILS)
    assert (first[1], second[1], len(compiled)) == (False, True, 1)
    assert contents(dict(second[0])) == MEMBERS


def test_entries_do_not_wait_for_the_disk(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: pytest.fail("a compilation waits for the disk"))
    cache.put(KEY, MEMBERS, DETAILS)
    assert contents(cache.get(KEY)) == MEMBERS


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "text", "other key", "format"])
def test_a_damaged_entry_is_reported_once_and_replaced(cache: Cache, damage: str) -> None:
    cache.put(KEY, MEMBERS, DETAILS)
    data = bytearray(entry(cache).read_bytes())
    if damage == "truncate":
        data = data[: len(data) // 2]
    elif damage == "flip":
        data[data.index(b"\x7fELF") + 8] ^= 1
    elif damage in ("empty", "text"):
        data = bytearray(b"" if damage == "empty" else b"not a zip at all")
    elif damage == "format":
        data = bytearray(bytes(data).replace(b'"format": 2', b'"format": 9'))
    if damage == "other key":
        cache.put(OTHER, MEMBERS, DETAILS)
        data = bytearray(entry(cache, OTHER).read_bytes())
    entry(cache).write_bytes(data)
    with pytest.warns(CacheWarning, match="compiling again") as caught:
        assert cache.get(KEY) is None
        members, hit = cache.get_or_compile(KEY, lambda: MEMBERS, DETAILS)
    assert (len(caught), hit, members) == (1, False, MEMBERS)
    assert contents(cache.get(KEY)) == MEMBERS


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_an_entry_of_another_user_is_replaced(cache: Cache) -> None:
    cache.put(KEY, MEMBERS, DETAILS)
    os.chown(entry(cache), 12345, 12345)
    with pytest.warns(CacheWarning, match="belongs to another user"):
        assert cache.get(KEY) is None
    cache.put(KEY, MEMBERS, DETAILS)
    assert contents(cache.get(KEY)) == MEMBERS


def test_a_directory_that_others_can_write_is_not_used(cache: Cache) -> None:
    cache.put(KEY, MEMBERS, DETAILS)
    cache.directory.chmod(0o777)
    with pytest.warns(CacheWarning, match="can be written by others"):
        assert cache.get(KEY) is None


def unusable(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """A cache whose directory cannot be written, in one of the ways there are (as root, modes do not count)."""
    if kind == "below a file":
        (tmp_path / "file").write_text("")
        return Cache(tmp_path / "file" / "cache")
    if kind == "proc":
        return Cache(Path("/proc/blu-cache"))
    errno, text = {"full": (28, "No space left on device"), "read-only": (30, "Read-only file system")}[kind]

    def refuse(*arguments: object, **keywords: object) -> None:
        raise OSError(errno, text)

    monkeypatch.setattr("tempfile.mkstemp" if kind == "full" else "pathlib.Path.mkdir", refuse)
    return Cache(tmp_path / "cache")


@pytest.mark.parametrize("kind", ["below a file", "proc", "full", "read-only"])
def test_a_directory_that_cannot_be_used_costs_one_warning(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = unusable(tmp_path, kind, monkeypatch)
    with pytest.warns(CacheWarning, match="compile cache") as caught:
        for key in (KEY, OTHER):
            members, hit = cache.get_or_compile(key, lambda: MEMBERS, DETAILS)
            assert (members, hit) == (MEMBERS, False)
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.recall(OTHER) is None


def test_a_directory_deleted_while_running_is_made_again(cache: Cache) -> None:
    import shutil

    cache.put(KEY, MEMBERS, DETAILS)
    shutil.rmtree(cache.directory)
    assert cache.get(KEY) is None
    cache.put(KEY, MEMBERS, DETAILS)
    assert contents(cache.get(KEY)) == MEMBERS


def test_what_was_used_longest_ago_is_evicted(tmp_path: Path) -> None:
    keys = [character * 64 for character in "cdef"]
    cache = Cache(tmp_path / "cache", limit=35_000)
    for age, key in enumerate(keys[:3]):
        cache.put(key, {"kernels.o": bytes(10_000)}, {})
        os.utime(entry(cache, key), times=(time.time() - 100 + age,) * 2)
    assert cache.get(keys[0]) is not None  # now the one used last
    leftover = entry(cache).with_name(".killed.tmp")
    leftover.write_bytes(b"")
    os.utime(leftover, times=(0, 0))
    cache.put(keys[3], {"kernels.o": bytes(10_000)}, {})
    assert [cache.get(key) is not None for key in keys] == [True, False, True, True]
    assert not leftover.exists()


def test_clear_deletes_everything(cache: Cache) -> None:
    cache.put(KEY, MEMBERS, DETAILS)
    cache.remember(OTHER, KEY)
    assert cache.clear() == 1
    assert cache.entries() == []
    assert cache.recall(OTHER) is None


def test_a_cache_that_is_off_keeps_nothing() -> None:
    cache = Cache(None)
    assert cache.get_or_compile(KEY, lambda: MEMBERS, DETAILS) == (MEMBERS, False)
    cache.remember(OTHER, KEY)
    assert (cache.get(KEY), cache.recall(OTHER), cache.entries(), cache.clear()) == (None, None, [], 0)


def compile_slowly(directory: Path) -> None:
    def compile() -> dict[str, bytes]:
        with (directory / "compiled").open("a") as file:
            file.write("x")
        time.sleep(0.3)
        return MEMBERS

    members, _ = Cache(directory / "cache").get_or_compile(KEY, compile, DETAILS)
    assert contents(dict(members)) == MEMBERS


def test_processes_that_ask_at_once_compile_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=compile_slowly, args=(tmp_path,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    assert (tmp_path / "compiled").read_text() == "x"


def test_without_locks_compilation_goes_on(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **keywords: object) -> None:
        raise OSError(errno.ENOLCK, "no locks on this file system")

    monkeypatch.setattr("fcntl.flock", refuse)
    assert cache.get_or_compile(KEY, lambda: MEMBERS, DETAILS) == (MEMBERS, False)
    assert contents(cache.get(KEY)) == MEMBERS


def test_keys_tell_requests_apart() -> None:
    keys = {key_of("a", "b"), key_of("ab"), key_of("ab", ""), key_of("a", "c")}
    assert len(keys) == 4
    assert key_of("a", "b") in keys
    assert len(source_fingerprint()) == 64


def test_the_environment_chooses_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLU_CACHE_DIR", str(tmp_path / "here"))
    assert default_cache().directory == tmp_path / "here"
    monkeypatch.setenv("BLU_CACHE_LIMIT", "0")
    assert default_cache().directory is None
    monkeypatch.setenv("BLU_CACHE_LIMIT", "many")
    with pytest.raises(SettingError, match="BLU_CACHE_LIMIT='many'"):
        default_cache()


def test_without_a_home_directory_there_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "BLU_CACHE_DIR", "BLU_CACHE_LIMIT", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    cache_module._cache_of.cache_clear()
    with pytest.warns(CacheWarning, match="no home directory") as caught:
        caches = [default_cache(), default_cache()]
    assert len(caught) == 1
    assert [cache.directory for cache in caches] == [None, None]
    cache_module._cache_of.cache_clear()


def test_looking_into_the_cache_imports_no_mlir() -> None:
    code = (
        "import sys; from blu.compiler.cache import default_cache; from blu.compiler.fingerprint import key_of;"
        "default_cache().recall(key_of('x')); sys.exit('torch_mlir' in sys.modules or 'llvmlite' in sys.modules)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("place", ["entries", "requests"])
@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_what_is_no_file_in_the_cache_is_replaced_or_ignored(cache: Cache, place: str, kind: str) -> None:
    cache.put(KEY, MEMBERS, DETAILS)
    cache.remember(OTHER, KEY)
    assert cache.directory is not None
    path = entry(cache) if place == "entries" else cache.directory / "requests" / OTHER
    path.unlink()
    path.mkdir() if kind == "directory" else os.mkfifo(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert cache.recall(OTHER) is None
        listed = [item.name for item in cache.entries()]
        members, was_there = cache.get_or_compile(KEY, lambda: MEMBERS, DETAILS)
    assert contents(dict(members)) == MEMBERS and was_there == (place == "requests")
    if place == "entries":
        assert "no regular file" in str(caught[0].message) and listed == ["damaged"] and len(caught) == 1
        assert contents(cache.recall(OTHER)) == MEMBERS, "it was not replaced"


def test_nothing_is_written_where_others_can_write(tmp_path: Path) -> None:
    directory = tmp_path / "open"
    directory.mkdir()
    directory.chmod(0o777)
    cache = Cache(directory)
    with pytest.warns(CacheWarning, match="can be written by others; not used") as caught:
        assert cache.get_or_compile(KEY, lambda: MEMBERS, DETAILS) == (MEMBERS, False)
        cache.remember(OTHER, KEY)
        assert cache.recall(OTHER) is None
    assert len(caught) == 1 and not list(directory.iterdir())
