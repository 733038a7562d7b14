"""How checkpoints are saved: in order, by killed processes, on full disks, in the background, by several at once."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from blu.errors import CheckpointError
from blu.frontend.io import Checkpoints
from blu.frontend.io.checkpoints import write as checkpoint_write
from blu.frontend.io.checkpoints.checkpoint import load, save
from blu.frontend.io.checkpoints.directory import locked
from blu.frontend.io.checkpoints.latest import CheckpointWarning
from tests.support.folders import TESTS
from tests.support.training.checkpoint_steps import model_state, names, optimizer_state, save_steps


def test_everything_is_durable_before_it_gets_its_name(tmp_path, monkeypatch):
    """Files, then the manifest, then the directory, its name, that name's directory; then `latest`; then removals."""
    save_steps(tmp_path, 1)
    steps: list[tuple[str, ...]] = []

    def recorded(name, describe):
        call = getattr(os, name)

        def record(*arguments, **options):
            steps.append((name, *describe(*arguments)))
            return call(*arguments, **options)

        monkeypatch.setattr(os, name, record)

    recorded("fsync", lambda descriptor: [Path(os.readlink(f"/proc/self/fd/{descriptor}")).name])
    recorded("replace", lambda source, target: [Path(source).name, Path(target).name])
    recorded("rename", lambda source, target: [Path(source).name, Path(target).name])
    recorded("rmdir", lambda path: [Path(path).name])
    save_steps(tmp_path, 2, keep_last=1)

    def durable_file(name: str, directory: str) -> list[tuple[str, ...]]:
        replaced = next(step for step in steps if step[0] == "replace" and step[2] == name)
        return [("fsync", replaced[1]), replaced, ("fsync", directory)]

    renames = [step for step in steps if step[0] == "rename"]
    temporary, doomed = renames[0][1], renames[1][2]
    assert temporary.startswith(".step-00000002.") and doomed.startswith(".step-00000001.")
    assert steps == [
        *durable_file("model.safetensors", temporary),
        *durable_file("optimizer.safetensors", temporary),
        *durable_file("state.json", temporary),
        *durable_file("manifest.json", temporary),
        ("fsync", temporary),
        ("rename", temporary, "step-00000002"),
        ("fsync", tmp_path.name),
        *durable_file("latest", tmp_path.name),
        ("rename", "step-00000001", doomed),
        ("rmdir", doomed),
    ]


def run_crashes(mode: str, directory: Path) -> dict:
    script = TESTS / "support" / "training" / "checkpoint_crashes.py"
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(script), mode, str(directory)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    return json.loads(ran.stdout)


def test_a_process_killed_at_random_resumes_exactly(tmp_path):
    found = run_crashes("random", tmp_path)
    assert len(found["steps"]) == 16 and found["same"]


def test_a_process_killed_at_every_step_of_saving_leaves_the_old_or_the_new(tmp_path):
    found = run_crashes("everywhere", tmp_path)
    for writers in found.values():
        assert len(writers) > 20
        # The old one up to some call, the new one from there on.
        assert writers == sorted(writers) and set(writers) == {"before", "child"}


def test_keep_last(tmp_path):
    save_steps(tmp_path, *range(1, 6), keep_last=3)
    assert names(tmp_path) == ["latest", "step-00000003", "step-00000004", "step-00000005"]
    # A run that went back leaves the steps it has abandoned until it gets there.
    save_steps(tmp_path, 2, keep_last=1)
    assert names(tmp_path) == ["latest", *(f"step-0000000{step}" for step in (2, 3, 4, 5))]
    assert load(tmp_path).step == 2
    save_steps(tmp_path, 4, keep_last=1)
    assert names(tmp_path) == ["latest", "step-00000004", "step-00000005"]
    with pytest.raises(CheckpointError, match="0 checkpoints cannot be kept"):
        Checkpoints(tmp_path, keep_last=0)


def test_damaged_checkpoints_do_not_count_as_kept(tmp_path):
    save_steps(tmp_path, 1, 2)
    os.truncate(tmp_path / "step-00000002/model.safetensors", 10)
    save_steps(tmp_path, 3, keep_last=2)
    assert {"step-00000001", "step-00000003"} <= set(names(tmp_path))


def test_saving_a_step_again_replaces_it(tmp_path):
    save_steps(tmp_path, 1)
    old = load(tmp_path).model["h.0.w"]
    save(tmp_path, 1, model_state(9))
    assert names(tmp_path) == ["latest", "step-00000001"]
    assert load(tmp_path).model["h.0.w"][0, 0] == 9
    assert old[0, 0] == 1  # views of what is gone stay readable


