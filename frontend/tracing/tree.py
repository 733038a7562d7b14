"""Nested arguments as a flat list of leaves and a description of the nesting: modules, dicts, lists, dataclasses.

    leaves, treedef = flatten({"x": 1, "y": [2, 3]})
    leaves                                  # [1, 2, 3]
    treedef.names                           # ("x", "y.0", "y.1")
    treedef.unflatten([10, 20, 30])         # {"x": 10, "y": [20, 30]}

Everything that is not of a registered type is a leaf. Nothing here recurses, so depth costs memory only.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from blu.dataclass import dataclass
from blu.errors import ArgumentError

MAX_DEPTH = 20_000

Flatten = Callable[[Any], tuple[Mapping[Any, Any], Hashable]]
Unflatten = Callable[[dict[Any, Any], Any], Any]


@dataclass(frozen=True)
class Node:
    """One container of a tree: its type, the keys of its children in order, and what else it needs to be rebuilt."""

    type: type
    keys: tuple[Hashable, ...]
    static: Hashable = None

    def __repr__(self) -> str:
        if self.type is type(None):
            return "None"
        keys = ", ".join(map(str, self.keys[:8])) + (", ..." if len(self.keys) > 8 else "")
        return f"{self.type.__name__}({keys})"


# A leaf of a TreeDef is None where a container is a Node.
Entry = Node | None


@dataclass(frozen=True)
class TreeDef:
    """The nesting of a tree, parents before children; hashable, and equal where types, keys and static parts are."""

    entries: tuple[Entry, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The dotted path of each leaf: "model.h.0.attn.c_attn.weight". The name of a tree that is a leaf is ""."""
        return tuple(map(".".join, self.paths))

    @cached_property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The keys on the way to each leaf, as words."""
        return tuple(path for path, entry in self._walk() if entry is None)

    @cached_property
    def buffers(self) -> frozenset[int]:
        """The leaves that are no parameters, by position: what their container's static part names as `buffers`."""
        if not any(entry.static.buffers for entry in self.entries if entry and isinstance(entry.static, Static)):
            return frozenset()
        nodes = {path: entry for path, entry in self._walk() if entry is not None}
        owners = ((place, path[-1], nodes[path[:-1]].static) for place, path in enumerate(self.paths) if path)
        return frozenset(place for place, key, static in owners if isinstance(static, Static) and key in static.buffers)

    @property
    def num_leaves(self) -> int:
        return self.entries.count(None)

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """Rebuild the tree around other leaves, as many as there were."""
        assert len(leaves) == self.num_leaves, f"{self.num_leaves} leaves are needed, got {len(leaves)}"
        remaining = list(leaves)
        done: list[Any] = []
        for entry in reversed(self.entries):
            if entry is None:
                done.append(remaining.pop())
                continue
            children = {key: done.pop() for key in entry.keys}
            done.append(_handlers(entry.type)[1](children, entry))
        return done[0]

    def _walk(self) -> Iterator[tuple[tuple[str, ...], Entry]]:
        """Every entry with its path, in order."""
        waiting: list[tuple[str, ...]] = [()]
        for entry in self.entries:
            path = waiting.pop()
            yield path, entry
            if entry is not None:
                waiting.extend((*path, str(key)) for key in reversed(entry.keys))

    def __repr__(self) -> str:
        return f"TreeDef({self.entries[0] or 'leaf'}, {self.num_leaves} leaves)"


