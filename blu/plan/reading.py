"""Values of JSON that comes from a file, looked at before they are used: CacheError for what they should not be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blu.errors import CacheError

MAX_BYTES = 1 << 62


def require(condition: bool, message: str) -> None:
    """CacheError with a message, unless a condition holds."""
    if not condition:
        raise CacheError(f"damaged plan: {message}", advice="compile the program again")


def natural(value: Any, what: str, limit: int = MAX_BYTES) -> int:
    """A whole number from 0 to a limit."""
    require(type(value) is int and 0 <= value <= limit, f"{what} is {value!r}")
    return value


def text(value: Any, what: str) -> str:
    """A string."""
    require(isinstance(value, str), f"{what} is {value!r}")
    return value


def listed(value: Any, what: str) -> list[Any]:
    """A list."""
    require(isinstance(value, list), f"{what} is {value!r}")
    return value


def entries(plan: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """A list of objects in a field that may be absent."""
    found = plan.get(key, [])
    sound = isinstance(found, list) and all(isinstance(entry, dict) for entry in found)
    require(sound, f"{key} is no list of objects")
    return found
