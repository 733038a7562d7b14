"""Model directories in Hugging Face's layout: found, read, checked against their configuration, and written."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from blu.errors import WeightsError
from blu.frontend.io import hub
from blu.frontend.io.atomic import replacing
from blu.frontend.io.checkpoints.directory import LATEST, has_any
from blu.frontend.io.checkpoints.latest import latest
from blu.frontend.io.gpt2 import EMBEDDING, HEAD, PRESETS, Config, complete_config, expected_shapes
from blu.frontend.io.json_files import read_json
from blu.frontend.io.safetensors import save_file, write_error
from blu.frontend.io.state_dict import check_state_dict, is_float
from blu.frontend.io.tokenizer import TOKENIZER_FILES
from blu.frontend.io.weights import SINGLE, load_weights, refuse_pickle
from blu.frontend.tracing.host_arrays import as_host_array

ALIASES = {name: f"openai-community/{name}" for name in PRESETS}
# Models that come with Blu.
EMBEDDED_DIRECTORY = Path(__file__).parent / "embedded"
EMBEDDED = ("gpt2-demo",)
PREFIX = "transformer."
# Causal masks that old checkpoints carry along.
BUFFERS = (".attn.bias", ".attn.masked_bias")


def resolve(name_or_path: str | Path) -> Path:
    """The local directory of a model: a directory (of a training run, that of its latest checkpoint), else one that
    comes with Blu (gpt2-demo), else a hub id (or gpt2, gpt2-medium, -large, -xl).

    Raises WeightsError, within a few seconds, when there is no such directory, cache entry or network.
    """
    if not str(name_or_path):
        raise WeightsError("the name of the model is empty", advice=hub.ADVICE)
    # os.path answers False where pathlib raises: names too long, null bytes, directories one may not enter.
    path = Path(os.path.expanduser(name_or_path))
    if path.name == LATEST and os.path.isfile(path):
        path = path.parent
    if os.path.isdir(path):
        return _checkpoint_or_itself(_readable(path))
    if os.path.exists(path):
        refuse_pickle(path)
        raise WeightsError(f"{path}: not a directory", advice=f"give the directory that holds it: {path.parent}")
    if str(name_or_path) in EMBEDDED:
        return EMBEDDED_DIRECTORY / str(name_or_path)
    name = ALIASES.get(str(name_or_path), str(name_or_path))
    if not hub.is_repository_id(name):
        raise WeightsError(f"{name!r}: no such directory, and not a Hugging Face id", advice=hub.ADVICE)
    return hub.snapshot(name, str(name_or_path))


def load_config(directory: str | Path) -> Config:
    """The checked config.json of `directory`, with transformers' defaults for what it leaves out.

    Raises one WeightsError that lists every problem.
    """
    path = Path(directory) / "config.json"
    if not path.is_file():
        raise WeightsError(f"{directory}: no config.json here", advice="give a directory in Hugging Face's layout")
    return complete_config(read_json(path), str(path))


def gpt2_state_dict(directory: str | Path) -> dict[str, np.ndarray]:
    """GPT-2's parameters by their Hugging Face names without `transformer.`, as read-only views in the file's dtype.

    Linear weights keep their stored [inputs, outputs] orientation. `lm_head.weight` is there only when the
    configuration does not tie it. Raises one WeightsError that lists all differences from the configuration.
    """
    config = load_config(directory)
    state = _canonical(config, load_weights(Path(directory)), str(directory))
    check_state_dict(expected_shapes(config), state, source=str(directory))
    integers = [f"{name} ({array.dtype})" for name, array in state.items() if not is_float(array.dtype)]
    if integers:
        message = f"{directory}: not floating-point: {', '.join(integers)}"
        raise WeightsError(message, advice="quantised checkpoints are not supported")
    return state


def save_pretrained(
    directory: str | Path,
    config: Mapping[str, Any],
    state: Mapping[str, np.ndarray],
    *,
    tokenizer_from: str | Path | None = None,
) -> None:
    """Write config.json and model.safetensors so that transformers loads them unchanged.

    A vocabulary padded beyond `vocab_size` is stripped. Files are replaced only when both are complete. With
    `tokenizer_from`, that directory's tokenizer files are copied too.
    Raises WeightsError when `state` does not fit `config` or the disk is full.
    """
    directory = Path(directory)
    config = complete_config(config)
    arrays = _strip_vocabulary(config, {name: np.asarray(as_host_array(array)) for name, array in state.items()})
    arrays = _canonical(config, arrays, "state dict")
    check_state_dict(expected_shapes(config), arrays)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with replacing(directory / "config.json") as temporary:
            temporary.write_text(json.dumps(_config_to_save(config, arrays), indent=2, sort_keys=True) + "\n")
            named = {_full_name(name): array for name, array in arrays.items()}
            save_file(named, directory / SINGLE, {"format": "pt"})
        if tokenizer_from is not None:
            _copy_tokenizer(Path(tokenizer_from), directory)
    except OSError as error:
        raise write_error(directory, error) from error


def save_config(
    directory: Path, config: Mapping[str, Any], *, tokenizer_from: str | Path | None = None, dtype: str = "float32"
) -> None:
    """Write config.json, and copy that directory's tokenizer files, beside parameters that others write."""
    like = {EMBEDDING: np.empty(0, dtype)}
    with replacing(directory / "config.json") as temporary:
        temporary.write_text(
            json.dumps(_config_to_save(complete_config(config), like), indent=2, sort_keys=True) + "\n"
        )
    if tokenizer_from is not None:
        _copy_tokenizer(Path(tokenizer_from), directory)


