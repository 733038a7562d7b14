"""Arrays on a (fake) GPU, to and from other libraries, and from `blu.jit` and `blu run` to programs for it."""

from __future__ import annotations

import ctypes
import gc
import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.compiler.cli.run import main as blu_run
from blu.errors import ArgumentError, UnsupportedError
from blu.runtime.artifact import write_artifact
from blu.runtime.cuda import CudaProgram, DeviceArray, exchange, from_dlpack, to_device
from blu.runtime.cuda.array import repeated
from tests.support.programs import cuda_programs as programs
from tests.support.programs.fake_cuda import MAIN, SECOND, view

X = np.arange(programs.COUNT, dtype=np.float32)


class Foreign:
    """Another library's array, known by DLPack alone."""

    def __init__(self, array: DeviceArray, dtype: str = "torch.float32"):
        self._array, self.shape, self.dtype = array, array.shape, dtype
        self.streams: list[int] = []

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return self._array.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", ml_dtypes.bfloat16)
DTYPES += ("complex64", "complex128")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (0, 2)])
def test_dlpack_there_and_back(gpu, dtype, shape):
    values = np.ones(shape, dtype)
    array = to_device(values)
    back = from_dlpack(Foreign(array))
    assert (back.address, back.shape, back.dtype) == (array.address, values.shape, values.dtype)
    assert np.array_equal(back.numpy(), values)


def test_a_capsule_keeps_its_array(gpu):
    used = gpu.pool.used_bytes
    capsule = to_device(X).__dlpack__()
    assert gpu.pool.used_bytes == used + 512 and len(exchange._handed_out) == 1
    del capsule
    gc.collect()
    assert gpu.pool.used_bytes == used and not exchange._handed_out


def test_a_reader_deletes_what_it_has_taken_over(gpu):
    used = gpu.pool.used_bytes
    capsule = to_device(X).__dlpack__()
    api = ctypes.pythonapi
    address = exchange._pointer(capsule, b"dltensor")
    api.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)
    name = b"used_dltensor"
    api.PyCapsule_SetName(capsule, name)
    del capsule
    gc.collect()
    assert gpu.pool.used_bytes == used + 512
    managed = ctypes.cast(address, ctypes.POINTER(exchange._Managed)).contents
    managed.deleter(address)
    assert gpu.pool.used_bytes == used


def test_other_streams_wait(gpu):
    array = to_device(X)
    for stream in (None, -1, 0, 1):
        array.__dlpack__(stream=stream)
    assert not any(step.startswith("let_wait") for step in gpu.log)
    array.__dlpack__(stream=1234)
    assert gpu.count("let_wait 1234") == 1
    foreign = Foreign(array)
    from_dlpack(foreign)
    assert foreign.streams == [gpu.stream]


def test_what_dlpack_cannot_do(gpu):
    array = to_device(X)
    assert array.__dlpack_device__() == (2, 0)
    with pytest.raises(UnsupportedError, match="without a copy"):
        array.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="without a copy"):
        array.__dlpack__(dl_device=(1, 0))
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(array, copy=False)
    assert np.asarray(array, dtype=np.float64).dtype == np.float64


def test_host_arrays_by_dlpack(gpu):
    array = from_dlpack(X)
    assert type(array) is blu.Array and np.shares_memory(array.numpy(), X)


def test_the_cuda_array_interface(gpu):
    array = to_device(X.reshape(8, 8))
    interface = array.__cuda_array_interface__
    assert interface["data"] == (array.address, False) and interface["shape"] == (8, 8)
    assert (interface["typestr"], interface["version"], interface["strides"]) == ("<f4", 3, None)
    assert to_device(np.ones(2, ml_dtypes.bfloat16)).__cuda_array_interface__["typestr"] == "<V2"
    back = to_device(SimpleNamespace(__cuda_array_interface__=interface))
    assert back.address == array.address and np.array_equal(back.numpy(), X.reshape(8, 8))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"strides": (4, 32)}, "not contiguous"),
        ({"typestr": "<c32"}, "no dtype like '<c32'"),
    ],
)
def test_arrays_that_blu_cannot_take(gpu, change, message):
    interface = to_device(X.reshape(8, 8)).__cuda_array_interface__ | change
    with pytest.raises(ArgumentError, match=message):
        to_device(SimpleNamespace(__cuda_array_interface__=interface))


def test_contiguous_strides_are_fine(gpu):
    array = to_device(X.reshape(8, 1, 8))
    interface = array.__cuda_array_interface__ | {"strides": (32, 7, 4)}
    assert to_device(SimpleNamespace(__cuda_array_interface__=interface)).address == array.address


