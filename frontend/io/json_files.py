"""JSON as it comes from strangers: bounded in size, without duplicate keys, always an object."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from blu.errors import WeightsError

MAX_JSON_BYTES = 64 << 20


def read_json(path: Path) -> dict[str, Any]:
    """The object in the file `path`. Raises WeightsError when it is missing, too large or no JSON object."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_JSON_BYTES + 1)
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror}") from error
    if len(text) > MAX_JSON_BYTES:
        raise WeightsError(f"{path}: more than {MAX_JSON_BYTES >> 20} MiB of JSON")
    return parse_json(text, str(path))


def parse_json(text: bytes, source: str) -> dict[str, Any]:
    """The object in `text`; `source` names it in errors. Raises WeightsError for anything but one sound object."""
    try:
        parsed = json.loads(text.decode("utf-8"), object_pairs_hook=lambda pairs: _unique(pairs, source))
    except RecursionError as error:
        raise WeightsError(f"{source}: JSON is nested too deeply") from error
    except ValueError as error:
        raise WeightsError(f"{source}: not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise WeightsError(f"{source}: a JSON object was expected, not {type(parsed).__name__}")
    return parsed


def _unique(pairs: Sequence[tuple[str, Any]], source: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    names = [name for name, _ in pairs]
    duplicate = next(name for index, name in enumerate(names) if name in names[:index])
    raise WeightsError(f"{source}: the key {duplicate!r} occurs more than once")
