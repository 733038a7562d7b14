"""What is asked of the headline benchmark, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Report = Mapping[str, Any]
SPEED = {"tf32": 1.7, "bf16": 1.35}
"""How many times PyTorch's tokens per second."""
SCALING, MEMORY = 0.96, 0.7
"""Of all GPUs against one, and of PyTorch's memory."""


def goals(parts: Report) -> Iterator[tuple[str, str, str, bool]]:
    """Of each goal that something was measured for: what it is, the bound, what was found, whether that is enough."""
    for precision, bound in SPEED.items():
        ranks, item = _largest(parts, precision)
        if item and "torch" in item["sides"]:
            ratio = _rate(item, "blu") / _rate(item, "torch")
            yield f"{precision}, {ranks} ranks: speed by PyTorch's", f"{bound}x", f"{ratio:.3f}x", ratio >= bound
    yield from _scaling(parts)
    yield from _curves(parts)


def _scaling(parts: Report) -> Iterator[tuple[str, str, str, bool]]:
    ranks, item = _largest(parts, "tf32")
    alone = parts.get("speed-tf32-1", {})
    if item and ranks > 1 and "sides" in alone:
        share = _rate(item, "blu") / _rate(alone, "blu") / ranks
        yield f"tf32: scaling from 1 to {ranks}", f"{SCALING:.0%}", f"{share:.1%}", share >= SCALING


def _curves(parts: Report) -> Iterator[tuple[str, str, str, bool]]:
    ours, again, theirs, rerun = (
        parts.get(name, {}) for name in ("curve-blu", "curve-blu-again", "curve-torch", "curve-torch-again")
    )
    if "bytes" in ours and "bytes" in theirs:
        share = ours["bytes"] / max(theirs["bytes"], 1)
        yield "peak memory by PyTorch's", f"{MEMORY}x", f"{share:.3f}x", share <= MEMORY
    if "losses" in ours and "losses" in theirs and "losses" in rerun:
        apart, spread = largest_difference(ours, theirs), largest_difference(theirs, rerun)
        name = "losses differ from PyTorch's by no more than those of its own rerun"
        yield name, f"{spread:.2g}", f"{apart:.2g}", apart <= spread
    if "digest" in ours and "digest" in again:
        is_same = ours["digest"] == again["digest"]
        yield "two runs of Blu have the same bits", "yes", "yes" if is_same else "no", is_same


def largest_difference(one: Report, other: Report) -> float:
    """Of two curves' losses."""
    return max(abs(a - b) for a, b in zip(one["losses"], other["losses"], strict=True))


def _largest(parts: Report, precision: str) -> tuple[int, Report]:
    """What was measured with the most ranks; nothing where nothing was."""
    found = {
        item["ranks"]: item
        for name, item in parts.items()
        if name.startswith(f"speed-{precision}-") and "sides" in item
    }
    return max(found.items(), default=(0, {}), key=lambda pair: pair[0])


def _rate(item: Report, side: str) -> float:
    return item["sides"][side]["tokens per second"]