def test_to_device(gpu):
    assert np.array_equal(to_device(X[::2]).numpy(), X[::2])
    assert np.array_equal(to_device(X.astype(">f4")).numpy(), X)
    array = to_device([1, 2])
    assert array.dtype == np.int64 and to_device(array) is array
    with pytest.raises(ArgumentError, match="no arrays of complex256"):
        to_device(np.ones(3, np.clongdouble))


def test_programs_read_other_libraries_arrays(gpu):
    program, array = CudaProgram.load(programs.twice()), to_device(X)
    copies = gpu.count("copy_in")
    [result] = program.run([Foreign(array)])
    assert np.array_equal(result.numpy(), X + 2) and gpu.count("copy_in") == copies
    [result] = program.run([array], outputs=[Foreign(to_device(X))])
    assert np.array_equal(result.numpy(), X + 2)


def _add(threads: int, left: int, right: int, target: int) -> None:
    view(target, 64, np.float32)[:] = view(left, 64, np.float32) + view(right, 64, np.float32)


@pytest.fixture
def jitted(gpu) -> blu.Array:
    """A function compiled for sm_90a, whose only kernel is replaced by one of Python."""

    def add(x, y):
        return {"sum": x + y}

    function = blu.jit(add, target="sm_90a")
    [kernel] = {name.split(".")[0] for name in function.trace(X, X).compile().executable if name.endswith(".ptx")}
    gpu.kernels[kernel] = _add
    return function


def test_jit_takes_and_gives_device_arrays(gpu, jitted):
    first = jitted(X, X)["sum"]
    assert isinstance(first, DeviceArray) and np.array_equal(first.numpy(), 2 * X)
    copies = gpu.count("copy_in")
    again = jitted(first, Foreign(to_device(X)))["sum"]
    assert np.array_equal(again.numpy(), 3 * X) and gpu.count("copy_in") == copies + 1
    bf16 = Foreign(to_device(X.astype(ml_dtypes.bfloat16)), "torch.bfloat16")
    assert "bf16" in str(jitted.trace(bf16, bf16).traced.signature.leaves[0])


def test_complex_arrays_stay_on_the_gpu(gpu):
    """As pairs of numbers in the memory that they have; what is donated is gone."""
    z = X[:32] + 1j * X[32:]
    function = blu.jit(lambda z, w: z + w, target="sm_90a", donate=("z",))
    names = function.trace(z, z).compile().executable
    gpu.kernels |= {name.split(".")[0]: _add for name in names if name.endswith(".ptx")}
    first, other = to_device(z), Foreign(to_device(z), "torch.complex64")
    copies = gpu.count("copy_in")
    found = function(first, other)
    again = function(found, other)
    assert isinstance(again, DeviceArray) and (again.shape, again.dtype.name) == ((32,), "complex64")
    assert np.array_equal(again.numpy(), 3 * z) and gpu.count("copy_in") == copies
    assert first.is_donated and found.is_donated and np.array_equal(from_dlpack(again).numpy(), 3 * z)
    with pytest.raises(ArgumentError, match="the array was donated to <lambda>"):
        first.numpy()
    assert np.array_equal(blu.jit(lambda z: z * 2)(again).numpy(), 6 * z)


def test_a_call_like_an_earlier_one_looks_at_kinds_of_arrays_alone(gpu, jitted, monkeypatch):
    """Of other libraries' arrays on a GPU as well."""
    kinds = (X, X), (to_device(X), Foreign(to_device(X))), (Foreign(to_device(X)), Foreign(to_device(2 * X)))
    expected = [jitted(*arrays)["sum"].numpy() for arrays in kinds]
    monkeypatch.setattr(type(jitted), "_signature", None)
    for arrays, known in zip(kinds, expected, strict=True):
        assert np.array_equal(jitted(*arrays)["sum"].numpy(), known)
    with pytest.raises(TypeError):
        jitted(Foreign(to_device(X)), Foreign(to_device(X[:3])))


def test_cpu_programs_read_device_arrays(gpu):
    on_cpu = blu.jit(lambda x: x + 1.0)
    assert np.array_equal(on_cpu(to_device(X)).numpy(), X + 1)


def test_blu_run(gpu, tmp_path, capsys):
    target = {"target": {"name": "sm_90a", "triple": "nvptx64-nvidia-cuda"}}
    write_artifact(tmp_path / "f.blu", programs.update(), target)
    np.save(tmp_path / "x.npy", X)
    given = [f"--input={name}={tmp_path / 'x.npy'}" for name in ("state", "x")]
    assert blu_run([str(tmp_path / "f.blu"), *given, "--repeat=3", f"--output-dir={tmp_path}"]) == 0
    assert np.array_equal(np.load(tmp_path / "result_0.npy"), 2 * X)
    assert np.array_equal(np.load(tmp_path / "result_1.npy"), X + 1)
    assert "float32[64]" in capsys.readouterr().out


