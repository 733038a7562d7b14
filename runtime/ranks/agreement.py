"""Whether all ranks mean the same, before they do something that goes wrong silently where they do not."""

from __future__ import annotations

import hashlib

from blu.errors import RankError
from blu.runtime.ranks.store import Store
from blu.runtime.ranks.verdicts import numbered

_MAX_SHOWN = 200


def agree(store: Store, name: str, value: bytes | str, seconds: float | None = None) -> None:
    """Compare what all ranks have under a name (a version, a configuration, a schedule of exchanges).

    Raises RankError on all of them where they differ: it says which ranks differ from the most, and shows both values
    or, of texts of many lines, the first that differs.
    """
    data = value.encode() if isinstance(value, str) else value
    digests = store.gather(f"compare {name}", hashlib.sha256(data).digest(), seconds)
    if len(set(digests)) > 1:
        raise RankError(_difference(name, store.gather(f"show {name}", data, seconds)))


def _difference(name: str, values: list[bytes]) -> str:
    holders: dict[bytes, list[int]] = {}
    for rank, value in enumerate(values):
        holders.setdefault(value, []).append(rank)
    common = max(holders, key=lambda value: (len(holders[value]), -holders[value][0]))
    others = [value for value in holders if value != common]
    outsiders = [rank for value in others for rank in holders[value]]
    where, ours, theirs = _first_difference(_lines(common), _lines(others[0]))
    return "\n".join(
        [
            f"{numbered(outsiders)} of {len(values)} {'have' if len(outsiders) > 1 else 'has'} another {name}{where}:",
            f"  {numbered(holders[common])}: {ours}",
            f"  {numbered(holders[others[0]])}: {theirs}",
        ]
    )


def _lines(value: bytes) -> list[str]:
    try:
        return value.decode().splitlines() or [""]
    except UnicodeDecodeError:
        return [f"{len(value)} bytes, {value[:32].hex()}..."]


def _first_difference(ours: list[str], theirs: list[str]) -> tuple[str, str, str]:
    count = max(len(ours), len(theirs))
    ours, theirs = [[*lines, *["(nothing)"] * (count - len(lines))] for lines in (ours, theirs)]
    index = next((index for index in range(count) if ours[index] != theirs[index]), 0)
    where = f", from line {index + 1} on" if count > 1 else ""
    return where, ours[index][:_MAX_SHOWN], theirs[index][:_MAX_SHOWN]