LIMITED = """
import resource, sys
import numpy as np
from blu.errors import CheckpointError
from blu.frontend.io.checkpoints import checkpoint
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    checkpoint.save(sys.argv[1], 2, {"h.0.w": np.zeros(10)}, {"m": np.zeros(100_000)}, keep_last=1)
except CheckpointError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs a file size limit")
def test_a_full_disk_leaves_the_old_one(tmp_path):
    save_steps(tmp_path, 1)
    ran = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert "step-00000002: the checkpoint cannot be saved" in ran.stdout and "free some space" in ran.stdout, ran.stderr
    assert names(tmp_path) == ["latest", "step-00000001"]
    assert load(tmp_path).step == 1


def test_too_little_space_is_noticed_before_anything_is_written(tmp_path, monkeypatch):
    save_steps(tmp_path, 1)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000_000))
    monkeypatch.setattr(checkpoint_write, "_fill", lambda *arguments: pytest.fail("something was written"))
    message = r"No space left on device: 0\.0 MB to write and 1\.0 MB in reserve, 1\.0 MB free"
    with pytest.raises(CheckpointError, match=message):
        save_steps(tmp_path, 2)
    assert names(tmp_path) == ["latest", "step-00000001"]


@pytest.fixture
def gate(monkeypatch):
    """Saves wait until the gate is open; `entered` is set when one has arrived."""

    class Gate:
        entered, opened = threading.Event(), threading.Event()

    fill = checkpoint_write._fill

    def wait(*arguments):
        Gate.entered.set()
        assert Gate.opened.wait(30)
        fill(*arguments)

    monkeypatch.setattr(checkpoint_write, "_fill", wait)
    yield Gate
    Gate.opened.set()


def test_arrays_may_change_while_they_are_saved(tmp_path, gate):
    with Checkpoints(tmp_path) as checkpoints:
        model, optimizer, metadata = model_state(1), optimizer_state(1), {"a": [1]}
        checkpoints.save_async(1, model, optimizer, metadata)
        assert gate.entered.wait(30)
        model["h.0.w"][:] = 99
        optimizer.first["h.0.w"][:] = 99
        metadata["a"].append(2)
        assert not (tmp_path / "latest").exists()
        gate.opened.set()
        found = checkpoints.load(optimizer=optimizer)
        assert (found.model["h.0.w"] == 1).all() and (found.optimizer.first["h.0.w"] == 1).all()
        assert found.metadata == {"a": [1]}


def test_the_next_save_waits_for_the_one_before(tmp_path, gate):
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.resume() is None
        checkpoints.save_async(1, model_state(1))
        assert gate.entered.wait(30)
        threading.Timer(0.2, gate.opened.set).start()
        checkpoints.save_async(2, model_state(2))
        assert (tmp_path / "step-00000001/manifest.json").exists()
        assert checkpoints.resume().step == 2


def test_memory_is_used_again_for_arrays_that_fit(tmp_path):
    with Checkpoints(tmp_path, keep_last=None) as checkpoints:
        for step in (1, 2):
            checkpoints.save_async(step, model_state(step), {"grows": np.full(step, step)})
            checkpoints.wait()
        assert checkpoints._copy is not None
        buffer = checkpoints._copy.model["h.0.w"]
        checkpoints.save_async(3, model_state(3), {"grows": np.full(3, 3)})
        assert checkpoints._copy.model["h.0.w"] is buffer
    assert checkpoints._copy is None
    for step in (1, 2, 3):
        found = load(tmp_path, step=step)
        assert found.model["h.0.w"][0, 0] == step and found.optimizer["grows"].tolist() == [step] * step


@pytest.fixture
def failing(monkeypatch):
    """Saving fails half-way as long as `failing` holds something."""
    reasons = [28]
    fill = checkpoint_write._fill

    def fail(directory, *arguments):
        if reasons:
            (directory / "model.safetensors").write_bytes(b"half")
            raise OSError(reasons[0], "No space left on device")
        fill(directory, *arguments)

    monkeypatch.setattr(checkpoint_write, "_fill", fail)
    return reasons


def test_a_failure_in_the_background_is_reported_at_the_next_call(tmp_path, failing):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save_async(1, model_state(1))
    with pytest.raises(CheckpointError, match=r"step-00000001(.|\n)*No space left"):
        checkpoints.wait()
    checkpoints.wait()
    assert names(tmp_path) == []
    checkpoints.save_async(2, model_state(2))
    checkpoints._join()
    failing.clear()
    # The save that reports the failure is not lost itself.
    with pytest.raises(CheckpointError, match="step-00000002"):
        checkpoints.save_async(3, model_state(3))
    checkpoints.close()
    assert load(tmp_path).step == 3


def test_a_failure_before_a_save_in_the_foreground_is_a_warning(tmp_path, failing):
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save_async(1, model_state(1))
        checkpoints._join()
        failing.clear()
        with pytest.warns(CheckpointWarning, match="step-00000001"):
            checkpoints.save(2, model_state(2))
    assert load(tmp_path).step == 2


def test_the_error_of_the_body_comes_first(tmp_path, failing):
    with (
        pytest.warns(CheckpointWarning, match="No space left"),
        pytest.raises(ZeroDivisionError),
        Checkpoints(tmp_path) as checkpoints,
    ):
        checkpoints.save_async(1, model_state(1))
        1 / 0  # noqa: B018
    with pytest.raises(CheckpointError, match="No space left"), Checkpoints(tmp_path) as checkpoints:
        checkpoints.save_async(1, model_state(1))


AT_EXIT = """
import sys, time
import numpy as np
from blu.frontend.io import Checkpoints
from blu.frontend.io.checkpoints import write as checkpoint_write
fill = checkpoint_write._fill
def slow(*arguments):
    time.sleep(0.3)
    if "fail" in sys.argv:
        raise OSError(28, "No space left on device")
    fill(*arguments)
