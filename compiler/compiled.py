"""Programs that are called as the functions they were compiled from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blu.compiler.announcement import difference_of
from blu.compiler.cache import Members
from blu.dataclass import dataclass, field
from blu.dialects.core.dtypes import TensorType
from blu.errors import ArgumentError, DTypeError
from blu.frontend.tracing.binding import bind
from blu.frontend.tracing.complex_leaves import PairsType
from blu.frontend.tracing.spec import Spec, check_numbers
from blu.frontend.tracing.trace import Interface, accept_numbers, signature_of
from blu.frontend.tracing.user_errors import shown_to_the_user
from blu.runtime.array import Array, is_on_device
from blu.runtime.artifact import MANIFEST, weight_members, write_artifact
from blu.runtime.load import load_program
from blu.runtime.pairs import as_parts, give_away_whole
from blu.runtime.runnable import Runnable


@dataclass
class Compiled:
    """A program and the shape of its arguments and results; call it like the function it was traced from.

    It keeps nothing of MLIR's, so that the next function is traced in the same context.
    """

    interface: Interface = field(repr=False)
    executable: Members = field(repr=False)
    details: dict[str, Any] = field(default_factory=dict)
    overwrite: bool = False

    @functools.cached_property
    def program(self) -> Runnable:
        program = load_program(self.executable)
        program.name = self.details.get("name") or program.name
        return program

    def save(self, path: str | Path) -> None:
        """Write a `.blu` file, which `blu run` and `blu.runtime` run without a compiler.

        Arrays that the function reads from outside are in the file.
        """
        members = {name: data for name, data in self.executable.items() if name != MANIFEST}  # the cache adds its own
        members |= weight_members(self.interface.captured_by_name)
        write_artifact(path, members, self.details)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        with shown_to_the_user():
            named = self._named(arguments, keywords)
            return self.run(self._leaves(named), lambda: named)

    def _named(self, arguments: tuple, keywords: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name."""
        name = self.details.get("name", "the program")
        return bind(name, self.interface.parameters, arguments, keywords, self.interface.signature.static_names)

    def _leaves(self, named: dict[str, Any]) -> list[Any]:
        """The leaves of the arguments, which must be like those that the program was compiled for."""
        expected = self.interface.signature
        signature, leaves = signature_of((), named, ())
        signature = accept_numbers(signature, expected)
        if signature != expected:
            difference = difference_of(expected, signature)
            raise ArgumentError(f"the program was compiled for other arguments: {difference}")
        return leaves

    def run(self, leaves: Sequence[Any], arguments: Callable[[], Any] = dict) -> Any:
        """Run on the leaves of the arguments; static ones are part of the program already.

        `arguments` gives the arguments by name, whose modules get new buffers where the program changes them.
        """
        pairs = zip(leaves, self.interface.signature.leaves, strict=True)
        given = [(leaf, type_) for leaf, type_ in pairs if isinstance(type_, TensorType)]
        try:
            inputs = [_to_array(leaf, type_) for leaf, type_ in given]
        except NoNumbersError:
            check_numbers(dict(zip(self.interface.signature.tree.names, leaves, strict=True)))
            raise
        results = self.program.run([*inputs, *self.interface.captured], overwrite=self.overwrite)
        if self.interface.takes_complex:
            for (leaf, type_), parts in zip(given, inputs, strict=True):
                if isinstance(type_, PairsType):
                    give_away_whole(leaf, parts)
        # Nobody else knows the memory of a result, unless an array of the caller's was to be overwritten.
        arrays = [item if isinstance(item, Array) else Array(item, is_shared=self.overwrite) for item in results]
        return self.interface.deliver(arrays, arguments)


class NoNumbersError(ArgumentError):
    """A program was to run with a spec."""


def _to_array(leaf: Any, type_: TensorType) -> Any:
    """A leaf as an array for a program: in host memory, or where it is if that is a GPU."""
    if isinstance(leaf, Spec):
        raise NoNumbersError(f"a {leaf} has no numbers to run with", advice="Pass an array.")
    if isinstance(type_, PairsType):
        return as_parts(leaf, type_.dtype.numpy)
    if isinstance(leaf, (np.ndarray, Array)) or is_on_device(leaf):
        return leaf
    try:
        return np.asarray(leaf, type_.dtype.numpy)
    except OverflowError:
        raise DTypeError(f"{leaf} does not fit the {type_} that the program was compiled for") from None