class Tensor:
    """What Blu asks of a torch tensor."""

    dtype, is_cuda, requires_grad = "torch.float32", True, False

    def __init__(self, array: DeviceArray, **attributes: object):
        self.array, self.shape, self.handed_over = array, array.shape, 0
        vars(self).update(attributes)

    def data_ptr(self) -> int:
        return self.array.address

    def get_device(self) -> int:
        return 0

    def is_contiguous(self) -> bool:
        return True

    def is_neg(self) -> bool:
        return False

    def __dlpack__(self, stream=None):
        self.handed_over += 1
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.fixture(params=["handles", "objects"])
def torch(monkeypatch, request) -> SimpleNamespace:
    """A module torch that works on the legacy default stream, which it has a handle of, or an object alone."""
    stream = SimpleNamespace(cuda_stream=0)
    cuda = SimpleNamespace(is_initialized=lambda: True, current_stream=lambda device: stream, stream=stream)
    module = SimpleNamespace(cuda=cuda, Tensor=Tensor, float32="torch.float32", float64="torch.float64")
    if request.param == "handles":
        module._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: stream.cuda_stream)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_tensors_of_torch_are_read_without_capsules(gpu, torch):
    program, tensor = CudaProgram.load(programs.twice()), Tensor(to_device(X))
    assert np.array_equal(program.run([tensor])[0].numpy(), X + 2) and tensor.handed_over == 0
    state = Tensor(to_device(X))
    [updated, _] = CudaProgram.load(programs.update()).run([state, X])
    assert updated.address == state.data_ptr() and updated.owner is state


@pytest.mark.parametrize(("stream", "waits"), [(0, 0), (MAIN, 0), (SECOND, 1)])
def test_another_stream_of_torch_is_waited_for_once_a_run(gpu, torch, stream, waits):
    program, tensors = CudaProgram.load(programs.update()), [Tensor(to_device(X)) for _ in range(2)]
    torch.cuda.stream.cuda_stream = stream
    for number in range(2):
        gpu.enqueue_on(stream or MAIN, lambda: np.copyto(view(tensors[1].data_ptr(), len(X), np.float32), 5 * X))
        _, other = program.run(tensors)
        assert np.array_equal(other.numpy(), 5 * X + 1), number
    assert [tensor.handed_over for tensor in tensors] == [0, 0]
    assert gpu.count(f"record_on {stream}") == 2 * waits == gpu.count(f"let_wait {MAIN}")
    program.run([to_device(X), to_device(X)])
    assert gpu.count(f"record_on {stream}") == 2 * waits, "nothing of torch's is read"
    gpu.has_graphs = False
    program.run(tensors)
    assert [tensor.handed_over for tensor in tensors] == [waits, waits], "no event can be recorded there"


def test_other_tensors_go_by_dlpack(gpu, torch):
    program = CudaProgram.load(programs.twice())
    others = {"is_cuda": False, "requires_grad": True, "is_neg": lambda: True, "get_device": lambda: 1}
    for attributes in ({name: value} for name, value in others.items()):
        tensor = Tensor(to_device(X), **attributes)
        program.run([tensor])
        assert tensor.handed_over == 1
    with pytest.raises(ArgumentError, match="shape"):
        program.run([Tensor(to_device(X[:3]))])


def test_a_part_of_an_array_is_read_alone(gpu):
    array, value = to_device(X.reshape(4, 16)), X.reshape(4, 16)
    copied = []
    copy_out = gpu.copy_out
    gpu.copy_out = lambda target, address, nbytes: (copied.append(nbytes), copy_out(target, address, nbytes))
    for key in (2, -1, (1, 3), (-1, -16), (0,), ()):
        assert np.array_equal(array[key].numpy(), value[key])
    assert copied == [64, 64, 4, 4, 64, 256]
    assert np.array_equal(array[:, 1].numpy(), value[:, 1])
    for key in (4, (0, 16), (0, -17), (0, 0, 0)):
        with pytest.raises(IndexError):
            array[key]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 7, 64])
def test_values_are_repeated_in_an_array_of_the_gpu(gpu, count):
    found = repeated(X[:3], (count, 1))
    assert found.shape == (count, 1) and np.array_equal(found.numpy()[:, 0], np.resize(X[:3], count))