def _readable(directory: Path) -> Path:
    if os.access(directory, os.R_OK | os.X_OK):
        return directory
    raise WeightsError(f"{directory}: permission denied", advice="you need the right to read and enter it")


def _checkpoint_or_itself(directory: Path) -> Path:
    """The latest checkpoint in the directory of a run; a directory that is a model, as it is."""
    if (directory / "config.json").exists() or not has_any(directory):
        return directory
    return latest(directory) or directory


def _canonical(config: Config, found: Mapping[str, np.ndarray], source: str) -> dict[str, np.ndarray]:
    """Without the prefix, without buffers, without a head that only repeats the embedding."""
    state: dict[str, np.ndarray] = {}
    for name, array in found.items():
        short = name.removeprefix(PREFIX)
        if short in state:
            raise WeightsError(f"{source}: {short!r} occurs with and without {PREFIX!r}")
        if not short.endswith(BUFFERS):
            state[short] = array
    if config["tie_word_embeddings"] and HEAD in state and EMBEDDING in state:
        _drop_tied_head(state, source)
    return state


def _drop_tied_head(state: dict[str, np.ndarray], source: str) -> None:
    head, embedding = state.pop(HEAD), state[EMBEDDING]
    if head.shape != embedding.shape or head.dtype != embedding.dtype or not _same_bytes(head, embedding):
        advice = 'set "tie_word_embeddings": false in config.json if the head is a matrix of its own'
        raise WeightsError(f"{source}: {HEAD} differs from {EMBEDDING}, which config.json ties it to", advice=advice)


def _same_bytes(left: np.ndarray, right: np.ndarray) -> bool:
    # As bytes a NaN equals itself, and bfloat16 compares as fast as anything.
    left, right = (np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (left, right))
    return np.array_equal(left, right)


def _strip_vocabulary(config: Config, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    size = config["vocab_size"]
    padded = {PREFIX + EMBEDDING, EMBEDDING, HEAD}
    return {name: array[:size] if name in padded else array for name, array in state.items()}


def _full_name(name: str) -> str:
    return name if name == HEAD else PREFIX + name


def _config_to_save(config: Config, state: Mapping[str, np.ndarray]) -> Config:
    # transformers once called it torch_dtype.
    kept = {key: value for key, value in config.items() if key != "torch_dtype"}
    return kept | {"architectures": ["GPT2LMHeadModel"], "dtype": state[EMBEDDING].dtype.name}


def _copy_tokenizer(source: Path, target: Path) -> None:
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            with replacing(target / name) as temporary:
                shutil.copyfile(source / name, temporary)
