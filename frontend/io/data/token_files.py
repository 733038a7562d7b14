"""One file of training tokens: an llm.c shard, a nanoGPT shard, or text; told apart by what it begins with.

    llm.c     256 x int32 header (magic 20240520, version 1, count), then uint16 tokens
    nanoGPT   uint16 tokens and nothing else, named *.bin
    text      anything else, by way of a tokenizer; without one, every byte is a token

Both kinds of shard, and bytes, are read from the mapped file; tokenized text is kept in memory.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from blu.dataclass import dataclass
from blu.errors import BluError, DataError
from blu.frontend.io.tokenizer import ByteTokenizer, Tokenizer

# No GPT-2 text begins with these four bytes: the first token would be 55432, and the vocabulary has 50257.
MAGIC = 20240520
VERSION = 1
HEADER_WORDS = 256
HEADER_BYTES = 4 * HEADER_WORDS
OTHER_MAGICS = {
    20240326: "a model of llm.c",
    20240522: "an evaluation set of llm.c",
    20240527: "a training state of llm.c",
    20240801: "a shard of llm.c with uint32 tokens",
}
OTHER_FORMATS = {
    b"\x93NUMPY": "a NumPy array",
    b"PK\x03\x04": "a zip archive or a pickle of PyTorch",
    b"PAR1": "a Parquet file",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"\x1f\x8b\x08\x00": "compressed with gzip",
    b"\x1f\x8b\x08\x08": "compressed with gzip",
}
PIECE = 1 << 20  # characters of text that are tokenized at a time
ADVICE = "expected llm.c shards, nanoGPT shards (uint16, named *.bin) or text files"


@dataclass(frozen=True)
class TokenFile:
    """The tokens of one file from its token `offset` on, 1-D and unsigned.

    `file_bytes` is the file's size when it was mapped, 0 if the tokens are in memory; `source` says in errors what a
    file was made of that nobody but Blu knows.
    """

    path: Path
    kind: str
    tokens: np.ndarray
    file_bytes: int = 0
    offset: int = 0
    source: str = ""

    @property
    def name(self) -> str:
        """What users know the file by."""
        return self.source or str(self.path)

    def part(self, begin: int, end: int) -> TokenFile:
        """The same file with the tokens [begin, end) only."""
        return replace(self, tokens=self.tokens[begin:end], offset=self.offset + begin)

    def check_size(self) -> None:
        """Raise DataError when the mapped file has shrunk: reading the lost part would end the process."""
        try:
            size = os.stat(self.path).st_size
        except OSError:  # a deleted file stays readable as long as it is mapped
            return
        if size < self.file_bytes:
            message = f"{self.path}: shrank from {self.file_bytes} to {size} bytes while it was in use"
            raise DataError(message, advice="write data under another name and rename it, never in place")

    def __repr__(self) -> str:
        return f"TokenFile({str(self.path)!r}, {self.kind}, {len(self.tokens)} tokens)"


def open_tokens(path: Path, tokenizer: Tokenizer | None = None) -> TokenFile:
    """The tokens of `path`; `tokenizer` is for text, None makes every byte a token.

    Raises DataError for a file that is missing, empty, truncated, or of another kind.
    """
    mapped = _map(path)
    header = np.frombuffer(mapped[: min(len(mapped) // 4 * 4, HEADER_BYTES)].tobytes(), "<i4")
    if len(header) and header[0] == MAGIC:
        return _open_llm_c(path, mapped, header)
    _refuse_others(path, mapped, header)
    if path.suffix == ".bin":
        return _open_nanogpt(path, mapped)
    return _open_text(path, mapped, tokenizer)


def check_regular(path: Path) -> None:
    """DataError for what is there and no regular file: devices and pipes may never end."""
    if path.is_dir():
        raise DataError(f"{path}: a directory", advice=f"name the files in it: '{path}/*.bin'")
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: not a regular file", advice=ADVICE)


def _map(path: Path) -> np.ndarray:
    """The bytes of `path`, mapped."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise DataError(f"{path}: empty file", advice="remove it, or write it again")
            return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}", advice=ADVICE) from error


