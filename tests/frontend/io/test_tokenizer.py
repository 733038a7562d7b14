"""Tokenizers from files and from bytes, and text that streams token by token."""

from __future__ import annotations

import json
import random

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from blu.errors import WeightsError
from blu.frontend.io import StreamDecoder, load_tokenizer

CORPUS = [
    "The compiler said: hello world, and the quick brown fox jumps over the lazy dog.",
    "Grüße aus München — naïve café, 東京で会いましょう, Привет мир, 🙂👩‍👩‍👧 emoji!",
    "def f(x):\n\treturn x + 1  # two  spaces\n",
]
TEXTS = [*CORPUS, "", " leading", "日本語🙂", "a\0b", "<|endoftext|>after", "🏳️‍🌈 ok"]


@pytest.fixture(scope="module")
def gpt2_files(tmp_path_factory):
    """A trained byte-level BPE in both of GPT-2's layouts: `json/tokenizer.json` and `merges/vocab.json`."""
    root = tmp_path_factory.mktemp("tokenizers")
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS * 3, trainer)
    for name in ("json", "merges"):
        (root / name).mkdir()
    backend.save(str(root / "json" / "tokenizer.json"))
    backend.model.save(str(root / "merges"))
    return root


@pytest.fixture(params=["json", "merges", "bytes"])
def tokenizer(request, gpt2_files):
    if request.param == "bytes":
        return load_tokenizer(None, kind="bytes")
    return load_tokenizer(gpt2_files / request.param)


def stream(tokenizer, ids) -> list[str]:
    decoder = StreamDecoder(tokenizer)
    return [*(decoder.push(token) for token in ids), decoder.finish()]


@pytest.mark.parametrize("text", TEXTS)
def test_round_trip_and_stream(tokenizer, text):
    ids = tokenizer.encode(text)
    assert all(type(token) is int and 0 <= token < tokenizer.vocab_size for token in ids)
    assert tokenizer.decode(ids) == text
    pieces = stream(tokenizer, ids)
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)


def test_characters_over_several_tokens_are_held_back():
    tokenizer = load_tokenizer(None, kind="bytes")
    assert stream(tokenizer, "é🙂!".encode()) == ["", "é", "", "", "", "🙂", "!", ""]
    assert stream(tokenizer, "🙂".encode()[:3])[-1] == "\ufffd"


def test_stream_of_random_tokens_equals_decode(tokenizer):
    generator = random.Random(0)
    for _ in range(50):
        ids = [generator.randrange(tokenizer.vocab_size) for _ in range(40)]
        assert "".join(stream(tokenizer, ids)) == tokenizer.decode(ids)


def test_same_ids_as_transformers(gpt2_files):
    from transformers import PreTrainedTokenizerFast

    reference = PreTrainedTokenizerFast(tokenizer_file=str(gpt2_files / "json" / "tokenizer.json"))
    for name in ("json", "merges"):
        tokenizer = load_tokenizer(gpt2_files / name)
        for text in TEXTS:
            assert tokenizer.encode(text) == reference.encode(text)


def test_end_of_text(gpt2_files):
    for name in ("json", "merges"):
        tokenizer = load_tokenizer(gpt2_files / name)
        assert tokenizer.encode("<|endoftext|>") == [tokenizer.end_of_text]
    assert load_tokenizer(None, kind="bytes").end_of_text == 256


def test_truncation_of_the_file_is_switched_off(tmp_path, gpt2_files):
    backend = tokenizers.Tokenizer.from_file(str(gpt2_files / "json" / "tokenizer.json"))
    backend.enable_truncation(2)
    backend.enable_padding(length=8)
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.decode(tokenizer.encode(CORPUS[0])) == CORPUS[0]


def test_added_token_with_characters_outside_the_byte_alphabet(tmp_path, gpt2_files):
    backend = tokenizers.Tokenizer.from_file(str(gpt2_files / "json" / "tokenizer.json"))
    backend.add_tokens(["two words", "東京駅"])
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    ids = tokenizer.encode("at 東京駅 two words")
    assert tokenizer.vocab_size - 1 in ids
    assert "".join(stream(tokenizer, ids)) == tokenizer.decode(ids)


def test_sentencepiece_style_tokenizer_streams(tmp_path):
    vocab = {"▁the": 0, "▁fox": 1, "es": 2} | {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    backend = tokenizers.Tokenizer(models.BPE(vocab, [], byte_fallback=True))
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(), decoders.Fuse()])
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    ids = [0, 1, 2, *(3 + byte for byte in "é🙂".encode()), 1]
    pieces = stream(tokenizer, ids)
    assert "".join(pieces) == tokenizer.decode(ids) == "the foxesé🙂 fox"
    assert pieces == ["the", " fox", "es", "", "é", "", "", "", "🙂", " fox", ""]


@pytest.mark.parametrize("token", [-1, 257, 10**30])
def test_unknown_byte_id(token):
    tokenizer = load_tokenizer(None, kind="bytes")
    with pytest.raises(WeightsError, match="not in the tokenizer's vocabulary of 257"):
        tokenizer.decode([token])


def test_unknown_id(gpt2_files):
    tokenizer = load_tokenizer(gpt2_files / "json")
    for ask in (lambda: tokenizer.decode([50000]), lambda: StreamDecoder(tokenizer).push(50000)):
        with pytest.raises(WeightsError, match=r"token 50000 (.|\n)*--prompt-tokens 1,2,3"):
            ask()


def test_invalid_unicode(tokenizer):
    with pytest.raises(WeightsError, match="not valid Unicode at character 1"):
        tokenizer.encode("a\udcff")


def test_bytes_for_small_vocabularies(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 128}))
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode("abc") == [97, 98, 99]
    with pytest.raises(WeightsError, match="vocabulary of 128"):
        tokenizer.encode("é")


def test_no_tokenizer(tmp_path):
    for prepare in (lambda: None, lambda: (tmp_path / "config.json").write_text('{"vocab_size": 50257}')):
        prepare()
        with pytest.raises(WeightsError, match=r"no tokenizer here(.|\n)*--prompt-tokens 1,2,3"):
            load_tokenizer(tmp_path)
    with pytest.raises(WeightsError, match="--prompt-tokens 1,2,3"):
        load_tokenizer(None)


def test_damaged_files(tmp_path):
    (tmp_path / "vocab.json").write_text("{}")
    (tmp_path / "merges.txt").write_text("a b\n")
    with pytest.raises(WeightsError, match=r"vocab\.json and merges\.txt"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(WeightsError, match=r"tokenizer\.json: not a tokenizer"):
        load_tokenizer(tmp_path)
