"""Training data: llm.c and nanoGPT shards, text, windows in batches, resuming, and files that are not what they say."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from blu.errors import DataError
from blu.frontend.io import TokenShards, load_tokenizer
from blu.frontend.io.data import token_files
from blu.frontend.io.data.window_order import permuted


def llm_c(path: Path, tokens, *, magic: int = 20240520, version: int = 1, count: int | None = None) -> Path:
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, len(tokens) if count is None else count
    path.write_bytes(header.tobytes() + np.asarray(tokens, "<u2").tobytes())
    return path


def nanogpt(path: Path, tokens) -> Path:
    path.write_bytes(np.asarray(tokens, "<u2").tobytes())
    return path


def refusal(*arguments, **options) -> str:
    with pytest.raises(DataError) as caught:
        TokenShards(*arguments, **options)
    assert caught.value.advice
    return str(caught.value)


def take(batches, count: int) -> list[int]:
    """The first token of each window of the next `count` batches."""
    return [int(token) for _ in range(count) for token in next(batches)[0][:, 0]]


@pytest.fixture
def shards(tmp_path) -> TokenShards:
    """31 windows of 4 in three files; every token says where it stands."""
    llm_c(tmp_path / "a.bin", range(0, 41))
    nanogpt(tmp_path / "b.bin", range(100, 142))
    nanogpt(tmp_path / "c.bin", range(200, 246))
    return TokenShards(tmp_path / "*.bin", vocab_size=300)


def test_both_kinds_of_shard_are_told_apart(tmp_path, shards):
    assert [file.kind for file in shards.files] == ["llm.c", "nanoGPT", "nanoGPT"]
    assert shards.num_tokens == 41 + 42 + 46
    assert shards.windows_per_file(4).tolist() == [10, 10, 11]
    assert shards.files[0].tokens.tolist() == list(range(41))
    assert not shards.files[0].tokens.flags.writeable


def test_batches_in_order(shards):
    tokens, targets = next(shards.batches(2, 4, shuffle=False))
    assert tokens.dtype == targets.dtype == np.int32
    assert tokens.flags.c_contiguous and targets.flags.c_contiguous
    assert tokens.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert targets.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    batches = shards.batches(3, 4, shuffle=False)
    # No window reaches from one file into the next, and an epoch goes on with the next one.
    expected = [*range(0, 40, 4), *range(100, 140, 4), *range(200, 244, 4)]
    assert take(batches, 11) == [*expected, 0, 4]
    assert batches.epoch == 33 / 31


def test_every_epoch_visits_every_window_once_in_another_order(shards):
    batches = shards.batches(1, 4, seed=7)
    first, second = (take(batches, 31) for _ in range(2))
    assert sorted(first) == sorted(second) == [*range(0, 40, 4), *range(100, 140, 4), *range(200, 244, 4)]
    assert first != second != sorted(first)
    assert take(shards.batches(1, 4, seed=7), 31) == first
    assert take(shards.batches(1, 4, seed=8), 31) != first


def test_targets_are_one_further_when_shuffled(shards):
    for tokens, targets in shards.batches(5, 4, seed=1, epochs=1):
        assert (targets == tokens + 1).all()


def test_epochs_end(shards):
    assert len(list(shards.batches(4, 4, epochs=1))) == 7
    assert len(list(shards.batches(4, 4, epochs=2))) == 15


@pytest.mark.parametrize("shuffle", [False, True])
def test_ranks_take_the_parts_of_a_step(shards, shuffle):
    whole = shards.batches(6, 4, seed=3, shuffle=shuffle)
    parts = [shards.batches(2, 4, seed=3, shuffle=shuffle, rank=rank, world_size=3) for rank in range(3)]
    for _ in range(12):
        assert [token for part in parts for token in take(part, 1)] == take(whole, 1)


def test_order_is_the_same_for_good(shards):
    """A change would break the resuming of runs that exist."""
    assert permuted(np.arange(10), 10, 0, 0).tolist() == [3, 7, 4, 6, 5, 2, 1, 0, 9, 8]
    assert permuted(np.array([0, 1, 999_999]), 1_000_000, 1337, 2).tolist() == [699757, 364536, 347820]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 17, 1000])
def test_order_is_a_permutation(count):
    for epoch in range(3):
        assert sorted(permuted(np.arange(count), count, 1, epoch).tolist()) == list(range(count))


def test_order_is_uniform():
    """Each of 7 windows stands at each of 7 places about as often: 49 counts of 4,000 / 7 within 6 deviations."""
    counts = np.zeros((7, 7))
    for epoch in range(4000):
        counts[np.arange(7), permuted(np.arange(7), 7, 5, epoch)] += 1
    assert abs(counts - 4000 / 7).max() < 6 * (4000 / 7 * 6 / 7) ** 0.5
    # Neighbours do not stay neighbours.
    steps = np.diff(permuted(np.arange(10_000), 10_000, 0, 0))
    assert (abs(steps) < 100).mean() < 0.03


@pytest.mark.parametrize("shuffle", [False, True])
def test_resuming_is_exact(shards, shuffle):
    batches = shards.batches(3, 4, seed=5, shuffle=shuffle)
    take(batches, 8)
    saved = json.loads(json.dumps(batches.state()))
    expected = take(batches, 8)
    resumed = shards.batches(3, 4, seed=5, shuffle=shuffle)
    resumed.restore(saved)
    assert resumed.epoch == 24 / 31
    assert take(resumed, 8) == expected
    # Another number of ranks, another batch size: the same windows in the same order.
    other = [shards.batches(1, 4, seed=5, shuffle=shuffle, rank=rank, world_size=2) for rank in range(2)]
    for part in other:
        part.restore(saved)
    assert [take(part, 1)[0] for _ in range(12) for part in other] == expected


def test_batches_read_ahead_are_the_same(shards):
    expected, batches = take(shards.batches(3, 4, seed=5), 12), shards.batches(3, 4, seed=5)
    found = []
    for number in range(12):
        batches.prepare(1 + number % 3)
        assert batches.state()["position"] == 3 * number and batches.epoch == 3 * number / 31
        found += take(batches, 1)
    assert found == expected
    batches.prepare(2)
    batches.restore(shards.batches(3, 4, seed=5).state())
    assert take(batches, 12) == expected


def test_reading_ahead_ends_with_the_epochs_and_leaves_errors_to_next(tmp_path, shards):
    batches = shards.batches(4, 4, epochs=1)
    batches.prepare(100)
    assert len(list(batches)) == 7
    batches = shards.batches(4, 4)
    for path in tmp_path.glob("*.bin"):
        path.write_bytes(path.read_bytes()[:-2])
    batches.prepare()
    with pytest.raises(DataError):
        next(batches)


def test_resuming_with_other_data_lists_all_differences(tmp_path, shards):
    saved = shards.batches(3, 4, seed=5).state()
    with pytest.raises(DataError) as caught:
        shards.batches(3, 5, seed=6, shuffle=False).restore(saved)
    for line in ("length: 4, now 5", "seed: 5, now 6", "shuffle: True, now False", "windows: 31, now 25"):
        assert line in str(caught.value)
    nanogpt(tmp_path / "c.bin", [*range(200, 245), 0])
    with pytest.raises(DataError, match="fingerprint"):
        TokenShards(tmp_path / "*.bin").batches(3, 4, seed=5).restore(saved)


@pytest.mark.parametrize("position", [-1, 1.5, True, None, "3", 1 << 70])
def test_malformed_position_is_refused(shards, position):
    batches = shards.batches(3, 4)
    with pytest.raises(DataError, match="position"):
        batches.restore(batches.state() | {"position": position})
    assert batches.state()["position"] == 0


def test_data_may_move(tmp_path, shards):
    before = shards.batches(3, 4)
    take(before, 2)
    saved, expected = before.state(), take(before, 4)
    (tmp_path / "elsewhere").mkdir()
    for path in list(tmp_path.glob("*.bin")):
        path.rename(tmp_path / "elsewhere" / path.name)
    after = TokenShards(tmp_path / "elsewhere/*.bin").batches(3, 4)
    after.restore(saved)
    assert after.state() == saved and take(after, 4) == expected


def test_patterns(tmp_path, monkeypatch):
    for name in ("x_train_1.bin", "x_val_0.bin", "x_train_0.bin", "odd[1].bin"):
        nanogpt(tmp_path / name, range(9))
    (tmp_path / "deeper").mkdir()
    nanogpt(tmp_path / "deeper/x_train_2.bin", range(9))

    def names(*arguments, **options):
        return [file.path.name for file in TokenShards(*arguments, **options).files]

    assert names(tmp_path / "x_train_*") == ["x_train_0.bin", "x_train_1.bin"]
    assert names(tmp_path / "x*.bin", exclude=tmp_path / "*val*") == ["x_train_0.bin", "x_train_1.bin"]
    assert names([tmp_path / "x_v*", tmp_path / "x*"]) == ["x_val_0.bin", "x_train_0.bin", "x_train_1.bin"]
    assert names(tmp_path / "odd[1].bin") == ["odd[1].bin"]
    assert names(tmp_path / "**/*2.bin") == ["x_train_2.bin"]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert names("~/x_val*") == ["x_val_0.bin"]


def test_no_match(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = refusal("nothing/*.bin")
    assert "no file matches 'nothing/*.bin'" in message and str(tmp_path) in message
    nanogpt(tmp_path / "a.bin", range(9))
    assert "left out" in refusal("*.bin", exclude="a*")
    assert "no data" in refusal([])
    assert "a directory" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe.bin")
    assert "not a regular file" in refusal("pipe.bin")


def test_split_shares_nothing(shards):
    train, validation = shards.split(0.25)
    assert [len(file.tokens) for file in train.files] == [31, 32, 34]
    assert [len(file.tokens) for file in validation.files] == [10, 10, 12]
    for whole, before, after in zip(shards.files, train.files, validation.files, strict=True):
        assert np.concatenate([before.tokens, after.tokens]).tolist() == whole.tokens.tolist()
    assert len({shards.fingerprint, train.fingerprint, validation.fingerprint}) == 3
    with pytest.raises(DataError, match="fraction"):
        shards.split(1.0)


def test_bytes(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes("aé\n".encode() * 10)
    shards = TokenShards(path, vocab_size=256)
    assert shards.files[0].kind == "bytes"
    tokens, targets = next(shards.batches(1, 4, shuffle=False))
    assert (tokens.tolist(), targets.tolist()) == ([[97, 195, 169, 10]], [[195, 169, 10, 97]])
    assert next(TokenShards(path, tokenizer=load_tokenizer(None, kind="bytes")).batches(1, 3))[0].shape == (1, 3)


@pytest.fixture
def gpt2_like(tmp_path):
    """A byte-level tokenizer with GPT-2's way to split text, and merges enough to tell pieces cut wrongly."""
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, trainers

    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(["some words\n\n  more words\nlast"] * 50, trainer)
    (tmp_path / "model").mkdir()
    backend.save(str(tmp_path / "model/tokenizer.json"))
    return load_tokenizer(tmp_path / "model")


