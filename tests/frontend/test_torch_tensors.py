"""PyTorch's tensors in host memory are arguments, parameters and state dicts as NumPy's arrays are."""

from __future__ import annotations

import numpy as np
import pytest
import safetensors.torch
import torch

import blu
from blu import nn
from blu.errors import ArgumentError
from blu.frontend.io import cast, load_file, save_file
from blu.frontend.tracing.host_arrays import as_host_array

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint64", "float16", "bfloat16", "float32", "float64")
STORED = ("float8_e4m3fn", "float8_e5m2")


def numbers(*shape: int) -> torch.Tensor:
    return torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(shape) / 7


@pytest.mark.parametrize("dtype", [*DTYPES, *STORED])
def test_a_tensor_is_seen_without_a_copy(dtype: str) -> None:
    tensor = numbers(3, 4).to(getattr(torch, dtype))
    array = as_host_array(tensor)
    assert array.dtype.name == dtype and array.shape == (3, 4)
    np.testing.assert_array_equal(array.astype(np.float64), tensor.to(torch.float64).numpy())
    tensor[0, 0] = 1
    assert array[0, 0] == 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_tensors_are_arguments(dtype: str) -> None:
    tensor = numbers(3, 4).to(getattr(torch, dtype))
    double = blu.jit(lambda tree: tree["x"] * 2)
    for given in (tensor, tensor.T.contiguous().T, tensor[:, ::2], tensor[1:1], tensor[0, 0]):
        found = double({"x": given})
        assert found.dtype.name == dtype
        np.testing.assert_array_equal(np.asarray(found), as_host_array(given * 2))


def test_parameters_that_require_gradients_are_arguments() -> None:
    layer = torch.nn.Linear(3, 2)
    found = blu.jit(lambda w, b, x: x @ w.T + b)(layer.weight, layer.bias, numbers(4, 3))
    np.testing.assert_allclose(np.asarray(found), layer(numbers(4, 3)).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_functions_outside_of_a_program_read_the_elements_of_each_tensor() -> None:
    """Large tensors print alike: what they print is no key for a program."""
    first = torch.zeros(5000)
    second = torch.zeros(5000)
    second[2500] = 1
    assert repr(first) == repr(second)
    assert [float(blu.sum(tensor)) for tensor in (first, second, first)] == [0, 1, 0]


def test_tensors_that_are_more_than_their_elements_are_refused() -> None:
    with pytest.raises(blu.BluError, match="argument x"):
        blu.jit(lambda x: x * 2)(numbers(3, 3).to_sparse())


def test_a_state_dict_of_torchs_is_loaded() -> None:
    peer = torch.nn.Linear(3, 2)
    layer = nn.Linear(3, 2)
    assert not layer.load_state_dict(peer.state_dict())
    x = numbers(4, 3)
    found = blu.jit(lambda layer, x: layer(x))(layer, x)
    np.testing.assert_allclose(np.asarray(found), peer(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(blu.BluError, match="dtype of weight: bfloat16, expected float32"):
        layer.load_state_dict(peer.to(torch.bfloat16).state_dict())
    assert not layer.load_state_dict(cast(peer.to(torch.bfloat16).state_dict(), "f32"))


def test_tensors_are_saved(tmp_path) -> None:
    state = {"a": torch.nn.Parameter(numbers(2, 3)), "b": numbers(3, 2).T.bfloat16(), "c": np.arange(3)}
    name = str(tmp_path / "x.safetensors")
    save_file(state, name)
    found = load_file(name)
    assert [array.dtype.name for array in found.values()] == ["int64", "float32", "bfloat16"]
    for key, array in found.items():
        np.testing.assert_array_equal(array, as_host_array(state[key]))


def test_swapped_arguments_of_save_file_are_refused(tmp_path) -> None:
    sentence = "save_file takes tensors by name, then the name of a file"
    for words in (("x.safetensors", {}), (tmp_path / "x.safetensors", {"a": np.zeros(3)}), ([], "x"), ({}, None)):
        with pytest.raises(ArgumentError, match=sentence) as raised:
            save_file(*words)
        assert "save_file(model.state_dict()" in raised.value.advice
    assert not list(tmp_path.iterdir())


def test_weights_in_eight_bits_are_read_and_converted(tmp_path) -> None:
    """As PyTorch writes them; programs take them, and compute in another dtype."""
    weights = {"w": numbers(3, 4).to(torch.float8_e4m3fn), "v": numbers(5).to(torch.float8_e5m2)}
    safetensors.torch.save_file(weights, tmp_path / "theirs.safetensors")
    save_file(weights, tmp_path / "ours.safetensors")
    for name, tensor in safetensors.torch.load_file(tmp_path / "ours.safetensors").items():
        assert tensor.dtype == weights[name].dtype
    state = load_file(tmp_path / "theirs.safetensors")
    for name, array in cast(state, "f32").items():
        np.testing.assert_array_equal(array, weights[name].float().numpy())
    assert cast(cast(state, "f32"), "f8e5m2")["w"].dtype.name == "float8_e5m2"
    with pytest.raises(blu.BluError, match=r"does not take f8e4m3.*\n.*x.astype\('bf16'\)"):
        blu.jit(lambda w: w * 2)(state["w"])


def test_complex_tensors_are_arguments() -> None:
    x = torch.complex(numbers(3), numbers(3))
    found = np.asarray(blu.jit(lambda x: x * 2)(x.conj()))
    assert found.dtype == np.complex64
    np.testing.assert_array_equal(found, (x.conj() * 2).resolve_conj().numpy())
