"""Texts as training data: one shard for all of them, made once, and a part of it for validation."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from blu.errors import DataError
from blu.frontend.io.data.training_data import open_training_data, tokenized
from blu.frontend.io.tokenizer import ByteTokenizer

VOCABULARY = 257


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    for number in range(10):
        (folder / ("deep" if number % 2 else ".") / f"{number}.txt").write_text(f"text {number}\n" * 20)
    (folder / "picture.png").write_bytes(b"\x89PNG\0")
    (folder / "empty.txt").touch()
    return folder


def opened(*patterns: str | Path, **options):
    return open_training_data([str(pattern) for pattern in patterns], vocab_size=VOCABULARY, **options)


def test_a_directory_becomes_one_shard_of_texts_with_ends(texts: Path, tmp_path: Path) -> None:
    data = opened(texts, cache=tmp_path / "cache", split=0.0)
    [file] = data.train.files
    assert file.kind == "llm.c" and data.validation is None
    documents = bytes(file.tokens[file.tokens < 256].astype(np.uint8)).decode()
    assert sorted(documents.splitlines()) == sorted(f"text {number}" for number in range(10) for _ in range(20))
    assert (file.tokens == 256).sum() == 10 and file.tokens[-1] == 256


def test_texts_are_tokenized_once_wherever_they_are(texts: Path, tmp_path: Path) -> None:
    paths = sorted(texts.rglob("[0-9].txt"))
    first = tokenized(paths, ByteTokenizer(), tmp_path / "cache")
    os.utime(first, (1, 1))
    moved = tmp_path / "moved"
    texts.rename(moved)
    again = tokenized(sorted(moved.rglob("[0-9].txt"), reverse=True), ByteTokenizer(), tmp_path / "cache")
    assert again == first and first.stat().st_mtime == 1
    assert tokenized(sorted(moved.rglob("[0-9].txt"))[1:], ByteTokenizer(), tmp_path / "cache") != first
    assert tokenized(sorted(moved.rglob("[0-9].txt")), ByteTokenizer(256), tmp_path / "cache") != first


def test_a_part_of_the_texts_is_for_validation(texts: Path, tmp_path: Path) -> None:
    whole = opened(texts, cache=tmp_path, split=0.0).train.num_tokens
    data = opened(texts, cache=tmp_path)
    assert data.validation is not None and data.validation.num_tokens == pytest.approx(whole * 0.05, abs=1)
    assert data.train.num_tokens + data.validation.num_tokens == whole
    half = opened(texts, cache=tmp_path, split=0.5)
    assert half.validation is not None and half.validation.num_tokens == pytest.approx(whole * 0.5, abs=1)


def test_shards_are_taken_as_they_are(tmp_path: Path) -> None:
    for name in ("a_train.bin", "b_train.bin", "a_val.bin"):
        np.arange(100, dtype="<u2").tofile(tmp_path / name)
    data = opened(tmp_path / "*.bin", validation=[str(tmp_path / "*_val.bin")])
    assert [file.path.name for file in data.train.files] == ["a_train.bin", "b_train.bin"]
    assert data.validation is not None and data.validation.files[0].path.name == "a_val.bin"
    assert data.tokenizer is None and opened(tmp_path / "a_train.bin").validation is None
    assert isinstance(opened(tmp_path / "a_train.bin", tokenizer=ByteTokenizer()).tokenizer, ByteTokenizer)


def test_names_with_the_characters_of_patterns(tmp_path: Path) -> None:
    (tmp_path / "odd [1].txt").write_text("text " * 20)
    assert opened(tmp_path / "odd [1].txt", cache=tmp_path / "[cache]", split=0.0).train.num_tokens == 101


def test_what_is_no_utf8_is_left_out_of_directories_and_refused_by_name(texts: Path, tmp_path: Path) -> None:
    (texts / "latin.txt").write_bytes(b"caf\xe9 " * 10)
    with pytest.warns(UserWarning, match=r"not UTF-8, left out: .*latin\.txt"):
        data = opened(texts, cache=tmp_path, split=0.0)
    assert (data.train.files[0].tokens == 256).sum() == 10
    (texts / "zeros.txt").write_bytes(b"\0" * 100)
    with pytest.raises(DataError, match="neither text"):
        opened(texts / "zeros.txt", cache=tmp_path)


def test_a_cache_that_cannot_be_written(texts: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="the tokens cannot be kept"):
        opened(texts, cache=tmp_path / "file" / "cache")


def test_a_tokenizer_beyond_sixteen_bits(texts: Path) -> None:
    with pytest.raises(DataError, match="the tokenizer has 70000 tokens"):
        opened(texts, tokenizer=ByteTokenizer(70000))


def test_opening_again_is_fast(tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_text("some words on a line\n" * 500_000)
    opened(tmp_path / "big.txt", cache=tmp_path / "cache")
    start = time.process_time()
    opened(tmp_path / "big.txt", cache=tmp_path / "cache")
    assert time.process_time() - start < 0.5


def test_tokens_of_texts_are_kept_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLU_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "x.txt").write_text("some text\n" * 100)
    open_training_data([str(tmp_path / "x.txt")], vocab_size=257)
    assert len(list((tmp_path / "cache" / "tokens").glob("*.bin"))) == 1