def test_text_through_a_tokenizer(tmp_path, gpt2_like, monkeypatch):
    text = "some words\n\n  more words\nlast \n words\n" * 20
    (tmp_path / "text.txt").write_text(text)
    monkeypatch.setattr(token_files, "PIECE", 7)
    assert len(list(token_files._pieces(text))) > 20
    shards = TokenShards(tmp_path / "text.txt", tokenizer=gpt2_like, vocab_size=gpt2_like.vocab_size)
    assert shards.files[0].tokens.dtype == np.uint16
    assert shards.files[0].tokens.tolist() == gpt2_like.encode(text)


def test_text_that_is_none(tmp_path, gpt2_like):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    assert "not UTF-8 at byte 3" in refusal(tmp_path / "latin.txt", tokenizer=gpt2_like)
    nanogpt(tmp_path / "tokens.dat", [13, 700, 11])
    assert "ends in .bin" in refusal(tmp_path / "tokens.dat")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty file"),
        (b"\1\2\3", "3 bytes do not make whole uint16 tokens"),
        (np.array([20240520, 1, 5], "<i4").tobytes(), "12 bytes, but the header alone takes 1024"),
        (np.array([20240801, 7, 5], "<i4").tobytes(), "uint32 tokens"),
        (np.array([20240326, 3, 1024, 50257], "<i4").tobytes(), "a model of llm.c"),
        (np.array([20240520], ">i4").tobytes() + b"\0" * 1020, "big-endian"),
        (np.array([20250101, 1, 5] + [0] * 253, "<i4").tobytes() + b"\0" * 10, "magic number 20250101"),
        (b"\x93NUMPY\1\0", "a NumPy array"),
        (b"PK\3\4" + b"\0" * 60, "a pickle of PyTorch"),
        (b"\x1f\x8b\x08\x00" + b"\0" * 60, "gzip"),
    ],
)
def test_damaged_and_foreign_files_are_refused(tmp_path, content, words):
    path = tmp_path / "x.bin"
    path.write_bytes(content)
    message = refusal(path)
    assert words in message and str(path) in message


