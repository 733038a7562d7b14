"""Text to token ids and back: tokenizer.json, or vocab.json with merges.txt, or plain bytes."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from blu.errors import WeightsError
from blu.frontend.io.json_files import read_json

if TYPE_CHECKING:
    import tokenizers

END_OF_TEXT = "<|endoftext|>"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt")
BYTES_VOCABULARY = 257  # 256 bytes and the end of text
ADVICE = "give token ids instead of text: --prompt-tokens 1,2,3"


class Tokenizer(Protocol):
    """What every tokenizer does. `end_of_text` is the id that ends a text, or None."""

    vocab_size: int
    end_of_text: int | None

    def encode(self, text: str) -> list[int]:
        """The ids of `text`. Raises WeightsError for text that is not valid Unicode or has no id."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; bytes that are not UTF-8 become U+FFFD. Raises WeightsError for unknown ids."""
        ...

    def token_bytes(self, token: int) -> bytes | None:
        """The bytes that `token` stands for, or None when its text depends on its neighbours."""
        ...


class ByteTokenizer:
    """Every byte of the UTF-8 text is its own id; 256, where the vocabulary has it, is the end of text."""

    def __init__(self, vocab_size: int = BYTES_VOCABULARY):
        self.vocab_size = vocab_size
        self.end_of_text = 256 if vocab_size > 256 else None

    def encode(self, text: str) -> list[int]:
        """The bytes of `text`, all below `vocab_size`."""
        ids = list(_utf8(text))
        _check_ids(ids, self.vocab_size)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text whose bytes are `ids`; the end of text has none."""
        return b"".join(self.token_bytes(token) for token in ids).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        """The one byte that `token` is."""
        _check_ids([token], self.vocab_size)
        return bytes([token]) if token < 256 else b""


class FileTokenizer:
    """A tokenizer of the `tokenizers` library."""

    def __init__(self, backend: tokenizers.Tokenizer):
        backend.no_truncation()
        backend.no_padding()
        self._backend = backend
        self._is_byte_level = type(backend.decoder).__name__ == "ByteLevel"
        self.vocab_size: int = max(backend.get_vocab().values(), default=-1) + 1
        self.end_of_text: int | None = backend.token_to_id(END_OF_TEXT)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, with the special tokens that the tokenizer's file asks for."""
        _utf8(text)
        return self._backend.encode(text).ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, special tokens included."""
        ids = [int(token) for token in ids]
        _check_ids(ids, self.vocab_size)
        return self._backend.decode(ids, skip_special_tokens=False)

    def token_bytes(self, token: int) -> bytes | None:
        """The token's bytes when the tokenizer is byte-level, as GPT-2's is."""
        _check_ids([token], self.vocab_size)
        if not self._is_byte_level:
            return None
        text = self._backend.id_to_token(token) or ""
        # Tokens added to the vocabulary later are stored as text and may hold other characters.
        if any(character not in self._byte_of for character in text):
            return text.encode("utf-8")
        return bytes(self._byte_of[character] for character in text)

    @cached_property
    def _byte_of(self) -> dict[str, int]:
        return byte_characters()


class StreamDecoder:
    """Text as tokens arrive: `push` returns what has become complete, `finish` the rest.

    A character whose bytes are spread over several tokens is held back until its last byte. Everything returned,
    joined, equals `tokenizer.decode` of all tokens.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        # For tokenizers whose text depends on neighbours: the last tokens shown, as context, and those held back.
        self._window: list[int] = []
        self._shown = 0

    def push(self, token: int) -> str:
        """The text that `token` completes; empty when a character is still incomplete."""
        data = self._tokenizer.token_bytes(token)
        if data is not None:
            return self._utf8.decode(data)
        self._window.append(token)
        text = self._fresh()
        if text.endswith("\ufffd"):
            return ""
        self._window = self._window[self._shown :]
        self._shown = len(self._window)
        return text

    def finish(self) -> str:
        """What was held back, with U+FFFD for an incomplete character."""
        rest = self._fresh()
        self._window, self._shown = [], 0
        return rest + self._utf8.decode(b"", final=True)

    def _fresh(self) -> str:
        context = self._tokenizer.decode(self._window[: self._shown])
        return self._tokenizer.decode(self._window)[len(context) :]


def byte_characters() -> dict[str, int]:
    """GPT-2's spelling of bytes: the printable Latin-1 characters stand for themselves, the others for 256 + n."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


def has_tokenizer(directory: Path) -> bool:
    """Whether `directory` holds the files of a tokenizer."""
    has_merges = (directory / "vocab.json").is_file() and (directory / "merges.txt").is_file()
    return has_merges or (directory / "tokenizer.json").is_file()


def load_tokenizer(directory: str | Path | None, *, kind: str = "auto") -> Tokenizer:
    """The tokenizer of a model directory; `kind="bytes"` asks for plain bytes, which needs no directory.

    A model without tokenizer files whose config.json has a vocabulary of at most 257 gets plain bytes too.
    Raises WeightsError when there is none, or its files are damaged.
    """
    if kind not in ("auto", "bytes"):
        raise WeightsError(f"unknown tokenizer {kind!r}", advice="use 'auto' or 'bytes'")
    if kind == "bytes":
        return ByteTokenizer()
    if directory is None:
        raise WeightsError("there is no model directory to take a tokenizer from", advice=ADVICE)
    directory = Path(directory)
    if (directory / "tokenizer.json").is_file():
        return FileTokenizer(_from_json(directory / "tokenizer.json"))
    if has_tokenizer(directory):
        return FileTokenizer(_from_merges(directory))
    return _fallback(directory)


def _fallback(directory: Path) -> ByteTokenizer:
    path = directory / "config.json"
    vocab_size = read_json(path).get("vocab_size") if path.is_file() else None
    if type(vocab_size) is int and 0 < vocab_size <= BYTES_VOCABULARY:
        return ByteTokenizer(vocab_size)
    message = f"{directory}: no tokenizer here (tokenizer.json, or vocab.json and merges.txt)"
    raise WeightsError(message, advice=ADVICE)


def _from_json(path: Path) -> tokenizers.Tokenizer:
    import tokenizers

    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise WeightsError(f"{path}: not a tokenizer: {error}", advice=ADVICE) from error


def _from_merges(directory: Path) -> tokenizers.Tokenizer:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    try:
        model = models.BPE.from_file(str(directory / "vocab.json"), str(directory / "merges.txt"))
    except Exception as error:  # the library raises plain Exception
        raise WeightsError(f"{directory}: vocab.json and merges.txt: {error}", advice=ADVICE) from error
    backend: Any = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    if backend.token_to_id(END_OF_TEXT) is not None:
        backend.add_special_tokens([AddedToken(END_OF_TEXT, normalized=False)])
    return backend


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise WeightsError(f"the prompt is not valid Unicode at character {error.start}", advice=ADVICE) from error


def _check_ids(ids: Sequence[int], vocab_size: int) -> None:
    for token in ids:
        if not 0 <= token < vocab_size:
            raise WeightsError(f"token {token} is not in the tokenizer's vocabulary of {vocab_size}", advice=ADVICE)
