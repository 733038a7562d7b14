"""Where a model directory keeps its weights: one safetensors file, or shards with an index, or parts that ranks
have saved; never a pickle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from blu.errors import WeightsError
from blu.frontend.io.json_files import read_json
from blu.frontend.io.rank_files import INDEX as RANKS
from blu.frontend.io.rank_files import load_rank_files
from blu.frontend.io.safetensors import load_file

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
PICKLE_ADVICE = (
    "convert it once, on a machine where you trust it: "
    "transformers.AutoModelForCausalLM.from_pretrained(DIR).save_pretrained(OUT, safe_serialization=True)"
)


def load_weights(location: Path) -> dict[str, np.ndarray]:
    """All tensors of a model directory, or of one .safetensors file, as read-only views of the mapped files.

    Raises WeightsError when there are none, when only a pickle is there, or when shards and index disagree.
    """
    if location.is_file():
        refuse_pickle(location)
        return load_file(location)
    if (location / SINGLE).is_file():
        return load_file(location / SINGLE)
    if (location / RANKS).is_file():
        return {name: np.asarray(parts) for name, parts in load_rank_files(location, "model.").items()}
    if (location / INDEX).is_file():
        return _load_shards(location)
    raise _nothing_found(location)


def has_weights(directory: Path) -> bool:
    """Whether `directory` holds a single safetensors file, or an index and every shard it names."""
    if (directory / SINGLE).is_file() or (directory / RANKS).is_file():
        return True
    if not (directory / INDEX).is_file():
        return False
    return all((directory / shard).is_file() for shard in set(_read_index(directory / INDEX).values()))


def refuse_pickle(path: Path) -> None:
    """Raise WeightsError when `path` is a pickle by its name."""
    if path.suffix in PICKLE_SUFFIXES:
        raise WeightsError(f"{path}: a pickle, which runs code when it is loaded; refused", advice=PICKLE_ADVICE)


def _nothing_found(directory: Path) -> WeightsError:
    if not directory.is_dir():
        return WeightsError(f"{directory}: no such directory")
    pickles = sorted(path.name for path in directory.iterdir() if path.suffix in PICKLE_SUFFIXES)
    if pickles:
        message = f"{directory}: only {', '.join(pickles)} here: pickles, which run code when they are loaded; refused"
        return WeightsError(message, advice=PICKLE_ADVICE)
    advice = "give a directory with safetensors weights, or use random ones: --weights random:SEED"
    return WeightsError(f"{directory}: neither {SINGLE} nor {INDEX} is here", advice=advice)


def _read_index(path: Path) -> dict[str, str]:
    """The shard's file name for every tensor."""
    shard_of = read_json(path).get("weight_map")
    if not isinstance(shard_of, dict) or not shard_of:
        raise WeightsError(f"{path}: weight_map is missing or empty")
    for name, shard in shard_of.items():
        if not _is_shard_name(shard):
            raise WeightsError(f"{path}: tensor {name!r}: {shard!r} is no name of a .safetensors file beside the index")
    return shard_of


def _is_shard_name(shard: Any) -> bool:
    return isinstance(shard, str) and shard.endswith(".safetensors") and not set(shard) & set("/\\:\0")


def _load_shards(directory: Path) -> dict[str, np.ndarray]:
    index = directory / INDEX
    shard_of = _read_index(index)
    missing = [shard for shard in sorted(set(shard_of.values())) if not (directory / shard).is_file()]
    if missing:
        raise WeightsError(f"{index}: shards missing: {', '.join(map(repr, missing))}", advice="download them again")
    shards = {shard: load_file(directory / shard) for shard in sorted(set(shard_of.values()))}
    problems = list(_disagreements(shard_of, shards))
    if problems:
        advice = "the shards do not belong together; download them again"
        raise WeightsError(f"{index}: index and shards disagree:\n    " + "\n    ".join(problems), advice=advice)
    return {name: shards[shard][name] for name, shard in shard_of.items()}


def _disagreements(shard_of: dict[str, str], shards: dict[str, dict[str, np.ndarray]]) -> Iterator[str]:
    for name, shard in shard_of.items():
        if name not in shards[shard]:
            yield f"tensor {name!r} is not in {shard!r}"
    for shard, tensors in shards.items():
        for name in tensors:
            if shard_of.get(name) != shard:
                yield f"tensor {name!r} in {shard!r} is not in the index there"