def test_headers_that_disagree_with_the_file(tmp_path):
    path = tmp_path / "x.bin"
    assert "the header says 9 tokens, a file of 1042 bytes; it has 1036" in refusal(llm_c(path, range(6), count=9))
    assert "it has 1036" in refusal(llm_c(path, range(6), count=5))
    assert "it has 1036" in refusal(llm_c(path, range(6), count=-6))
    assert "0 tokens" in refusal(llm_c(path, []))
    assert "version 2 of llm.c's shards; known is 1" in refusal(llm_c(path, range(6), version=2))


def test_tokens_outside_of_the_vocabulary(tmp_path, monkeypatch):
    path = llm_c(tmp_path / "x.bin", [*range(50), 50257, 3])
    message = refusal(path, vocab_size=50257)
    assert f"{path}: token 50257 at position 50 is outside of the vocabulary of 50257" in message
    TokenShards(path, vocab_size=50258)
    (tmp_path / "x.txt").write_text("abcé")
    assert "token 195 at position 3" in refusal(tmp_path / "x.txt", vocab_size=128)
    # Beyond what is checked when files are opened, batches are.
    monkeypatch.setattr("blu.frontend.io.data.token_shards.CHECKED_TOKENS", 10)
    monkeypatch.setattr("blu.frontend.io.data.token_shards.CHECKED_START", 10)
    batches = TokenShards(path, vocab_size=50257).split(0.5)[1].batches(1, 5, shuffle=False)
    take(batches, 4)
    with pytest.raises(DataError, match="token 50257 at position 50"):
        next(batches)


