"""What is said when a function is compiled, or its program does not take other arguments."""

from __future__ import annotations

from blu.frontend.tracing.trace import Signature
from blu.frontend.tracing.tree import describe_difference


def announcement(name: str, key: tuple[Signature, str], earlier: list[tuple[Signature, str]]) -> str:
    """One line that says why a function is compiled."""
    if not earlier:
        return f"compiling {name} for the first time"
    (before, old), (signature, policy) = earlier[-1], key
    if before == signature:
        return f"compiling {name} again: autocast was {old or 'none'}, is {policy or 'none'}"
    return f"compiling {name} again: {difference_of(before, signature)}"


def difference_of(old: Signature, new: Signature) -> str:
    """In what the arguments of two calls differ, in words."""
    if old.tree != new.tree:
        return describe_difference(old.tree, new.tree)
    names = new.tree.names
    changes = [
        f"{name or 'the argument'} was {before}, is {after}"
        for name, before, after in zip(names, old.leaves, new.leaves, strict=True)
        if before != after
    ]
    return "; ".join(changes[:3]) + (f" and {len(changes) - 3} more" if len(changes) > 3 else "")
