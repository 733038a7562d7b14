"""What is said when a function is compiled, again and again, or its program does not take other arguments."""

from __future__ import annotations

from collections import Counter
from typing import Any

from blu.dataclass import dataclass, field
from blu.dialects.core.dtypes import TensorType
from blu.errors import RecompilationWarning, warn
from blu.frontend.tracing.trace import Signature
from blu.frontend.tracing.tree import Static, describe_difference

Key = tuple[Signature, str]
"""What a program is compiled for: arguments, and the policy of `blu.autocast`."""
PROGRAMS_UNTIL_NOTICE = 5
"""So many programs are compiled for one cause before it is said: a few shapes and modes are what programs are for."""


def announcement(name: str, key: Key, earlier: list[Key]) -> str:
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


@dataclass
class Recompilations:
    """Counts why a function is compiled again. The user is warned of a cause that comes again and again, once."""

    name: str
    _programs: Counter[Any] = field(default_factory=Counter)

    def count(self, key: Key, earlier: list[Key]) -> None:
        """Called before a program is compiled, with what those before it were compiled for."""
        if not earlier:
            return
        old, new = earlier[-1][0], key[0]
        cause, advice = _cause_of(old, new)
        self._programs[cause] += 1
        if cause and self._programs[cause] == PROGRAMS_UNTIL_NOTICE - 1:
            how_often = f"{self.name} is compiled for the {len(earlier) + 1}th time"
            warn(f"{how_often}: {difference_of(old, new)}. {advice}", RecompilationWarning)


def _cause_of(old: Signature, new: Signature) -> tuple[Any, str]:
    """What has a function compiled again: something to count it by, and what to do about it."""
    if old == new:
        return None, ""  # another policy of autocast, of which there are few
    if old.tree != new.tree:
        return "nesting", "Call it with arguments of one nesting, and keep what changes in arrays or numbers."
    leaves = zip(new.tree.names, old.leaves, new.leaves, strict=True)
    name, before, after = next(leaf for leaf in leaves if leaf[1] != leaf[2])
    name = name or "the argument"
    if isinstance(before, Static) and isinstance(after, Static):
        return (name, "static"), f"Leave {name} out of static_argnames where it decides on no shape, axis or loop."
    if not (isinstance(before, TensorType) and isinstance(after, TensorType)):
        advice = f"bool, str and None are part of the program: pass {name} as an array, and use blu.where."
        return (name, "value"), advice
    if before.dtype != after.dtype:
        return (name, "dtype"), f"Convert {name} with .astype to one dtype before the call."
    return (name, "shape"), f"Pad {_where(name, before, after)} to one of a few sizes, such as powers of two."


def _where(name: str, before: TensorType, after: TensorType) -> str:
    """The argument, and which of its dimensions have other sizes."""
    if len(before.shape) != len(after.shape):
        return name
    pairs = enumerate(zip(before.shape, after.shape, strict=True))
    changed = [str(dim) for dim, (old, new) in pairs if old != new]
    return f"dimension {' and '.join(changed)} of {name}"
