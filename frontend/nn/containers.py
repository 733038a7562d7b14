"""Modules that hold other modules, named as in torch: "0.weight", "up.weight"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import signature
from typing import Any

from blu.errors import ArgumentError
from blu.frontend import random
from blu.frontend.nn.module import Module

Layer = Callable[..., Any]


class ModuleList(Module):
    """Modules in order, which a model's own `forward` goes through."""

    def __init__(self, modules: Iterable[Layer] = ()):
        self.extend(modules)

    def append(self, module: Layer) -> ModuleList:
        """Add a module (or a function without parameters) at the end."""
        if not callable(module):
            raise ArgumentError(f"a {type(self).__name__} holds modules and functions, got {module!r}")
        self.__dict__[str(len(self))] = module
        return self

    def extend(self, modules: Iterable[Layer]) -> ModuleList:
        """Add modules at the end."""
        for module in modules:
            self.append(module)
        return self

    def __len__(self) -> int:
        return sum(name.isdecimal() for name in self.__dict__)

    def __iter__(self) -> Iterator[Any]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, number: int | slice) -> Any:
        if isinstance(number, slice):
            return type(self)().extend(self[place] for place in range(len(self))[number])
        try:
            return self.__dict__[str(range(len(self))[number])]
        except IndexError:
            raise IndexError(f"module {number} of {len(self)}") from None

    def __setitem__(self, number: int, module: Layer) -> None:
        setattr(self, str(range(len(self))[number]), module)


class Sequential(ModuleList):
    """Modules and functions, each of what the one before gives: `nn.Sequential(nn.Linear(4, 8), blu.relu)`.

    With a `key`, those whose `forward` has a parameter of that name (Dropout) get one each, made of it.
    """

    def __init__(self, *modules: Layer):
        super().__init__(modules)

    def forward(self, x: Any, key: Any = None) -> Any:
        for number, module in enumerate(self):
            own = {} if key is None or not _takes_key(module) else {"key": random.fold_in(key, number)}
            x = module(x, **own)
        return x


class ModuleDict(Module):
    """Modules by name, which a model's own `forward` chooses from."""

    def __init__(self, modules: Mapping[str, Layer] | None = None):
        for name, module in (modules or {}).items():
            self[name] = module

    def __setitem__(self, name: str, module: Layer) -> None:
        if not isinstance(name, str) or not name or "." in name or name.startswith("_") or hasattr(type(self), name):
            raise ArgumentError(f"{name!r} cannot be the name of a module in a ModuleDict")
        if not callable(module):
            raise ArgumentError(f"a ModuleDict holds modules and functions, got {module!r} as {name!r}")
        setattr(self, name, module)

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(f"no module {name!r}; there are {', '.join(self)}")
        return self.__dict__[name]

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__ and not str(name).startswith("_")

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.__dict__ if not name.startswith("_"))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def keys(self) -> Iterator[str]:
        return iter(self)

    def values(self) -> Iterator[Any]:
        return (self[name] for name in self)

    def items(self) -> Iterator[tuple[str, Any]]:
        return ((name, self[name]) for name in self)


def _takes_key(module: Layer) -> bool:
    return isinstance(module, Module) and "key" in signature(module.forward).parameters
