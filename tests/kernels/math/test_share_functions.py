"""What a kernel computes often is a function that it calls."""

from __future__ import annotations

import numpy as np
import pytest

import blu
from blu.compiler.codegen.kernel_texts import kernel_texts
from blu.dialects.core.mlir import ir
from blu.passes.kernels.math.expand_math import expand_math
from blu.passes.kernels.math.share_functions import OFTEN
from tests.support.kernels.math_kernel import operation_names


def kernel(name: str, function: str, type_: str, uses: int) -> str:
    """A function that applies a function of the math dialect so many times."""
    lines = [f"%{i + 1} = math.{function} %{i} : {type_}" for i in range(uses)]
    body = "\n".join(lines)
    return f"func.func @{name}(%0: {type_}) -> {type_} {{\n{body}\nreturn %{uses} : {type_}\n}}"


def expanded(*kernels: str, share: bool = True) -> ir.Module:
    with ir.Context():
        module = ir.Module.parse("\n".join(kernels))
        expand_math(module, share=share)
        module.operation.verify()
    return module


def functions_of(module: ir.Module) -> list[str]:
    return [ir.StringAttr(item.operation.attributes["sym_name"]).value for item in module.body.operations]


@pytest.mark.parametrize("type_", ["f32", "vector<16xf32>", "vector<3xf32>"])
def test_from_a_number_of_uses_on_it_is_called(type_: str) -> None:
    once = expanded(kernel("few", "exp", type_, OFTEN - 1), kernel("often", "exp", type_, OFTEN))
    shared = f"math.exp.{type_.removeprefix('vector<').removesuffix('>')}"
    assert functions_of(once) == ["few", "often", shared]
    assert operation_names(once).count("func.call") == OFTEN


def test_kernels_share_what_is_equal_and_nothing_else() -> None:
    kernels = [
        *(kernel(f"first_{i}", "exp", "vector<8xf32>", OFTEN) for i in range(2)),
        kernel("other", "tanh", "vector<8xf32>", OFTEN),
        kernel("wider", "exp", "vector<16xf32>", OFTEN),
    ]
    named = {name for name in functions_of(expanded(*kernels)) if name.startswith("math.")}
    assert named == {"math.exp.8xf32", "math.tanh.8xf32", "math.exp.16xf32"}


@pytest.mark.parametrize(("function", "type_"), [("exp", "vector<4x8xf32>"), ("rsqrt", "f32"), ("exp", "f64")])
def test_what_is_short_or_passed_through_memory_or_the_c_library_s_stays(function: str, type_: str) -> None:
    found = functions_of(expanded(kernel("kernel", function, type_, 3 * OFTEN)))
    assert not [name for name in found if name.startswith("math.")]


def test_gpus_have_no_functions() -> None:
    text = kernel("kernel", "exp", "f32", 3 * OFTEN)
    assert functions_of(expanded(text, share=False)) == ["kernel"]


@pytest.mark.parametrize("name", ["exp", "tanh", "sin", "log1p", "tan"])
@pytest.mark.parametrize("size", [1, 15, 1000])
def test_a_called_function_gives_the_bits_of_one_in_place(name: str, size: int) -> None:
    x = np.random.default_rng(0).uniform(0, 1, size).astype(np.float32)
    function = getattr(blu, name)

    def often(x):
        for _ in range(2 * OFTEN):
            x = 0.5 * function(x)
        return x

    once, expected = blu.jit(lambda x: 0.5 * function(x)), x
    for _ in range(2 * OFTEN):
        expected = np.asarray(once(expected))
    np.testing.assert_array_equal(np.asarray(blu.jit(often)(x)), expected)


def test_functions_that_nobody_wrote_a_line_of_are_called() -> None:
    """Called on arrays, the ops of a loop's body have no line."""

    def body(_, x):
        for _ in range(2 * OFTEN):
            x = 0.5 * blu.exp(x)
        return x

    x = np.linspace(0, 1, 100, dtype=np.float32)
    np.testing.assert_array_equal(blu.fori_loop(0, 1, body, x), body(0, x))
    assert blu.random.gamma(blu.random.key(0), 2.0, (100,)).shape == (100,)


def test_a_kernel_s_text_has_the_functions_that_it_calls_and_no_others() -> None:
    def often(x, y):
        for _ in range(OFTEN):
            x, y = blu.tan(x), blu.tanh(y)
        return x, y

    kernels = list(kernel_texts(blu.jit(often).trace(blu.spec((100,)), blu.spec((77, 3))).lower("cpu").module))
    with ir.Context():
        texts = [str(ir.Module.parse(kernel.text)) for kernel in kernels]
    written = [{name for name in ("tan", "tanh") if f"@math.{name}.16xf32(%arg0" in text} for text in texts]
    assert written == [{"tan"}, {"tanh"}]
    assert all("attributes {no_inline" in text for text in texts)