checkpoint_write._fill = slow
Checkpoints(sys.argv[1]).save_async(1, {"w": np.ones(3)})
"""


def test_the_interpreter_waits_for_the_last_save(tmp_path):
    command = [sys.executable, "-c", AT_EXIT, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert load(tmp_path).step == 1
    ran = subprocess.run([*command, "fail"], capture_output=True, text=True, timeout=60)
    assert "CheckpointWarning" in ran.stderr and "No space left" in ran.stderr


def test_leftovers_are_swept(tmp_path):
    save_steps(tmp_path, 1, 2)
    half = tmp_path / ".step-00000003.0123456789ab.tmp"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    (tmp_path / ".latest.0123456789ab.tmp").write_text("step-0")
    (tmp_path / "step-00000001").rename(tmp_path / ".step-00000001.0123456789ab.old")
    shutil.copytree(tmp_path / "step-00000002", tmp_path / ".step-00000002.0123456789ab.old")
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".mine.tmp").touch()
    Checkpoints(tmp_path).close()
    assert names(tmp_path) == [".mine.tmp", "latest", "notes.txt", "step-00000001", "step-00000002"]


def test_what_another_process_is_writing_is_not_swept(tmp_path):
    half = tmp_path / ".step-00000003.0123456789ab.tmp"
    half.mkdir()
    with locked(tmp_path):
        Checkpoints(tmp_path).close()
        assert half.exists()
    Checkpoints(tmp_path).close()
    assert not half.exists()


def test_two_savers_take_turns(tmp_path):
    with locked(tmp_path):
        saver = threading.Thread(target=save_steps, args=(tmp_path, 1))
        saver.start()
        saver.join(0.3)
        assert names(tmp_path) == []
        with pytest.raises(CheckpointError, match="another process has been saving"), locked(tmp_path, 0.1):
            pass
    saver.join()
    assert load(tmp_path).step == 1


def test_resuming_from_a_damaged_latest_warns_once(tmp_path):
    save_steps(tmp_path, 1, 2)
    (tmp_path / "step-00000002/state.json").unlink()
    with Checkpoints(tmp_path) as checkpoints, pytest.warns(CheckpointWarning) as warned:
        assert checkpoints.resume().step == 1
    assert len(warned) == 1
    shutil.rmtree(tmp_path / "step-00000001")
    with Checkpoints(tmp_path) as checkpoints, pytest.raises(CheckpointError, match=r"state\.json is missing"):
        checkpoints.resume()


def test_a_directory_one_may_not_write_to(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot hold checkpoints"):
        Checkpoints(tmp_path / "file/run")


def test_no_warning_and_no_pickle(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save_steps(tmp_path, 1, 2, keep_last=1)
        load(tmp_path)
    for path in (tmp_path / "step-00000002").iterdir():
        assert path.suffix in (".json", ".safetensors")