def _open_llm_c(path: Path, mapped: np.ndarray, header: np.ndarray) -> TokenFile:
    advice = "truncated or still being written: copy or tokenize it again"
    if len(header) < HEADER_WORDS:
        raise DataError(f"{path}: {len(mapped)} bytes, but the header alone takes {HEADER_BYTES}", advice=advice)
    version, count = int(header[1]), int(header[2])
    if version != VERSION:
        raise DataError(f"{path}: version {version} of llm.c's shards; known is {VERSION}", advice=ADVICE)
    expected = HEADER_BYTES + 2 * count
    if len(mapped) != expected:
        message = f"{path}: the header says {count} tokens, a file of {expected} bytes; it has {len(mapped)}"
        raise DataError(message, advice=advice)
    if count == 0:
        raise DataError(f"{path}: the header says 0 tokens", advice="remove it, or write it again")
    return TokenFile(path, "llm.c", mapped[HEADER_BYTES:].view("<u2"), len(mapped))


def _refuse_others(path: Path, mapped: np.ndarray, header: np.ndarray) -> None:
    start = mapped[:8].tobytes()
    kind = next((kind for magic, kind in OTHER_FORMATS.items() if start.startswith(magic)), None)
    if kind is not None:
        raise DataError(f"{path}: {kind}, not tokens", advice=ADVICE)
    magic = int(header[0]) if len(header) else 0
    if magic in OTHER_MAGICS:
        raise DataError(f"{path}: {OTHER_MAGICS[magic]} (magic {magic}), not tokens in uint16", advice=ADVICE)
    if int.from_bytes(start[:4], "big") == MAGIC:
        raise DataError(f"{path}: big-endian, which is not supported", advice="write it with little-endian numbers")
    # All of llm.c's magic numbers are dates; no text has 506 equal tokens in a row right after such a date.
    if 20200000 <= magic < 20400000 and len(header) == HEADER_WORDS and not header[3:].any():
        raise DataError(f"{path}: a header with the magic number {magic}, expected {MAGIC}", advice=ADVICE)


def _open_nanogpt(path: Path, mapped: np.ndarray) -> TokenFile:
    if len(mapped) % 2:
        message = f"{path}: {len(mapped)} bytes do not make whole uint16 tokens: truncated?"
        raise DataError(message, advice=ADVICE)
    return TokenFile(path, "nanoGPT", mapped.view("<u2"), len(mapped))


def _open_text(path: Path, mapped: np.ndarray, tokenizer: Tokenizer | None) -> TokenFile:
    if not mapped[:4096].all():
        message = f"{path}: neither text (it has zero bytes) nor a shard of llm.c"
        raise DataError(message, advice="if these are uint16 tokens, give it a name that ends in .bin")
    if tokenizer is None or isinstance(tokenizer, ByteTokenizer):
        return TokenFile(path, "bytes", mapped, len(mapped))
    try:
        text = mapped.tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{path}: not UTF-8 at byte {error.start}"
        raise DataError(message, advice="convert it to UTF-8, or train on bytes") from error
    tokens = _tokenize(path, text, tokenizer)
    if not len(tokens):
        raise DataError(f"{path}: its text has no tokens", advice="remove it, or choose another tokenizer")
    return TokenFile(path, "text", tokens)


def _tokenize(path: Path, text: str, tokenizer: Tokenizer) -> np.ndarray:
    dtype = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32
    try:
        return np.concatenate([np.asarray(tokenizer.encode(piece), dtype) for piece in _pieces(text)])
    except BluError as error:
        raise DataError(f"{path}: {error.message}", advice=error.advice) from error


def _pieces(text: str) -> Iterator[str]:
    """`text` in pieces that bound the tokenizer's memory, cut where GPT-2's tokenizer cuts too.

    That is after a line's end between two other characters: more white space would belong together.
    """
    begin = 0
    while begin < len(text):
        cut = re.compile(r"(?<=\S\n)(?=\S)").search(text, begin + PIECE)
        end = cut.start() if cut else len(text)
        yield text[begin:end]
        begin = end