def flatten(tree: Any, leaf: type | None = None) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree in order, and the TreeDef that rebuilds it. A tree that holds itself is an ArgumentError.

    What is of the type `leaf` is one.
    """
    leaves: list[Any] = []
    entries: list[Entry] = []
    waiting = [(tree, 0)]
    while waiting:
        item, depth = waiting.pop()
        kind = type(item)
        handlers = _FOUND[kind] if kind in _FOUND else _handlers(kind)
        if handlers is None or kind is leaf:
            leaves.append(item)
            entries.append(None)
            continue
        if depth > MAX_DEPTH:
            raise ArgumentError(
                f"an argument is nested deeper than {MAX_DEPTH} containers (at a {type(item).__name__})",
                advice="Does a module, list or dict hold itself?",
            )
        children, static = handlers[0](item)
        entries.append(static if type(static) is Node else Node(kind, tuple(children), static))
        depth += 1
        waiting += [(child, depth) for child in reversed(tuple(children.values()))]
    return leaves, TreeDef(tuple(entries))


def describe_difference(before: TreeDef, after: TreeDef) -> str:
    """One line on the first place where two trees differ, empty if they are equal: "batch: dict(x) -> dict(x, y)"."""
    for (path, old), (_, new) in zip(before._walk(), after._walk(), strict=False):
        if old == new:
            continue
        name = ".".join(path) or "the argument"
        if old is None or new is None or (old.type, old.keys) != (new.type, new.keys):
            return f"{name}: {old or 'leaf'} -> {new or 'leaf'}"
        return f"{name}: {_describe_static(old.static, new.static)}"
    return ""


def _describe_static(old: Any, new: Any) -> str:
    """The first differing item of two static parts, where both are mappings; else both of them."""
    before, after = getattr(old, "value", None), getattr(new, "value", None)
    if isinstance(before, dict) and isinstance(after, dict):
        for key in (*before, *after):
            left, right = before.get(key, "absent"), after.get(key, "absent")
            if freeze(left) != freeze(right):
                return f"{key} = {_shorten(left)} -> {_shorten(right)}"
    return f"{_shorten(old)} -> {_shorten(new)}"


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def is_array(value: Any) -> bool:
    """Whether a value is an array or stands for one: it has a shape and a dtype."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type)


def children(item: Any) -> Mapping[Hashable, Any]:
    """What a container holds, by key; nothing for a leaf."""
    handlers = _handlers(type(item))
    return handlers[0](item)[0] if handlers else {}


def set_leaf(tree: Any, path: Sequence[str], value: Any) -> None:
    """Put a value in the place of a leaf that is an attribute."""
    for key in path[:-1]:
        tree = next(child for name, child in children(tree).items() if str(name) == key)
    setattr(tree, path[-1], value)


def walk(tree: Any, stop: type | tuple[type, ...] = ()) -> Iterator[tuple[tuple[Hashable, ...], Any]]:
    """Every container and leaf of a tree with its path of keys, parents first; nothing inside of a `stop`."""
    waiting: list[tuple[tuple[Hashable, ...], Any]] = [((), tree)]
    while waiting:
        path, item = waiting.pop()
        yield path, item
        if not isinstance(item, stop):
            waiting.extend(((*path, key), child) for key, child in reversed(tuple(children(item).items())))


class Static:
    """A value that is part of a TreeDef: kept as it is, compared and hashed by a frozen copy of its content."""

    __slots__ = ("frozen", "value")
    buffers: tuple[str, ...] = ()

    def __init__(self, value: Any):
        self.value = value
        self.frozen = freeze(value)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Static) and self.frozen == other.frozen)

    def __hash__(self) -> int:
        return hash(self.frozen)

    def __repr__(self) -> str:
        return repr(self.value)


