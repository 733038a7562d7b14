"""Modules that are a function with options: activations and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from blu.frontend.nn.module import Module


class FunctionModule(Module):
    """A function of its arguments; the module's attributes are its options, by their names."""

    function: ClassVar[Callable[..., Any]]

    def forward(self, *arguments: Any) -> Any:
        options = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return type(self).function(*arguments, **options)
