"""Gradients and tangents that users give, each in the nesting of what it belongs to."""

from __future__ import annotations

from typing import Any

from blu.dataclass import dataclass
from blu.dialects.tensor.promotion import as_tensor, is_weak
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError, TraceError
from blu.frontend.tracing.tree import children, flatten, is_array


def has_gradient(leaf: Any) -> bool:
    """Whether something is a float tensor."""
    return isinstance(leaf, Tensor) and leaf.dtype.has_gradient


def zeros_like(like: Tensor) -> Tensor:
    """A gradient of something that nothing depends on."""
    scalar = as_tensor(0.0, like.dtype)
    return scalar.broadcast_to(like.shape) if like.shape else scalar


@dataclass(frozen=True)
class Given:
    """What errors say of gradients or tangents: who gives them ("bwd gives for"), what they are, and where."""

    what: str
    noun: str
    location: str | None

    def matched(self, name: str, argument: Any, share: Any) -> list[Tensor]:
        """One for each float tensor in an argument, in order, of its type; zeros where there is None.

        TraceError, ShapeError or DTypeError for what does not fit, `name` being what the argument is called.
        """
        if share is None:
            return [zeros_like(leaf) for leaf in flatten(argument)[0] if has_gradient(leaf)]
        what = f"{self.what} {name}"
        parts, given = children(argument), children(share)
        if parts and list(parts) != list(given):
            keys = [", ".join(map(str, side)) or "no parts" for side in (parts, given)]
            message = f"{what} a {self.noun} of another nesting: {keys[1]}, expected {keys[0]}"
            raise TraceError(message, location=self.location, advice=f"Nest each {self.noun} as what it belongs to.")
        if parts:
            return [item for key in parts for item in self.matched(f"{name}.{key}", parts[key], given[key])]
        return [self._leaf(what, argument, share)]

    def _leaf(self, what: str, argument: Any, share: Any) -> Tensor:
        if not has_gradient(argument):
            kind = str(argument.type) if isinstance(argument, Tensor) else f"a {type(argument).__name__}"
            message = f"{what} a {self.noun}, and that is {kind}, which has none"
            raise DTypeError(message, location=self.location, advice="Put None in its place.")
        if not (isinstance(share, Tensor | int | float) or is_array(share)):
            raise TraceError(f"{what} a {type(share).__name__}, which is no tensor", location=self.location)
        tensor = as_tensor(share, argument.dtype) if is_weak(share) else as_tensor(share)
        if tensor.type != argument.type:
            kind = ShapeError if tensor.shape != argument.shape else DTypeError
            raise kind(f"{what} a {self.noun} of {tensor.type}, expected {argument.type}", location=self.location)
        return tensor
