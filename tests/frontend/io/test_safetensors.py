"""The safetensors format: zero-copy reading, hostile files, atomic writing."""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from blu.errors import WeightsError
from blu.frontend.io import load_file, save_file
from blu.frontend.io import safetensors as format_module

DTYPES = [
    np.bool_,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.float16,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    np.float32,
    np.float64,
]
ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def write(path: Path, header: dict | bytes, data: bytes = b"\0" * 8) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(WeightsError) as caught:
        load_file(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(tmp_path, dtype):
    state = {
        "a": np.arange(6).reshape(2, 3).astype(dtype),
        "scalar": np.asarray(1, dtype),
        "empty": np.zeros((0, 4), dtype),
        "transposed": np.arange(6).reshape(2, 3).astype(dtype).T,
    }
    save_file(state, tmp_path / "x.safetensors")
    loaded = load_file(tmp_path / "x.safetensors")
    assert set(loaded) == set(state)
    for name, array in state.items():
        assert loaded[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].shape == array.shape


def test_library_reads_what_we_write_and_back(tmp_path):
    state = {"w": np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)}
    save_file(state, tmp_path / "ours.safetensors", {"format": "pt"})
    np.testing.assert_array_equal(safetensors.numpy.load_file(tmp_path / "ours.safetensors")["w"], state["w"])
    with safetensors.safe_open(tmp_path / "ours.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt"}
    safetensors.numpy.save_file(state, tmp_path / "theirs.safetensors")
    np.testing.assert_array_equal(load_file(tmp_path / "theirs.safetensors")["w"], state["w"])


def test_tensors_are_views_of_the_mapped_file(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"w": np.zeros(1024, np.float32)}, path)
    loaded = load_file(path)["w"]
    with path.open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(np.float32(7).tobytes())
    assert loaded[-1] == 7
    assert not loaded.flags.writeable


def test_unpadded_header_gives_aligned_tensors(tmp_path):
    header = json.dumps({"w": ENTRY}).encode()
    for padding in range(8):
        path = write(tmp_path / "x", header + b" " * padding, np.array([1, 2], "<f4").tobytes())
        assert load_file(path)["w"].flags.aligned
        assert load_file(path)["w"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"dtype": "F33"}, "unknown dtype 'F33'"),
        ({"dtype": ["F32"]}, "unknown dtype"),
        ({"shape": [3]}, "do not hold the 12 bytes"),
        ({"shape": [-2]}, "malformed shape"),
        ({"shape": [2.0]}, "malformed shape"),
        ({"shape": [True, 2]}, "malformed shape"),
        ({"shape": [1] * 65}, "malformed shape"),
        ({"shape": [0, 2**70], "data_offsets": [0, 0]}, "too large"),
        ({"shape": [2**40, 2**40]}, "too large"),
        ({"data_offsets": [8, 0]}, "do not hold"),
        ({"data_offsets": [0]}, "malformed data_offsets"),
        ({"data_offsets": [2**64, 2**64 + 8]}, "leave a hole"),
        ({"data_offsets": [4, 12]}, "leave a hole"),
        ({"extra": 1}, "were expected"),
    ],
)
def test_malformed_entry_is_refused_by_name(tmp_path, fields, words):
    message = refusal(write(tmp_path / "x", {"layer.0": ENTRY | fields}))
    assert words in message
    assert "'layer.0'" in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "truncated"),
        (b"\1\2\3", "truncated"),
        (struct.pack("<Q", 2**63) + b"{}", "a header of 9223372036854775808 bytes"),
        (struct.pack("<Q", 1000) + b"{}", "truncated: a header of 1000 bytes in a file of 10"),
        (struct.pack("<Q", 4) + b"\xff\xfe{}", "not JSON"),
        (struct.pack("<Q", 2) + b"[]", "a JSON object was expected"),
        (struct.pack("<Q", 200_000) + b"[" * 200_000, "nested too deeply"),
        (struct.pack("<Q", 9007) + b'{"a":' + b"9" * 9001 + b"}", "not JSON"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
    ],
)
def test_malformed_file_is_refused(tmp_path, content, words):
    (tmp_path / "x").write_bytes(content)
    assert words in refusal(tmp_path / "x")


def test_layout_is_refused(tmp_path):
    overlap = {"a": ENTRY, "b": ENTRY | {"data_offsets": [4, 12]}}
    assert "'b': bytes [4, 12) overlap" in refusal(write(tmp_path / "x", overlap, b"\0" * 12))
    assert "end after the file's 6 bytes" in refusal(write(tmp_path / "x", {"a": ENTRY}, b"\0" * 6))
    assert "1 bytes of data belong to no tensor" in refusal(write(tmp_path / "x", {"a": ENTRY}, b"\0" * 9))
    assert "__metadata__" in refusal(write(tmp_path / "x", {"__metadata__": {"a": 1}, "a": ENTRY}))


def test_duplicate_keys_are_refused(tmp_path):
    entry = json.dumps(ENTRY).encode()
    assert "'a' occurs more than once" in refusal(write(tmp_path / "x", b'{"a":' + entry + b',"a":' + entry + b"}"))


def test_missing_file(tmp_path):
    assert "No such file" in refusal(tmp_path / "nothing.safetensors")


def test_unsavable_dtype(tmp_path):
    with pytest.raises(WeightsError, match="'z': dtype complex128 cannot be saved"):
        save_file({"z": np.zeros(1, np.complex128)}, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_full_disk_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.safetensors"
    save_file({"w": np.ones(4, np.float32)}, path)

    def write_half(state, temporary, metadata):
        Path(temporary).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(format_module, "write_file", write_half)
    with pytest.raises(WeightsError, match=r"No space left on device(.|\n)*unchanged"):
        save_file({"w": np.zeros(4, np.float32)}, path)
    assert load_file(path)["w"].tolist() == [1] * 4
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np
from blu.errors import WeightsError
from blu.frontend.io import save_file
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    save_file({"w": np.zeros(1_000_000, np.float32)}, Path(sys.argv[1]))
except WeightsError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs a file size limit")
def test_failing_write_of_the_library_keeps_the_old_file(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"w": np.ones(4, np.float32)}, path)
    ran = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=60)
    assert "cannot be written" in ran.stdout, ran.stderr
    assert load_file(path)["w"].tolist() == [1] * 4
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_saving_over_the_mapped_file(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file({"w": np.arange(8, dtype=np.float32)}, path)
    old = load_file(path)
    save_file({"w": old["w"] + 1}, path)
    assert old["w"].tolist() == list(range(8))
    assert load_file(path)["w"].tolist() == list(range(1, 9))


def test_the_new_file_is_durable_before_it_replaces_the_old_one(tmp_path, monkeypatch):
    """A power cut leaves the previous or the new file: data first, then the rename, then the directory."""
    steps = []
    fsync, replace = os.fsync, os.replace

    def record_fsync(descriptor):
        steps.append(("fsync", Path(os.readlink(f"/proc/self/fd/{descriptor}")).name))
        fsync(descriptor)

    def record_replace(source, target):
        steps.append(("replace", Path(source).name, Path(target).name))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "replace", record_replace)
    save_file({"w": np.ones(4, np.float32)}, tmp_path / "x.safetensors")
    temporary = steps[0][1]
    assert temporary != "x.safetensors"
    assert steps == [("fsync", temporary), ("replace", temporary, "x.safetensors"), ("fsync", tmp_path.name)]