def freeze(value: Any) -> Hashable:
    """A hashable copy that is equal only for values of the same types (1, 1.0 and True differ; nan equals itself).

    Raises ArgumentError for a value that cannot be hashed.
    """
    kind = type(value)
    if isinstance(value, float):
        return kind, value.hex()
    if isinstance(value, (list, tuple)):
        return kind, tuple(map(freeze, value))
    if isinstance(value, Mapping):
        return kind, tuple((freeze(key), freeze(item)) for key, item in value.items())
    if isinstance(value, (set, frozenset)):
        return kind, frozenset(map(freeze, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return kind, tuple(freeze(getattr(value, field.name)) for field in dataclasses.fields(value))
    try:
        hash(value)
    except TypeError:
        raise ArgumentError(
            f"a value of type {kind.__name__} is neither an array nor hashable: {_shorten(value)}",
            advice="Blu compiles once per such value and must recognise it: make it a tuple, or give it __hash__.",
        ) from None
    return kind, value


Rebuild = Callable[[dict[Any, Any], Node], Any]
_REGISTRY: dict[type, tuple[Flatten, Rebuild] | None] = {}
_FOUND: dict[type, tuple[Flatten, Rebuild] | None] = {}


def register(type_: type, flatten: Flatten, unflatten: Unflatten) -> None:
    """Make a type (and its subclasses) a container.

    `flatten(value)` gives its children by key and a hashable rest; `unflatten(children, rest)` gives the value back:

        register(Pair, lambda p: ({"left": p.left, "right": p.right}, None), lambda children, _: Pair(**children))
    """
    register_family(type_, flatten, lambda children, node: unflatten(children, node.static))


def register_family(type_: type, flatten: Flatten, rebuild: Rebuild) -> None:
    """As `register`, for a base class: `rebuild` gets the node, and with it the exact type.

    In place of a rest, `flatten` may give a node that it has kept, which makes equal trees quick to compare.
    """
    _REGISTRY[type_] = flatten, rebuild
    _FOUND.clear()


def register_leaf(type_: type) -> None:
    """Make a type (and its subclasses) a leaf, although it is a dataclass or has a base that is a container."""
    _REGISTRY[type_] = None
    _FOUND.clear()


def _handlers(type_: type) -> Any:
    """How to take apart and rebuild a type: its own rule, that of its nearest base, or None for a leaf."""
    if type_ not in _FOUND:
        _FOUND[type_] = _find_handlers(type_)
    return _FOUND[type_]


def _find_handlers(type_: type) -> Any:
    if type_ in _REGISTRY:
        return _REGISTRY[type_]
    if issubclass(type_, tuple) and hasattr(type_, "_fields"):
        return (lambda value: (value._asdict(), None)), lambda children, node: node.type(**children)
    found = next((_REGISTRY[base] for base in type_.__mro__ if base in _REGISTRY), None)
    if found is None and dataclasses.is_dataclass(type_) and not _stands_for_array(type_):
        return _flatten_dataclass, _rebuild_dataclass
    return found


def _stands_for_array(type_: type) -> bool:
    """Whether a dataclass describes an array, such as a TensorType: then it is a leaf."""
    return {"shape", "dtype"} <= {field.name for field in dataclasses.fields(type_)}


def _flatten_dataclass(value: Any) -> tuple[Mapping[Any, Any], Hashable]:
    """Fields are children; those declared with `field(metadata={"static": True})` are part of the TreeDef."""
    fields = dataclasses.fields(value)
    children = {field.name: getattr(value, field.name) for field in fields if not field.metadata.get("static")}
    static = {field.name: getattr(value, field.name) for field in fields if field.metadata.get("static")}
    return children, Static(static)


def _rebuild_dataclass(children: dict[Any, Any], node: Node) -> Any:
    """An instance with these fields; `__post_init__` does not run, since the leaves may stand for something else."""
    value = object.__new__(node.type)
    assert isinstance(node.static, Static)
    for name, item in {**children, **node.static.value}.items():
        object.__setattr__(value, name, item)
    return value


def _numbered(value: Sequence[Any]) -> tuple[Mapping[Any, Any], Hashable]:
    return dict(enumerate(value)), None


register(dict, lambda value: (value, None), lambda children, _: children)
register(OrderedDict, lambda value: (value, None), lambda children, _: OrderedDict(children))
register(list, _numbered, lambda children, _: list(children.values()))
register(tuple, _numbered, lambda children, _: tuple(children.values()))
register(type(None), lambda value: ({}, None), lambda children, _: None)
