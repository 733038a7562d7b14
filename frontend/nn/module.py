"""`Module`: parameters and the code that uses them, as one value that can be passed to a compiled function.

    class Head(nn.Module):
        def __init__(self, width: int, classes: int):
            self.norm = nn.LayerNorm(width)
            self.linear = nn.Linear(width, classes)

        def forward(self, x):
            return self.linear(self.norm(x))

Attributes that hold arrays or modules, also in lists, tuples and dicts, are the module's tree; every other attribute is
a constant of the program. New modules hold `Parameter`s, shapes without numbers, until weights are loaded. An array
that was assigned as a `Buffer` has no gradient, and `forward` may assign another one in its place (see buffer.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import repeat
from operator import is_
from types import FunctionType
from typing import Any

import numpy as np

from blu.dialects.core.dtypes import DType, as_dtype
from blu.dialects.tensor.function import is_tracing
from blu.errors import DTypeError, WeightsError
from blu.frontend.io.state_dict import Differences, check_state_dict, fold_layers
from blu.frontend.nn.buffer import BUFFERS, Buffer, check_assignment
from blu.frontend.nn.parameter import Parameter
from blu.frontend.tracing import tree
from blu.frontend.tracing.host_arrays import as_host_array
from blu.frontend.tracing.module_path import entered, is_inside_module
from blu.frontend.tracing.spec import check_numbers

_PATH = "_path"
_NODE = "_blu_node"
_HIDDEN = (_PATH, _NODE)
# The attribute of a module that is not in training, and has no attribute `training` to say so.
_EVALUATES = "_evaluates"
_NOT_SHOWN = (*_HIDDEN, BUFFERS, _EVALUATES)
# Constants that stay as they are, so that the same object has the same meaning.
_PLAIN = (int, float, str, bytes, bool, type(None), FunctionType)


class Module:
    """Base of all layers and models. Subclasses write `forward`; calling the module runs it."""

    @property
    def training(self) -> bool:
        """Whether the module is trained, as `train` and `eval` have said last: True at first."""
        return self.__dict__.get("training", _EVALUATES not in self.__dict__)

    @training.setter
    def training(self, value: bool) -> None:
        self.__dict__["training"] = value

    def __setattr__(self, name: str, value: Any) -> None:
        buffers = self.__dict__.get(BUFFERS, ())
        if isinstance(value, Buffer):
            self.__dict__[BUFFERS] = (*buffers, name) if name not in buffers else buffers
            value = value.value
        elif name in buffers:
            check_assignment(self, name, value)
        object.__setattr__(self, name, value)

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Run `forward`; ops emitted meanwhile carry this module's path."""
        if not is_inside_module.get():
            if not self.__dict__.get(_PATH):
                name_modules(self)
            if not is_tracing():
                check_numbers(dict(self.named_parameters()))
        with entered(self.__dict__.get(_PATH, "")):
            return self.forward(*arguments, **keywords)

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Every array of the module by its dotted name ("h.0.attn.c_attn.weight")."""
        leaves, treedef = tree.flatten(self)
        return ((name, leaf) for name, leaf in zip(treedef.names, leaves, strict=True) if tree.is_array(leaf))

    def parameters(self) -> Iterator[Any]:
        """Every array of the module."""
        return (parameter for _, parameter in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """Every array of the module that is no parameter to be trained, by its dotted name ("bn.running_mean")."""
        leaves, treedef = tree.flatten(self)
        return ((treedef.names[place], leaves[place]) for place in sorted(treedef.buffers))

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """The module itself, as "", and all modules inside of it, by their dotted names."""
        return ((".".join(map(str, path)), item) for path, item in tree.walk(self) if isinstance(item, Module))

    def state_dict(self) -> dict[str, Any]:
        """The arrays by name, not copied."""
        return dict(self.named_parameters())

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Differences:
        """Take the arrays of `state` (of NumPy, Blu, or PyTorch in host memory) as parameters, without a copy.

        With `strict`, any difference in names, shapes or dtypes raises one WeightsError that lists all of them, and
        nothing is changed. Without, what fits by name and shape is taken, and the differences are returned.
        """
        own = self.state_dict()
        state = {name: as_host_array(array) for name, array in state.items()}
        differences = check_state_dict({name: item.shape for name, item in own.items()}, state, strict=strict)
        _check_dtypes(own, state)
        unusable = {name for name, *_ in differences.mismatched}
        for name in own:
            if name in state and name not in unusable:
                _assign(self, name.split("."), state[name])
        return differences

    def initialize(self, seed: int = 0) -> Module:
        """Give every parameter that has no numbers yet its initial ones; the same for the same `seed`."""
        for name, parameter in list(self.named_parameters()):
            if isinstance(parameter, Parameter):
                _assign(self, name.split("."), parameter.sample(seed, name))
        return self

    def astype(self, dtype: object) -> Module:
        """A copy whose parameters of float dtypes are of another one; their gradients come back through it.

        Buffers, such as running statistics, stay as they are. DTypeError where `dtype` is no float one.
        """
        target = as_dtype(dtype)
        if not target.has_gradient:
            raise DTypeError(f"parameters are floats, and cannot become {target}", advice="Use bf16, f16, f32 or f64.")
        leaves, treedef = tree.flatten(self)
        kept = treedef.buffers
        return treedef.unflatten(
            [leaf if place in kept else _converted(leaf, target) for place, leaf in enumerate(leaves)]
        )

    def train(self, training: bool = True) -> Module:
        """Let what does something else in training (Dropout) do so, in the module and all inside of it.

        It is a part of programs: a compiled function is compiled once for each.
        """
        for _, module in self.named_modules():
            if "training" in module.__dict__:
                module.__dict__["training"] = training
            elif training:
                module.__dict__.pop(_EVALUATES, None)
            else:
                module.__dict__[_EVALUATES] = True
        return self

    def eval(self) -> Module:
        """The opposite of `train`."""
        return self.train(False)

    def __repr__(self) -> str:
        lines = [f"({name}): {_describe(item)}" for name, item in self.__dict__.items() if name not in _NOT_SHOWN]
        body = "".join("\n  " + line.replace("\n", "\n  ") for line in lines)
        return f"{type(self).__name__}({body}\n)" if lines else f"{type(self).__name__}()"


def _converted(leaf: Any, dtype: DType) -> Any:
    if not tree.is_array(leaf) or not as_dtype(leaf.dtype).has_gradient or as_dtype(leaf.dtype) == dtype:
        return leaf
    if isinstance(leaf, Parameter):
        return replace(leaf, dtype=dtype)
    return leaf.astype(dtype.numpy if isinstance(leaf, np.ndarray) else dtype)


def name_modules(root: Any) -> None:
    """Tell every module in a module, or in a tree of arguments, the path that it has in its outermost module."""
    outermost = (item for _, item in tree.walk(root, stop=Module) if isinstance(item, Module))
    for module in outermost:
        for path, inner in module.named_modules():
            inner.__dict__[_PATH] = path


def _check_dtypes(own: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    wrong: dict[str, list[str]] = {}
    for name in own:
        if name in state and (found := dtype_name(state[name])) != (expected := dtype_name(own[name])):
            wrong.setdefault(f"{found}, expected {expected}", []).append(name)
    if wrong:
        lines = [f"dtype of {name}: {text}" for text, names in wrong.items() for name in fold_layers(names)]
        raise WeightsError(
            "state dict: does not fit the model:\n    " + "\n    ".join(lines),
            advice='convert it first: blu.io.cast(state, "f32"), or build the model in that dtype',
        )


def dtype_name(array: Any) -> str:
    """NumPy's name of an array's dtype, also for what only stands for an array."""
    return str(getattr(array.dtype, "numpy", array.dtype))


def _assign(root: Any, path: list[str], value: Any) -> None:
    """Set the leaf at a dotted path of attributes, keys and positions; tuples on the way are replaced."""
    *parents, last = path
    chain = [root]
    for key in parents:
        chain.append(_child(chain[-1], key))
    for owner, key in zip(reversed(chain), reversed([*parents, last]), strict=True):
        if not isinstance(owner, tuple):
            _set(owner, key, value)
            return
        value = _replaced(owner, key, value)


def _child(owner: Any, key: str) -> Any:
    children = tree.children(owner)
    return next(child for name, child in children.items() if str(name) == key)


def _set(owner: Any, key: str, value: Any) -> None:
    if isinstance(owner, list):
        owner[int(key)] = value
    elif isinstance(owner, dict):
        owner[next(name for name in owner if str(name) == key)] = value
    else:
        object.__setattr__(owner, key, value)


def _replaced(owner: tuple, key: str, value: Any) -> tuple:
    if hasattr(owner, "_fields"):
        return owner._replace(**{key: value})  # type: ignore[attr-defined]
    return (*owner[: int(key)], value, *owner[int(key) + 1 :])


def _describe(value: Any) -> str:
    """One attribute in a repr: arrays by dtype and shape, lists of equal modules once."""
    if tree.is_array(value):
        state = ", without numbers" if isinstance(value, Parameter) else ""
        return f"{dtype_name(value)}{list(value.shape)}{state}"
    if isinstance(value, list) and value and all(isinstance(item, Module) for item in value):
        return f"{len(value)} x {value[0]!r}" if len({repr(item) for item in value}) == 1 else repr(value)
    return repr(value)


Attributes = dict[Any, Any]


class _Constants(tree.Static):
    """The attributes of a module that are constants of the program."""

    __slots__ = ("are_plain", "buffers", "names", "values")

    def __init__(self, value: dict[str, Any]):
        super().__init__(value)
        self.buffers = value.get(BUFFERS, ())
        self.names, self.values = tuple(value), tuple(value.values())
        self.are_plain = all(map(_is_plain, self.values))


def _is_plain(value: Any) -> bool:
    return all(map(_is_plain, value)) if type(value) is tuple else type(value) in _PLAIN


def _flatten(module: Module) -> tuple[dict[Any, Any], tree.Node]:
    """A module is taken apart at every call of a compiled function, so what it was last time is tried first."""
    attributes: Attributes = module.__dict__
    node = attributes.get(_NODE)
    if node is None or not _still_fits(node, attributes):
        shown = {name: value for name, value in attributes.items() if name not in _HIDDEN}
        children = {name: value for name, value in shown.items() if _belongs_to_tree(value)}
        constants = _Constants({name: value for name, value in shown.items() if name not in children})
        node = tree.Node(type(module), tuple(children), constants)
        _keep(node, attributes)
    return {name: attributes[name] for name in node.keys}, node


def _keep(node: tree.Node, attributes: Attributes) -> None:
    """Remember the node if a glance at the attributes can tell whether it still fits."""
    assert isinstance(node.static, _Constants)
    if node.static.are_plain:
        attributes[_NODE] = node
    else:
        attributes.pop(_NODE, None)


def _still_fits(node: tree.Node, attributes: Attributes) -> bool:
    constants = node.static
    assert isinstance(constants, _Constants)
    if len(attributes) != len(node.keys) + len(constants.names) + 1 + (_PATH in attributes):
        return False
    if not all(map(is_, map(attributes.get, constants.names, repeat(_MISSING)), constants.values)):
        return False
    return all(map(_surely_belongs_to_tree, map(attributes.get, node.keys)))


_MISSING = object()


def _surely_belongs_to_tree(value: Any) -> bool:
    kind = type(value)
    return _is_tree_type(type(value[0]) if kind is list and value else kind)


@cache
def _is_tree_type(type_: type) -> bool:
    """Whether all values of a type are modules or arrays."""
    return issubclass(type_, Module) or (hasattr(type_, "shape") and hasattr(type_, "dtype"))


def _belongs_to_tree(value: Any) -> bool:
    """Whether an attribute is an array or a module, or a container with one inside."""
    return any(isinstance(item, Module) or tree.is_array(item) for _, item in tree.walk(value, stop=Module))


def _rebuild(children: dict[Any, Any], node: tree.Node) -> Module:
    assert isinstance(node.static, _Constants)
    module = object.__new__(node.type)
    module.__dict__.update(node.static.value)
    module.__dict__.update(children)
    _keep(node, module.__dict__)
    return module


tree.register_family(Module, _flatten, _rebuild)
