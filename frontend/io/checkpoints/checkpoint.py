"""Checkpoints: weights, optimizer state and everything else that a run needs to go on exactly where it was.

    step-00000250/
        model.safetensors       the parameters, by their Hugging Face names where there is a config
        config.json             that config: transformers loads the directory unchanged
        optimizer.safetensors   the optimizer's arrays, by their path in its state
        state.json              step, versions, and the caller's metadata (RNG, position in the data, configuration)
        manifest.json           size and SHA-256 of each file; written last

Where ranks have parts of the arrays, they are in ranks.json and rank-*.safetensors (see `by_ranks`).

It is written under a temporary name, synced file by file, renamed, and only then named by `latest`. No pickle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from blu.dataclass import dataclass, field
from blu.errors import CheckpointError, WeightsError
from blu.frontend.io.checkpoints import directory as layout
from blu.frontend.io.checkpoints.fit import fit_model, fit_optimizer
from blu.frontend.io.checkpoints.latest import first_sound
from blu.frontend.io.checkpoints.manifest import MANIFEST, verify
from blu.frontend.io.checkpoints.write import CONFIG, OPTIMIZER, STATE, Form, view, write
from blu.frontend.io.huggingface import gpt2_state_dict
from blu.frontend.io.json_files import read_json
from blu.frontend.io.rank_files import INDEX, load_rank_files
from blu.frontend.io.safetensors import load_file
from blu.frontend.io.weights import SINGLE


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint. Its arrays are read-only views of the mapped files, or `StoredParts` of several ranks.

    `model` is by the names of the module's state dict (`h.0.attn.c_attn.weight`). `optimizer` has the form of the
    template given to `load`, else it is flat, by dotted path. `differences` are there only without `strict`.
    """

    path: Path
    step: int
    model: dict[str, Any] = field(repr=False)
    optimizer: Any = field(repr=False)
    metadata: dict[str, Any] = field(repr=False)
    differences: tuple[str, ...] = ()


def save(
    directory: str | Path,
    step: int,
    model_state: Mapping[str, Any],
    optimizer_state: Any = None,
    metadata: Mapping[str, Any] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    tokenizer_from: str | Path | None = None,
    keep_last: int | None = None,
) -> Path:
    """Save the checkpoint of `step` in `directory`; on return it is durable and `latest` names it. Its path.

    `optimizer_state` is any tree of arrays; `metadata` is JSON with str keys (NumPy's scalars become numbers).
    `config` is a GPT-2 configuration of Hugging Face; without one, parameters keep their names and there is no
    config.json. With `keep_last`, only as many of the checkpoints up to this one stay. Raises CheckpointError, and
    leaves the other checkpoints as they are, when the disk is full or something cannot be saved.
    """
    taken = view(step, model_state, optimizer_state, metadata)
    return write(Path(directory), taken, Form(config, tokenizer_from, keep_last))


def load(
    directory: str | Path,
    *,
    step: int | None = None,
    model: Mapping[str, Any] | None = None,
    optimizer: Any = None,
    strict: bool = True,
) -> Checkpoint:
    """Load the latest sound checkpoint in `directory`, that of `step`, or the one that `directory` itself is.

    When the latest is damaged, the one before is loaded and a CheckpointWarning says what was wrong. One that was asked
    for by step or path is never replaced by another. `model` (a state dict) and `optimizer` (a tree) are templates:
    arrays, or anything with a shape and a dtype. All differences from them in names, shapes and dtypes make one
    CheckpointError; without `strict` they are the result's `differences`, parameters that do not fit are left out, and
    leaves of the optimizer that do not fit are the template's. Raises NewerFormatError for a checkpoint of a later Blu.
    """
    directory = Path(directory)
    if step is not None:
        found = read(layout.step_directory(directory, step))
    elif layout.step_of(directory) is not None or (directory / MANIFEST).exists():
        found = read(directory)
    else:
        found = first_sound(directory, read)
    if found is None:
        raise CheckpointError(f"{directory}: no checkpoint here", advice="give a directory that a run has saved to")
    return _fit(found, model, optimizer, strict)


def read(path: Path) -> Checkpoint:
    """The checkpoint in the step directory `path`, verified. Raises CheckpointError with all that is wrong with it."""
    manifest = verify(path)
    by_ranks = INDEX in manifest.files
    if missing := {STATE, *((INDEX,) if by_ranks else (SINGLE, OPTIMIZER))} - set(manifest.files):
        raise CheckpointError(f"{path / MANIFEST}: not listed: {', '.join(sorted(missing))}")
    try:
        state = read_json(path / STATE)
        model, optimizer = _by_ranks(path) if by_ranks else _whole(path, CONFIG in manifest.files)
    except WeightsError as error:
        raise CheckpointError(error.message, advice=error.advice) from error
    if state.get("step") != manifest.step:
        raise CheckpointError(f"{path}: {STATE} is of step {state.get('step')!r}, {MANIFEST} of {manifest.step}")
    return Checkpoint(path, manifest.step, model, optimizer, _metadata_of(path, state))


def read_metadata(path: Path) -> dict[str, Any]:
    """The metadata of the checkpoint in the step directory `path`, of which nothing else is read."""
    try:
        return _metadata_of(path, read_json(path / STATE))
    except WeightsError as error:
        raise CheckpointError(error.message, advice=error.advice) from error


def _metadata_of(path: Path, state: Mapping[str, Any]) -> dict[str, Any]:
    metadata = state.get("metadata")
    if not isinstance(metadata, dict):
        raise CheckpointError(f"{path / STATE}: metadata is missing")
    return metadata


def _whole(path: Path, is_gpt2: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    return gpt2_state_dict(path) if is_gpt2 else load_file(path / SINGLE), load_file(path / OPTIMIZER)


def _by_ranks(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    return load_rank_files(path, "model."), load_rank_files(path, "optimizer.")


def _fit(found: Checkpoint, model: Mapping[str, Any] | None, optimizer: Any, strict: bool) -> Checkpoint:
    lines: list[str] = []
    if model is not None:
        fitting, lines = fit_model(model, found.model)
        found = replace(found, model=fitting)
    if optimizer is not None:
        restored, more = fit_optimizer(optimizer, found.optimizer)
        lines += more
        found = replace(found, optimizer=restored)
    if strict and lines:
        message = "\n    ".join((f"{found.path}: does not fit the program:", *lines))
        raise CheckpointError(message, advice="resume with the configuration that the checkpoint was saved with")
    return replace(found, differences=tuple(lines))