def test_data_shorter_than_a_batch(tmp_path, shards):
    with pytest.raises(DataError) as caught:
        shards.batches(8, 4, world_size=4)
    assert "129 tokens make 31 windows of 4" in str(caught.value)
    assert "takes 8 on each of 4 ranks" in str(caught.value) and "at most 7" in str(caught.value)
    shards.batches(31, 4)
    with pytest.raises(DataError, match="0 windows of 1024"):
        TokenShards(nanogpt(tmp_path / "one.bin", [1])).batches(1, 1024)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((0, 4), {}, "batch size is 0"),
        ((1, 0), {}, "length is 0"),
        ((1, 4), {"world_size": 0}, "number of ranks is 0"),
        ((1, 4), {"rank": 2, "world_size": 2}, "rank 2 is not in [0, 2)"),
    ],
)
def test_impossible_sizes(shards, arguments, options, words):
    with pytest.raises(DataError, match=re.escape(words)):
        shards.batches(*arguments, **options)


def test_a_file_that_shrinks_while_it_is_in_use_is_an_error_and_no_signal(tmp_path):
    path = nanogpt(tmp_path / "x.bin", np.zeros(100_000))
    batches = TokenShards(path).batches(2, 4)
    next(batches)
    os.truncate(path, 10)
    with pytest.raises(DataError, match="shrank from 200000 to 10 bytes"):
        next(batches)


def test_a_deleted_file_stays_readable(tmp_path):
    path = nanogpt(tmp_path / "x.bin", range(100))
    batches = TokenShards(path).batches(2, 4)
    path.unlink()
    assert next(batches)[0].shape == (2, 4)
