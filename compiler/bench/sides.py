"""Who computes a workload: Blu, and PyTorch as it is called or compiled. All get the same arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from blu.compiler.bench.workload import RandomArray, Workload
from blu.compiler.jit import jit
from blu.frontend.tracing.spec import spec
from blu.frontend.vjp import vjp

# Calls go through several sets of arguments, so that none finds its own in a GPU's cache.
UNCACHED_BYTES, MOST_SETS = 400e6, 8


def as_it_is(function: Any) -> Any:
    """The function itself."""
    return function


class Arguments:
    """Sets of random arrays as PyTorch's, on the GPU or not."""

    def __init__(self, torch: Any, workload: Workload, device: str, seed: int):
        self.torch, self.device = torch, device
        nbytes = sum(operand.nbytes for operand in workload.operands)
        count = min(MOST_SETS, math.ceil(UNCACHED_BYTES / max(nbytes, 1))) if device == "cuda" else 1
        generator = torch.Generator(device=device).manual_seed(seed)
        self.sets = [[self._draw(operand, generator) for operand in workload.operands] for _ in range(count)]

    def _draw(self, operand: RandomArray, generator: Any) -> Any:
        torch, keywords = self.torch, {"generator": generator, "device": self.device}
        if operand.below:
            return torch.randint(0, operand.below, operand.shape, dtype=torch.int32, **keywords)
        return torch.randn(operand.shape, **keywords).to(_torch_dtype(torch, operand.dtype))

    def in_double(self) -> list[Any]:
        """The first set in float64; integers as they are."""
        return [item.double() if item.is_floating_point() else item for item in self.sets[0]]


class BluSide:
    """The workload as a program of Blu's, for one target."""

    def __init__(self, workload: Workload, target: str, arguments: Arguments):
        self._torch, self._arguments = arguments.torch, arguments
        specs = [spec(operand.shape, operand.dtype) for operand in workload.operands]
        traced = jit(_with_gradients_of_blu(workload), name="workload").trace(*specs)
        # One for each set: a program whose arguments move must be told where they are now.
        self._programs = [traced.compile(target).program for _ in arguments.sets]
        self._inputs = [[_given(arguments.torch, item) for item in each] for each in arguments.sets]
        self._outputs = [program.run(each) for program, each in zip(self._programs, self._inputs, strict=True)]

    def call(self, number: int) -> Any:
        """Compute with one set, into memory that is there."""
        index = number % len(self._programs)
        return self._programs[index].run(self._inputs[index], outputs=self._outputs[index])

    def results(self) -> list[Any]:
        """Of the first set, as PyTorch's arrays in float64 (integers as they are), computed anew."""
        return [_in_double(self._torch, item) for item in self.call(0)]


class TorchSide:
    """The workload in PyTorch, by what `wrap` makes of the function: nothing, or torch.compile."""

    def __init__(
        self, workload: Workload, arguments: Arguments, wrap: Callable[[Any], Any] = lambda function: function
    ):
        self._torch, self._arguments = arguments.torch, arguments
        self._function = with_gradients_of_torch(arguments.torch, workload, wrap)
        arguments.torch.backends.cuda.matmul.allow_tf32 = workload.units == "tf32"
        self.call(0)

    def call(self, number: int) -> Any:
        """Compute with one set."""
        return self._function(*self._arguments.sets[number % len(self._arguments.sets)])

    def results(self) -> list[Any]:
        """Of the first set, in float64 (integers as they are)."""
        found = self.call(0)
        return [_in_double(self._torch, item) for item in (found if isinstance(found, tuple) else (found,))]


def with_gradients_of_torch(torch: Any, workload: Workload, wrap: Callable[[Any], Any]) -> Callable[..., Any]:
    """The workload's function of PyTorch's arrays, with its gradients where the workload has them."""
    function = wrap(partial(workload.torch, torch))
    if not workload.differentiated:
        return function

    def call(*operands: Any) -> Any:
        *inputs, gradient = operands
        chosen = set(workload.differentiated)
        inputs = [item.detach().requires_grad_() if index in chosen else item for index, item in enumerate(inputs)]
        value = function(*inputs)
        wanted = [inputs[index] for index in workload.differentiated]
        return value.detach(), *torch.autograd.grad(value, wanted, gradient)

    return call


def _with_gradients_of_blu(workload: Workload) -> Callable[..., Any]:
    if not workload.differentiated:
        return workload.blu

    def call(*operands: Any) -> Any:
        *inputs, gradient = operands

        def of_chosen(*chosen: Any) -> Any:
            given = dict(zip(workload.differentiated, chosen, strict=True))
            return workload.blu(*(given.get(index, item) for index, item in enumerate(inputs)))

        value, pull = vjp(of_chosen, *(inputs[index] for index in workload.differentiated))
        return value, *pull(gradient)

    return call


def _torch_dtype(torch: Any, dtype: str) -> Any:
    return {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}[dtype]


def _given(torch: Any, item: Any) -> Any:
    """An array of PyTorch's as a program takes it: on the host as NumPy's, which knows bf16 by ml_dtypes only."""
    if item.device.type == "cuda":
        return item
    if item.dtype == torch.bfloat16:
        return item.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return item.numpy()


def _in_double(torch: Any, item: Any) -> Any:
    if isinstance(item, np.ndarray):
        floating = item.dtype == ml_dtypes.bfloat16 or np.issubdtype(item.dtype, np.floating)
        return torch.from_numpy(np.array(item, np.float64) if floating else item)
    found = item if isinstance(item, torch.Tensor) else torch.from_dlpack(item)
    return found.double() if found.is_floating_point() else found
