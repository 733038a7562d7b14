"""From arrays in memory to a durable checkpoint: the snapshot, its files, and what happens when the disk is full."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from blu.dataclass import dataclass, field
from blu.errors import CheckpointError, WeightsError
from blu.frontend.io.atomic import replacing, sync
from blu.frontend.io.checkpoints import directory as layout
from blu.frontend.io.checkpoints.fit import named_leaves
from blu.frontend.io.checkpoints.latest import warn
from blu.frontend.io.checkpoints.manifest import FORMAT, blu_version, write_manifest
from blu.frontend.io.huggingface import save_pretrained
from blu.frontend.io.json_files import MAX_JSON_BYTES
from blu.frontend.io.safetensors import save_file
from blu.frontend.io.weights import SINGLE

OPTIMIZER = "optimizer.safetensors"
STATE = "state.json"
CONFIG = "config.json"
SPARE_BYTES = 1 << 20  # for headers, JSON and directories
MAX_METADATA_BYTES = MAX_JSON_BYTES >> 4  # indented, it grows


@dataclass(frozen=True)
class Snapshot:
    """All that a checkpoint will hold: NumPy arrays by name, metadata as JSON text."""

    step: int
    model: dict[str, np.ndarray] = field(repr=False)
    optimizer: dict[str, np.ndarray] = field(repr=False)
    metadata: str = field(repr=False)

    @property
    def num_bytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for arrays in (self.model, self.optimizer) for array in arrays.values())


@dataclass(frozen=True)
class Form:
    """How checkpoints are written: with a Hugging Face `config` and tokenizer, or none, and how many are kept."""

    config: Mapping[str, Any] | None = None
    tokenizer_from: str | Path | None = None
    keep_last: int | None = None

    def __post_init__(self) -> None:
        if self.keep_last is not None and self.keep_last < 1:
            raise CheckpointError(f"{self.keep_last} checkpoints cannot be kept", advice="keep at least 1")


def view(
    step: int, model_state: Mapping[str, Any], optimizer_state: Any, metadata: Mapping[str, Any] | None
) -> Snapshot:
    """What is to be saved, without a copy: good as long as nobody changes the arrays."""
    layout.step_directory(Path(), step)
    model = {name: np.asarray(value) for name, value in model_state.items()}
    optimizer = {name: np.asarray(value) for name, value in named_leaves(optimizer_state).items()}
    return Snapshot(step, model, optimizer, metadata_text(metadata))


def copied(taken: Snapshot, buffers: Snapshot | None = None) -> Snapshot:
    """A snapshot that later changes of the arrays do not reach.

    The arrays of `buffers`, a copy that is not needed any more, are written to where they fit: fresh memory would take
    several times as long.
    """
    old = buffers or Snapshot(0, {}, {}, "")
    model = {name: copied_array(array, old.model.get(name)) for name, array in taken.model.items()}
    optimizer = {name: copied_array(array, old.optimizer.get(name)) for name, array in taken.optimizer.items()}
    return Snapshot(taken.step, model, optimizer, taken.metadata)


def write(directory: Path, taken: Snapshot, form: Form) -> Path:
    """Make a snapshot a durable checkpoint, then let `latest` name it, then remove old ones. Its path.

    Raises CheckpointError, with nothing of it left and everything else as it was, when it cannot be written.
    """
    final = layout.step_directory(directory, taken.step)
    try:
        make_directory(directory)
        with layout.locked(directory):
            check_space(directory, taken.num_bytes)
            with layout.publishing(directory, taken.step) as temporary:
                _fill(temporary, taken, form)
            layout.move_latest(directory, taken.step)
            remove_older(directory, taken.step, form.keep_last)
    except (OSError, WeightsError) as error:
        raise _not_saved(final, error) from error
    return final


def make_directory(directory: Path) -> None:
    """Create `directory`, durably, where there is none."""
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        sync(directory.parent)


def _fill(directory: Path, taken: Snapshot, form: Form) -> None:
    """Write and sync every file of a checkpoint, the manifest last."""
    if form.config is None:
        save_file(taken.model, directory / SINGLE)
    else:
        save_pretrained(directory, form.config, taken.model, tokenizer_from=form.tokenizer_from)
    save_file(taken.optimizer, directory / OPTIMIZER)
    write_state(directory, taken.step, taken.metadata)
    write_manifest(directory, taken.step)


def write_state(directory: Path, step: int, metadata: str) -> None:
    """Write what is neither a parameter nor of the optimizer; `metadata` is JSON text."""
    content = {"format": FORMAT, "blu": blu_version(), "step": step, "metadata": json.loads(metadata)}
    with replacing(directory / STATE) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n")


def copied_array(array: np.ndarray, buffer: np.ndarray | None) -> np.ndarray:
    """A copy, in the memory of `buffer` where that fits."""
    if buffer is None or buffer.shape != array.shape or buffer.dtype != array.dtype:
        return array.copy()
    np.copyto(buffer, array)
    return buffer


def metadata_text(metadata: Mapping[str, Any] | None) -> str:
    """The metadata as it is now: text cannot change while it waits to be written."""
    try:
        text = json.dumps(dict(metadata or {}), default=_plain)
        if len(text) > MAX_METADATA_BYTES:
            raise ValueError(f"{len(text)} bytes are more than the {MAX_METADATA_BYTES} that are read back")
        return text
    except (TypeError, ValueError, RecursionError) as error:
        advice = "use dicts with str keys, lists, numbers and str; large things belong to the optimizer's state"
        raise CheckpointError(f"the metadata cannot be saved as JSON: {error}", advice=advice) from error


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not a type of JSON")


def check_space(directory: Path, num_bytes: int) -> None:
    """Give up before the disk is full: others write there as well."""
    free = shutil.disk_usage(directory).free
    if free < num_bytes + SPARE_BYTES:
        wanted = f"{num_bytes / 1e6:.1f} MB to write and {SPARE_BYTES / 1e6:.1f} MB in reserve"
        raise OSError(f"No space left on device: {wanted}, {free / 1e6:.1f} MB free")


def remove_older(directory: Path, step: int, keep_last: int | None) -> None:
    """Remove the checkpoints before `step` of which there are more than are kept; where that fails, warn."""
    if keep_last is None:
        return
    try:
        layout.remove_older(directory, step, keep_last)
    except (OSError, CheckpointError) as error:
        warn(f"{directory}: old checkpoints cannot be removed: {error}")


def _not_saved(final: Path, error: OSError | WeightsError) -> CheckpointError:
    advice = "the checkpoints before it are as they were; free some space, or keep fewer of them"
    if isinstance(error, OSError):
        return CheckpointError(f"{final}: the checkpoint cannot be saved: {error}", advice=advice)
    is_disk = isinstance(error.__cause__, OSError)
    return CheckpointError(
        f"{final}: the checkpoint cannot be saved: {error.message}", advice=advice if is_disk else error.advice
    )
