"""Plain bytes as a tokenizer.json, for whoever reads a model trained on bytes: Blu, transformers, tokenizers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from blu.errors import WeightsError
from blu.frontend.io.atomic import replacing
from blu.frontend.io.tokenizer import BYTES_VOCABULARY, END_OF_TEXT, byte_characters


def write_byte_tokenizer(directory: Path, vocab_size: int) -> None:
    """Write the tokenizer.json in which every byte is its own id, and 256, where there is room, the end of text."""
    try:
        with replacing(directory / "tokenizer.json") as temporary:
            temporary.write_text(json.dumps(_content(vocab_size), ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise WeightsError(f"{directory}: cannot be written: {error.strerror or error}") from error


def _content(vocab_size: int) -> dict[str, Any]:
    vocabulary = {character: byte for character, byte in byte_characters().items() if byte < vocab_size}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    end = {"id": BYTES_VOCABULARY - 1, "content": END_OF_TEXT, **flags}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "added_tokens": [end] if vocab_size >= BYTES_VOCABULARY else [],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": None,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
