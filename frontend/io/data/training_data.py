"""The data of a training run: shards as they are, text through a tokenizer once, and a part of it for validation.

Text files, directories of them and patterns become one shard in llm.c's format in a cache; it is named after the
texts' contents and the tokenizer, so that the same texts are never tokenized twice, wherever they are.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import platformdirs

from blu import settings
from blu.dataclass import dataclass
from blu.errors import DataError, warn
from blu.frontend.io.atomic import replacing
from blu.frontend.io.data.token_files import HEADER_WORDS, MAGIC, VERSION, check_regular, open_tokens
from blu.frontend.io.data.token_shards import TokenShards, find_files
from blu.frontend.io.tokenizer import BYTES_VOCABULARY, ByteTokenizer, Tokenizer

TEXT_SUFFIXES = (".txt", ".md", ".rst", ".py", ".c", ".h", ".html", ".json", ".jsonl", ".csv", ".toml", ".yaml")
MAX_TOKEN = 1 << 16
DEFAULT_SPLIT = 0.05


@dataclass(frozen=True)
class TrainingData:
    """Tokens to learn from, tokens to validate with, where there are any, and what has made tokens of the texts.

    `tokenizer` is the one that was given; without one, plain bytes where there are texts.
    """

    train: TokenShards
    validation: TokenShards | None = None
    tokenizer: Tokenizer | None = None


def open_training_data(
    patterns: Sequence[str],
    *,
    vocab_size: int,
    tokenizer: Tokenizer | None = None,
    validation: Sequence[str] = (),
    split: float | None = None,
    cache: Path | None = None,
) -> TrainingData:
    """Open the data that `patterns` name: files, directories (the texts or shards below them), glob patterns.

    Shards that match `validation` are not trained on. Without `validation`, the last `split` of the tokens is for
    validation (of text, whose files are in a random order, the last twentieth; of shards nothing). Raises DataError
    for anything that cannot be trained on, before anything else happens.
    """
    found = _expand(patterns)
    held_out = _expand(validation) if validation else []
    aside = {os.path.realpath(path) for path in held_out}
    kept = [path for path in found if os.path.realpath(path) not in aside]
    if not kept:
        raise DataError(f"no data: all files of {', '.join(patterns)} are for validation")
    has_texts = not all(map(_is_shard, kept))
    if tokenizer is None and not all(map(_is_shard, [*kept, *held_out])):
        tokenizer = ByteTokenizer(min(BYTES_VOCABULARY, vocab_size))
    train = _open(kept, vocab_size, tokenizer, cache)
    if held_out:
        return TrainingData(train, _open(held_out, vocab_size, tokenizer, cache), tokenizer)
    if split is None:
        split = DEFAULT_SPLIT if has_texts else 0
    parts = train.split(split) if split else (train, None)
    return TrainingData(*parts, tokenizer)


def _expand(patterns: Sequence[str]) -> list[Path]:
    """The files that patterns name, each once; of a directory all texts and shards below it."""
    found: list[Path] = []
    for pattern in patterns:
        path = Path(os.path.expanduser(pattern))
        found += _below(path) if path.is_dir() else find_files([pattern])
    for path in found:
        check_regular(path)
    return list(dict.fromkeys(found))


def _below(directory: Path) -> list[Path]:
    """The texts and shards below a directory; files that only look like texts are left out with a warning."""
    names = glob.glob("**/*", root_dir=directory, recursive=True)
    suffixes = (*TEXT_SUFFIXES, ".bin")
    found = [directory / name for name in sorted(names) if name.endswith(suffixes)]
    found = [path for path in found if path.is_file() and path.stat().st_size]
    kept = [path for path in found if path.suffix == ".bin" or _is_utf8(path)]
    if not kept:
        raise DataError(f"{directory}: no texts and no shards here", advice=f"looked for {', '.join(suffixes)}")
    if left_out := [path for path in found if path not in set(kept)]:
        more = f" and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        warn(f"not UTF-8, left out: {left_out[0]}{more}", UserWarning)
    return kept


def _is_utf8(path: Path) -> bool:
    try:
        content = path.read_bytes()
        content.decode("utf-8")
    except OSError:
        return True  # opening it will say why
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


def _is_shard(path: Path) -> bool:
    """Whether a file holds tokens: named *.bin, or beginning like a shard of llm.c."""
    if path.suffix == ".bin":
        return True
    try:
        with path.open("rb") as file:
            return file.read(4) == MAGIC.to_bytes(4, "little")
    except OSError:
        return False  # opening it will say why


def _open(paths: Sequence[Path], vocab_size: int, tokenizer: Tokenizer | None, cache: Path | None) -> TokenShards:
    shards = [path for path in paths if _is_shard(path)]
    texts = [path for path in paths if not _is_shard(path)]
    sources: dict[Path, str] = {}
    if texts:
        assert tokenizer is not None
        if isinstance(tokenizer, ByteTokenizer) and vocab_size < BYTES_VOCABULARY:
            _check_bytes(texts, vocab_size)
        shards.append(made := tokenized(texts, tokenizer, cache))
        sources[made] = f"{texts[0]} and {len(texts) - 1} more" if len(texts) > 1 else str(texts[0])
    found = TokenShards([glob.escape(str(path)) for path in shards], vocab_size=vocab_size)
    found.files = tuple(replace(file, source=sources.get(file.path, "")) for file in found.files)
    return found


def _token_cache() -> Path:
    folder = settings.current().cache_dir or Path(platformdirs.user_cache_dir("blu", appauthor=False))
    return folder / "tokens"


def _check_bytes(paths: Sequence[Path], vocab_size: int) -> None:
    """Refuse texts with bytes outside of a model's vocabulary, before they become a shard of another name."""
    for path in paths:
        found = np.fromfile(path, np.uint8)
        if len(found) and found.max() >= vocab_size:
            place = int(np.argmax(found >= vocab_size))
            advice = f"give --vocab-size {BYTES_VOCABULARY}, which has all bytes and the end of text"
            message = f"{path}: byte {found[place]} at {place} is outside of the vocabulary of {vocab_size}"
            raise DataError(message, advice=advice)


