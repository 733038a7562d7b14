"""Training data: files of tokens by pattern, cut into windows, given out in batches from a position one can save.

shards = TokenShards("fineweb/*train*.bin", vocab_size=50257)
batches = shards.batches(8, 1024, seed=1)
tokens, targets = next(batches)         # int32 [8, 1024] each; targets are the tokens one further
saved = batches.state()                 # JSON; later, in another process: batches.restore(saved)
"""

from __future__ import annotations

import copy
import glob
import hashlib
import os
import zlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from blu.errors import DataError
from blu.frontend.io.data.token_batches import Batches
from blu.frontend.io.data.token_files import TokenFile, open_tokens
from blu.frontend.io.tokenizer import Tokenizer

Patterns = str | Path | Sequence[str | Path]

# Data up to this size is checked against the vocabulary when it is opened; of what is beyond, only each file's start.
# Every batch is checked as well.
CHECKED_TOKENS = 1 << 26
CHECKED_START = 1 << 16
FINGERPRINT_TOKENS = 4096


class TokenShards:
    """The tokens of all files that match `patterns`, in the order of their names.

    `vocab_size` is the model's; `tokenizer` is for text files (bytes without it); files that match `exclude` are left
    out, so that `TokenShards("*.bin", exclude="*val*.bin")` and `TokenShards("*val*.bin")` share nothing.
    Raises DataError when nothing matches, a file is damaged, or a token lies outside of the vocabulary.
    """

    def __init__(
        self,
        patterns: Patterns,
        *,
        vocab_size: int | None = None,
        tokenizer: Tokenizer | None = None,
        exclude: Patterns = (),
    ):
        self.vocab_size = vocab_size
        self.files = tuple(open_tokens(path, tokenizer) for path in find_files(patterns, exclude))
        self._check_vocabulary()

    @property
    def num_tokens(self) -> int:
        """The tokens of all files together."""
        return sum(len(file.tokens) for file in self.files)

    def windows_per_file(self, length: int) -> np.ndarray:
        """How many windows of `length` tokens and their targets each file holds (int64)."""
        return np.array([max(len(file.tokens) - 1, 0) // length for file in self.files], np.int64)

    def split(self, fraction: float) -> tuple[TokenShards, TokenShards]:
        """All but the last `fraction` of every file, and that last part: for validation without files of its own."""
        if not 0 < fraction < 1:
            raise DataError(f"validation split: the fraction {fraction} is not between 0 and 1")
        cuts = [round(len(file.tokens) * (1 - fraction)) for file in self.files]
        before = [file.part(0, cut) for file, cut in zip(self.files, cuts, strict=True)]
        after = [file.part(cut, len(file.tokens)) for file, cut in zip(self.files, cuts, strict=True)]
        return self._with(before), self._with(after)

    def batches(
        self,
        batch_size: int,
        length: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        epochs: int | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> Batches:
        """Batches of `batch_size` windows of `length` tokens, for `epochs` epochs or without end.

        With several ranks, each gets its own part of every step's `world_size * batch_size` windows.
        Raises DataError when the data does not fill one step.
        """
        return Batches(self, batch_size, length, seed, shuffle, epochs, rank, world_size)

    @cached_property
    def fingerprint(self) -> str:
        """Changes with the files' names (without directories), sizes, first or last tokens."""
        digest = hashlib.sha256()
        for file in self.files:
            ends = (file.tokens[:FINGERPRINT_TOKENS], file.tokens[-FINGERPRINT_TOKENS:])
            sums = [zlib.crc32(end.astype("<u4").tobytes()) for end in ends]
            digest.update(repr((file.path.name, len(file.tokens), sums)).encode())
        return digest.hexdigest()[:32]

    def _with(self, files: Iterable[TokenFile]) -> TokenShards:
        other = copy.copy(self)
        other.files = tuple(files)
        other.__dict__.pop("fingerprint", None)
        return other

    def _check_vocabulary(self) -> None:
        remaining = CHECKED_TOKENS
        for file in self.files:
            tokens = file.tokens[: max(remaining, CHECKED_START)]
            self.check_range(file, tokens, 0)
            remaining -= len(tokens)

    def check_range(self, file: TokenFile, tokens: np.ndarray, begin: int) -> None:
        """Raise DataError when one of `tokens`, which stand at `begin` of `file`, is not in the vocabulary."""
        if self.vocab_size is None or not len(tokens) or tokens.max() < self.vocab_size:
            return
        place = int(np.argmax(tokens >= self.vocab_size))
        found = f"token {tokens[place]} at position {file.offset + begin + place}"
        raise DataError(
            f"{file.path}: {found} is outside of the vocabulary of {self.vocab_size}",
            advice="the data was tokenized for another model, or the file does not hold uint16 tokens",
        )

    def __repr__(self) -> str:
        return f"TokenShards({len(self.files)} files, {self.num_tokens} tokens)"


def find_files(patterns: Patterns, exclude: Patterns = ()) -> list[Path]:
    """The files that match, each once: patterns in their order, names of one pattern sorted.

    Raises DataError for a pattern that matches nothing, and when all matches are excluded.
    """
    excluded = {os.path.realpath(name) for pattern in _as_list(exclude) for name in _matches(pattern)}
    found: dict[str, Path] = {}
    for pattern in _as_list(patterns):
        names = _matches(pattern)
        if not names:
            raise DataError(f"no file matches {pattern!r}", advice=f"the pattern was looked for in {os.getcwd()}")
        for name in names:
            found.setdefault(os.path.realpath(name), Path(name))
    kept = [path for real, path in found.items() if real not in excluded]
    if not kept:
        asked = ", ".join(map(repr, _as_list(patterns)))
        raise DataError(f"no data: all files that match {asked or 'no pattern'} are left out", advice="see `exclude`")
    return kept


def _as_list(patterns: Patterns) -> list[str]:
    single = isinstance(patterns, str | Path)
    return [os.path.expanduser(pattern) for pattern in ([patterns] if single else patterns)]


def _matches(pattern: str) -> list[str]:
    """A file of that very name, whatever characters it has, else the files of the pattern, sorted."""
    if os.path.lexists(pattern):
        return [pattern]
    return sorted(name for name in glob.glob(pattern, recursive=True) if not os.path.isdir(name))
