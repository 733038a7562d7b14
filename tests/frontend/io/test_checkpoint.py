"""What is in a checkpoint and what comes back: transformers as a reader, damage, hostile manifests, differences."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from blu.errors import CheckpointError
from blu.frontend.io import random_state_dict
from blu.frontend.io.checkpoints.checkpoint import load, save
from blu.frontend.io.checkpoints.latest import CheckpointWarning, latest
from blu.frontend.io.checkpoints.manifest import MAX_MANIFEST_BYTES, NewerFormatError
from tests.support.training.checkpoint_steps import CONFIG, Moments, model_state, names, optimizer_state, save_steps

FILES = {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"}


def edit_json(path: Path, **changes) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def sign_again(step_directory: Path, **changes) -> None:
    """A manifest that fits whatever the files are now."""
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in step_directory.iterdir()
        if path.name != "manifest.json"
    }
    edit_json(step_directory / "manifest.json", **({"files": files} | changes))


def refusal(*arguments, **options) -> str:
    with pytest.raises(CheckpointError) as caught:
        load(*arguments, **options)
    return str(caught.value)


def test_round_trip(tmp_path):
    metadata = {"rng": {"key": 2**127, "name": "é"}, "loss": 0.1, "nested": [1, None, True], "count": np.int64(3)}
    path = save(tmp_path / "deep/run", 250, model_state(0.1), optimizer_state(0.2), metadata)
    assert path == tmp_path / "deep/run/step-00000250"
    assert {entry.name for entry in path.iterdir()} == FILES
    assert names(tmp_path / "deep/run") == ["latest", "step-00000250"]
    found = load(tmp_path / "deep/run", model=model_state(), optimizer=optimizer_state())
    assert (found.path, found.step, found.differences) == (path, 250, ())
    assert found.metadata == metadata
    for name, array in model_state(0.1).items():
        assert found.model[name].dtype == array.dtype and found.model[name].shape == array.shape
        np.testing.assert_array_equal(found.model[name], array)
    assert isinstance(found.optimizer, Moments)
    np.testing.assert_array_equal(found.optimizer.first["h.0.w"], np.full((2, 3), 0.2))
    assert found.optimizer.first["b"].dtype == np.int32 and found.optimizer.count == 7
    # Without a template, the optimizer's state is flat.
    assert set(load(path).optimizer) == {"first.h.0.w", "first.b", "count"}


def test_state_and_manifest_say_what_they_are(tmp_path):
    path = save(tmp_path, 3, model_state(), None, {"seed": 1})
    state = json.loads((path / "state.json").read_text())
    assert state.keys() == {"format", "blu", "step", "metadata"} and state["metadata"] == {"seed": 1}
    manifest = json.loads((path / "manifest.json").read_text())
    assert (manifest["format"], manifest["blu"], manifest["step"]) == (state["format"], state["blu"], 3)
    for name, entry in manifest["files"].items():
        content = (path / name).read_bytes()
        assert entry == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    assert manifest["files"].keys() == FILES - {"manifest.json"}
    assert (tmp_path / "latest").read_text() == "step-00000003\n"


def test_transformers_loads_it_unchanged(tmp_path):
    from transformers import GPT2LMHeadModel

    state = {name: array + 0.01 for name, array in random_state_dict(CONFIG, 1).items()}
    path = save(tmp_path, 5, state, None, {}, config=CONFIG)
    model, report = GPT2LMHeadModel.from_pretrained(path, output_loading_info=True)
    assert not any(report.values()), report
    loaded = {name.removeprefix("transformer."): value.detach().numpy() for name, value in model.named_parameters()}
    found = load(tmp_path, model=state).model
    assert set(loaded) == set(state) == set(found)
    for name, array in state.items():
        np.testing.assert_array_equal(loaded[name], array)
        np.testing.assert_array_equal(found[name], array)


def test_tokenizer_files_travel_along(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    path = save(tmp_path / "run", 5, random_state_dict(CONFIG, 1), config=CONFIG, tokenizer_from=tmp_path)
    assert (path / "tokenizer.json").is_file()
    (path / "tokenizer.json").write_text("[]")
    assert "tokenizer.json is not what was written" in refusal(path)


def damage_bit(path: Path) -> None:
    content = bytearray((path / "optimizer.safetensors").read_bytes())
    content[-1] ^= 1
    (path / "optimizer.safetensors").write_bytes(content)


def swap_file(path: Path) -> None:
    shutil.copy(path.parent / "step-00000001/model.safetensors", path)


def swap_everything(path: Path) -> None:
    shutil.rmtree(path)
    shutil.copytree(path.parent / "step-00000001", path)


def swap_state(path: Path) -> None:
    shutil.copy(path.parent / "step-00000001/state.json", path)
    sign_again(path)


def unlist(path: Path) -> None:
    (path / "optimizer.safetensors").unlink()
    sign_again(path)


def link_away(path: Path) -> None:
    (path / "state.json").rename(path.parent / "elsewhere.json")
    (path / "state.json").symlink_to(path.parent / "elsewhere.json")


def pipe(path: Path) -> None:
    (path / "state.json").unlink()
    os.mkfifo(path / "state.json")


def garble_weights(path: Path) -> None:
    (path / "model.safetensors").write_bytes(b"\xff" * 100)
    sign_again(path)


DAMAGES = [
    (shutil.rmtree, "manifest.json is missing"),
    (lambda path: (path / "manifest.json").unlink(), "manifest.json is missing"),
    (lambda path: os.truncate(path / "manifest.json", 40), "not JSON"),
    (lambda path: (path / "model.safetensors").unlink(), "model.safetensors is missing"),
    (lambda path: os.truncate(path / "model.safetensors", 9), "model.safetensors has 9 bytes instead of"),
    (damage_bit, "optimizer.safetensors is not what was written: its SHA-256 differs"),
    (swap_file, "model.safetensors is not what was written"),
    (swap_everything, "manifest.json is of step 1"),
    (swap_state, "state.json is of step 1"),
    (unlist, "not listed: optimizer.safetensors"),
    (link_away, "state.json is not a regular file"),
    (pipe, "state.json is not a regular file"),
    (garble_weights, "a header of"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES)
def test_a_damaged_latest_falls_back_to_the_one_before(tmp_path, damage, words):
    save_steps(tmp_path, 1, 2)
    damage(tmp_path / "step-00000002")
    with pytest.warns(CheckpointWarning) as warned:
        assert load(tmp_path).model["h.0.w"][0, 0] == 1
    assert words in str(warned[0].message) and "step-00000001 is used" in str(warned[0].message)
    # What was asked for by name is not replaced.
    assert words in refusal(tmp_path, step=2)
    assert words in refusal(tmp_path / "step-00000002")
    shutil.rmtree(tmp_path / "step-00000001")
    assert "no sound checkpoint" in refusal(tmp_path) and words in refusal(tmp_path)


def test_all_damage_is_listed_at_once(tmp_path):
    save_steps(tmp_path, 1)
    (tmp_path / "step-00000001/model.safetensors").unlink()
    damage_bit(tmp_path / "step-00000001")
    message = refusal(tmp_path, step=1)
    assert "model.safetensors is missing" in message and "optimizer.safetensors is not" in message


@pytest.mark.parametrize("content", [b"", b"../../elsewhere", b"step-1", b"\xff" * 1000, b"step-00000007\n"])
def test_a_damaged_pointer_falls_back_to_the_last_step(tmp_path, content):
    save_steps(tmp_path, 1, 2)
    (tmp_path / "latest").write_bytes(content)
    with pytest.warns(CheckpointWarning, match="is used instead"):
        assert latest(tmp_path) == tmp_path / "step-00000002"


def test_the_pointer_decides(tmp_path):
    """A checkpoint that was renamed but not yet pointed to may be followed by another one of its step."""
    save_steps(tmp_path, 1, 2)
    (tmp_path / "latest").write_text("step-00000001\n")
    assert latest(tmp_path) == tmp_path / "step-00000001"
    (tmp_path / "latest").unlink()
    assert latest(tmp_path) == tmp_path / "step-00000002"


def test_nothing_there(tmp_path):
    assert latest(tmp_path) is None and latest(tmp_path / "nothing") is None
    assert "no checkpoint here" in refusal(tmp_path)
    assert "missing" in refusal(tmp_path, step=3)
    (tmp_path / "file").touch()
    assert "Not a directory" in refusal(tmp_path / "file")


def test_a_newer_format_is_refused_and_not_passed_over(tmp_path):
    save_steps(tmp_path, 1, 2)
    edit_json(tmp_path / "step-00000002/manifest.json", format=99, blu="7.5.0", unknown="field", files="elsewhere")
    with pytest.raises(NewerFormatError) as caught:
        load(tmp_path)
    assert "written by Blu 7.5.0 in format 99; this is Blu " in str(caught.value)
    assert "formats up to 1" in str(caught.value) and "update" in caught.value.advice
    with pytest.raises(NewerFormatError):
        latest(tmp_path)


ENTRY = {"bytes": 10, "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"files": {"../state.json": ENTRY}}, "'../state.json' is no name"),
        ({"files": {"/etc/passwd": ENTRY}}, "is no name"),
        ({"files": {"a/b": ENTRY}}, "is no name"),
        ({"files": {"a\\b": ENTRY}}, "is no name"),
        ({"files": {"..": ENTRY}}, "is no name"),
        ({"files": {"": ENTRY}}, "is no name"),
        ({"files": {"a\0": ENTRY}}, "is no name"),
        ({"files": {"state.json\n": ENTRY}}, "is no name"),
        ({"files": {"manifest.json": ENTRY}}, "is no name"),
        ({"files": {f"f{number}": ENTRY for number in range(2000)}}, "at most 1024 files"),
        ({"files": [["state.json", ENTRY]]}, "files were expected"),
        ({"files": {"state.json": ENTRY | {"bytes": 2**70}}}, "bytes and sha256"),
        ({"files": {"state.json": ENTRY | {"bytes": -1}}}, "bytes and sha256"),
        ({"files": {"state.json": ENTRY | {"bytes": True}}}, "bytes and sha256"),
        ({"files": {"state.json": ENTRY | {"sha256": "0" * 63}}}, "bytes and sha256"),
        ({"files": {"state.json": {"bytes": 10}}}, "bytes and sha256"),
        ({"files": {"state.json": ENTRY | {"bytes": 2**61}}}, f"instead of {2**61}"),
        ({"step": "1"}, "a step"),
        ({"step": -1}, "a step"),
        ({"format": "1"}, "the format is '1'"),
        ({"format": 0}, "the format is 0"),
        ({"format": True}, "the format is True"),
    ],
)
def test_hostile_manifests_are_refused(tmp_path, changes, words):
    save_steps(tmp_path, 1)
    edit_json(tmp_path / "step-00000001/manifest.json", **changes)
    assert words in refusal(tmp_path, step=1)


def test_hostile_manifest_files(tmp_path):
    save_steps(tmp_path, 1)
    path = tmp_path / "step-00000001/manifest.json"
    path.write_bytes(b" " * (MAX_MANIFEST_BYTES + 1))
    assert f"larger than {MAX_MANIFEST_BYTES} bytes" in refusal(tmp_path, step=1)
    path.write_bytes(b"[" * 100_000)
    assert "nested too deeply" in refusal(tmp_path, step=1)
    path.write_bytes(b'{"format": 1, "format": 1}')
    assert "more than once" in refusal(tmp_path, step=1)
    path.unlink()
    os.mkfifo(path)
    assert "not a regular file" in refusal(tmp_path, step=1)


def test_all_differences_are_listed_at_once(tmp_path):
    save_steps(tmp_path, 1)
    model = {"h.0.w": np.zeros((3, 2), np.float32), "b": np.zeros((), np.float32), "c": np.zeros(1)}
    optimizer = Moments({"h.0.w": np.zeros((2, 3), np.float32)}, 0)
    message = refusal(tmp_path, model=model, optimizer=optimizer)
    for line in (
        "model: missing: c",
        "model: shape of h.0.w: (2, 3), expected (3, 2)",
        "model: dtype of b: bfloat16, expected float32",
        "optimizer: unexpected: first.b",
        "optimizer: dtype of first.h.0.w: float64, expected float32",
    ):
        assert line in message
    found = load(tmp_path, model=model, optimizer=optimizer, strict=False)
    assert len(found.differences) == 5 and all(line in message for line in found.differences)
    assert found.model == {}
    assert found.optimizer.first["h.0.w"] is optimizer.first["h.0.w"] and found.optimizer.count == 7


def test_metadata_that_json_does_not_have(tmp_path):
    for metadata in ({"a": np.zeros(3)}, {"a": {1, 2}}, {(1, 2): 3}, {"a": object()}, {"a": "x" * 5_000_000}):
        with pytest.raises(CheckpointError, match="metadata cannot be saved"):
            save(tmp_path, 1, model_state(), None, metadata)
    assert names(tmp_path) == []


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(CheckpointError, match="complex128 cannot be saved"):
        save(tmp_path, 1, {"z": np.zeros(1, complex)})
    with pytest.raises(CheckpointError, match=r"missing: wte\.weight"):
        save(tmp_path, 1, {}, config=CONFIG)
    with pytest.raises(CheckpointError, match=r"step -1 is not in"):
        save(tmp_path, -1, model_state())
    with pytest.raises(CheckpointError, match=r"the path 'a\.b'"):
        save(tmp_path, 1, {}, {"a.b": 1, "a": {"b": 2}})
    assert names(tmp_path) == []