def tokenized(paths: Sequence[Path], tokenizer: Tokenizer, cache: Path | None = None) -> Path:
    """A shard of all texts, in an order that has nothing to do with their names, each followed by the end of text.

    It is made once, and kept in `cache` (by default beside the compile cache: `BLU_CACHE_DIR`, else the user's).
    """
    if tokenizer.vocab_size > MAX_TOKEN:
        advice = f"shards hold numbers below {MAX_TOKEN}: use a tokenizer of at most that many tokens"
        raise DataError(f"the tokenizer has {tokenizer.vocab_size} tokens", advice=advice)
    ordered = sorted((_digest(path), path) for path in paths)
    key = hashlib.sha256(f"{_identity(tokenizer)} {[digest for digest, _ in ordered]}".encode()).hexdigest()[:32]
    target = (cache or _token_cache()) / f"{key}.bin"
    if not target.is_file():
        _write_shard(target, [path for _, path in ordered], tokenizer)
    return target


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error


def _identity(tokenizer: Tokenizer) -> str:
    """A text that differs between tokenizers that differ."""
    backend = getattr(tokenizer, "_backend", None)
    text = backend.to_str() if backend is not None else f"bytes {tokenizer.vocab_size}"
    return hashlib.sha256(text.encode()).hexdigest()


def _write_shard(target: Path, paths: Sequence[Path], tokenizer: Tokenizer) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as temporary, temporary.open("wb") as file:
            file.write(bytes(4 * HEADER_WORDS))
            count = 0
            for part in _token_parts(paths, tokenizer):
                file.write(part.astype("<u2").tobytes())
                count += len(part)
            header = np.zeros(HEADER_WORDS, "<i4")
            header[:3] = MAGIC, VERSION, count
            file.seek(0)
            file.write(header.tobytes())
    except OSError as error:
        advice = "set XDG_CACHE_HOME to a directory that you may write to"
        raise DataError(f"{target}: the tokens cannot be kept: {error.strerror or error}", advice=advice) from error


def _token_parts(paths: Sequence[Path], tokenizer: Tokenizer) -> Iterator[np.ndarray]:
    for path in paths:
        yield open_tokens(path, tokenizer).tokens
        if tokenizer.end_of_text is not None:
            yield np.array([tokenizer.end_of_text], np.uint16)
