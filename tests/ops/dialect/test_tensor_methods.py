"""What a tensor offers: its properties and methods, which `dir` lists, and nothing that is not for users."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import blu
from blu.dialects.core.dtypes import TensorType, f32
from blu.dialects.hooks import HOOKS, CompilerHooks, TracerHooks
from blu.dialects.tensor.tensor import METHODS, Tensor
from blu.errors import UnsupportedError
from blu.frontend.functional import functional, interchange
from tests.support.programs.traced import traced

PROPERTIES = {
    "T",
    "at",
    "device",
    "dtype",
    "is_weak",
    "item",
    "mT",
    "ndim",
    "shape",
    "size",
    "tolist",
    "type",
    "value",
    "real",
    "imag",
}
# Spelled as Python does.
ALIASES = {"abs": "absolute"}
# Methods whose functions are none of `blu`.
HOMES = {"to_device": interchange}


def offered(look) -> None:
    """Look at a tensor of a trace."""
    traced(lambda x: (look(x), x)[1], [TensorType((2, 3), f32)])


def test_dir_lists_all_that_a_tensor_offers():
    def look(x: Tensor) -> None:
        public = {name for name in dir(x) if not name.startswith("_")}
        assert public == PROPERTIES | {name for name in METHODS if not name.startswith("_")}
        assert all(hasattr(x, name) for name in public)

    offered(look)


def test_methods_are_the_functions_of_the_same_name():
    def look(x: Tensor) -> None:
        for name in set(dir(x)) - PROPERTIES:
            if not name.startswith("_"):
                method, function = getattr(x, name), getattr(HOMES.get(name, functional), ALIASES.get(name, name))
                assert (method.__func__, method.__self__) == (function, x), name
                assert method.__doc__ == function.__doc__

    offered(look)


@pytest.mark.parametrize("name", ["eager", "eager_transform", "capture", "user_location", "getitem", "summ"])
def test_what_is_not_for_users_is_no_attribute(name):
    def look(x: Tensor) -> None:
        assert name not in dir(x)
        with pytest.raises(AttributeError, match=f"a tensor has no attribute '{name}'") as caught:
            getattr(x, name)
        assert caught.value.name == name and caught.value.obj is None  # given an object, Python would guess once more

    offered(look)


def test_a_tensor_has_all_methods_whichever_function_of_blu_is_used_first():
    code = "import blu; blu.jit(lambda x: (print(*dir(x)), x)[1]).trace(blu.spec((2,)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert METHODS.keys() <= set(found.stdout.split())


def test_passes_have_the_methods_of_tensors_without_the_frontend():
    code = (
        "from blu.dialects.core.context import make_context; make_context()\n"
        "import sys; assert 'blu.frontend' not in sys.modules\n"
        "from blu.dialects.tensor.tensor import METHODS; print(*METHODS)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    below = {name for name, function in METHODS.items() if function.__module__.startswith("blu.dialects.")}
    assert "__getitem__" in below and below <= set(found.stdout.split())


def test_large_arrays_outside_of_a_trace_are_no_business_of_the_tracer():
    with pytest.raises(AssertionError, match="there is no tracer"):
        TracerHooks().capture(np.ones(3))
    assert TracerHooks().user_line() is None


def test_functions_on_arrays_say_that_they_need_the_compiler(monkeypatch):
    grad = blu.grad  # imports the compiler
    monkeypatch.setattr(HOOKS, "compiler", CompilerHooks())
    with pytest.raises(UnsupportedError, match=r"exp is called on arrays, and blu\.compiler is not imported"):
        functional.exp(np.ones(3))
    with pytest.raises(UnsupportedError, match=r"blu\.compiler is not imported"):
        grad(lambda x: x)(1.0)
