"""`Array`: what compiled functions return, as numpy, torch and Python see it."""

import operator
import weakref

import ml_dtypes
import numpy as np
import pytest

from blu.errors import UnsupportedError
from blu.runtime import Array
from blu.runtime import array as array_module


@pytest.fixture
def values():
    return np.arange(6, dtype=np.float32).reshape(2, 3)


def test_attributes_are_numpys(values):
    array = Array(values)
    assert (array.shape, array.ndim, array.size, array.nbytes, array.dtype) == ((2, 3), 2, 6, 24, np.float32)
    assert len(array) == 2 and np.shares_memory(array.numpy(), values)


def test_numpy_reads_it_without_a_copy(values):
    array = Array(values)
    assert np.shares_memory(np.asarray(array), values)
    assert not np.shares_memory(np.array(array), values)
    assert not np.shares_memory(np.asarray(array, copy=True), values)
    assert np.asarray(array, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.asarray(array, dtype=np.float64, copy=False)
    assert np.allclose(np.exp(array), np.exp(values))


def test_numpys_functions_take_it(values):
    array = Array(values)
    for found in (np.max(array), np.sum(array, axis=0, keepdims=True), np.concatenate([array, array]), np.ravel(array)):
        assert isinstance(found, np.ndarray | np.generic)
    assert np.mean(array, axis=1).tolist() == [1, 4] and np.sort(array).tolist() == values.tolist()
    assert np.where(values > 2, array, 0).sum() == 12


def test_an_array_cannot_be_changed_through_numpy(values):
    array = Array(values)
    for view in (array.numpy(), np.asarray(array), np.asarray(array[0]), np.asarray(array, copy=False)):
        with pytest.raises(ValueError, match="read-only"):
            view[...] = 7
    for copy in (np.array(array), np.asarray(array, copy=True), np.asarray(array, np.float64)):
        copy[...] = 7
    assert values.flags.writeable and array.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_assignment_says_what_there_is_in_its_place(values):
    array = Array(values)
    with pytest.raises(TypeError, match="arrays are values") as raised:
        array[0] += 1
    assert "x.at[key].set(values)" in raised.value.advice and array.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_dlpack_shares_the_memory(values):
    array = Array(values)
    shared = np.from_dlpack(array)
    assert np.shares_memory(shared, values) and array.__dlpack_device__() == (1, 0)


def test_torch_reads_it_by_dlpack(values):
    torch = pytest.importorskip("torch")
    tensor = torch.from_dlpack(Array(values))
    values[0, 0] = 42
    assert tensor.shape == (2, 3) and tensor[0, 0] == 42


def test_bfloat16_has_no_dlpack_but_all_else():
    array = Array(np.array([1.5, 2.0], ml_dtypes.bfloat16))
    with pytest.raises(UnsupportedError, match="bfloat16") as caught:
        array.__dlpack__()
    assert isinstance(caught.value, BufferError)
    assert array.tolist() == [1.5, 2.0] and array[0].item() == 1.5 and isinstance(array[0].item(), float)
    assert np.asarray(array).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint8", "float16", "float32", "float64", "bfloat16"])
def test_scalars(dtype):
    array = Array(np.array(1, ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype))
    assert (float(array), int(array), bool(array), array.item(), array.tolist()) == (1.0, 1, True, 1, 1)
    assert type(array.item()) is {"b": bool, "i": int, "u": int}.get(np.asarray(array).dtype.kind, float)


def test_index_is_for_integers():
    assert [10, 20, 30][Array(np.array(1, np.int32))] == 20
    for wrong in (np.array(1.0), np.array([1, 2])):
        with pytest.raises(TypeError):
            operator.index(Array(wrong))


def test_many_elements_are_no_scalar(values):
    for convert in (float, int, bool, Array.item):
        with pytest.raises(ValueError):
            convert(Array(values))
    with pytest.raises(TypeError):
        len(Array(np.array(1)))
    with pytest.raises(TypeError, match="without dimensions"):
        iter(Array(np.array(1)))


def test_indexing_and_iteration(values):
    array = Array(values)
    assert isinstance(array[0], Array) and array[0].tolist() == [0, 1, 2]
    assert array[1, 2].item() == 5 and array[..., ::-1].tolist() == [[2, 1, 0], [5, 4, 3]]
    assert array[Array(np.array([1, 0]))].tolist() == [[3, 4, 5], [0, 1, 2]]
    assert [row.tolist() for row in array] == values.tolist()
    with pytest.raises(IndexError):
        array[2]
    with pytest.raises(TypeError):
        array[0] = 1


@pytest.mark.parametrize("compute", [operator.add, operator.mul, operator.eq, operator.lt, operator.matmul])
def test_where_programs_only_run_nothing_else_computes(values, compute, monkeypatch):
    monkeypatch.setattr(array_module, "_functions", {})
    with pytest.raises(TypeError, match=r"blu\.jit"):
        compute(Array(values), Array(values))


def test_hash_and_weak_references(values):
    array = Array(values)
    assert len({array, array}) == 1 and weakref.ref(array)() is array


def test_repr_is_short():
    assert repr(Array(np.array([1.0, 2.5], np.float32))) == "Array([1. , 2.5], shape=(2,), dtype=float32)"
    assert repr(Array(np.array(3))) == "Array(3, shape=(), dtype=int64)"
    large = repr(Array(np.zeros((1000, 1000))))
    assert "..." in large and len(large) < 200 and "shape=(1000, 1000)" in large
