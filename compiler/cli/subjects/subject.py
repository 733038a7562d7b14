"""What `blu-compile MODEL` names: a GPT-2, a function in a file, or a file of IR."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from blu.compiler.cli.messages import UsageError
from blu.dataclass import dataclass
from blu.errors import WeightsError, suggestion
from blu.frontend.io.gpt2 import PRESETS, expected_shapes, random_state_dict
from blu.frontend.io.huggingface import EMBEDDED, gpt2_state_dict, load_config, resolve
from blu.frontend.io.state_dict import cast, check_state_dict
from blu.frontend.io.tokenizer import BYTES_VOCABULARY, ByteTokenizer, Tokenizer, has_tokenizer, load_tokenizer

RANDOM = "random:"


@dataclass(frozen=True)
class Gpt2Subject:
    """A GPT-2: its configuration, and the directory that it came from (None for a name that needs no directory yet)."""

    name: str
    config: Mapping[str, Any]
    directory: Path | None


@dataclass(frozen=True)
class FunctionSubject:
    """A function in a Python file."""

    path: Path
    function: str


@dataclass(frozen=True)
class IrSubject:
    """A file of IR ("-" for stdin)."""

    name: str


Subject = Gpt2Subject | FunctionSubject | IrSubject


def find_subject(model: str) -> Subject:
    """Read MODEL. UsageError for what has no such form, WeightsError for a model that is not there."""
    path, separator, function = model.partition("::")
    if separator:
        return _function(path, function)
    if model == "-" or Path(model).suffix in (".mlir", ".mlirbc"):
        return IrSubject(model)
    if Path(model).suffix == ".py":
        raise UsageError(f"{model}: which function?", advice=f"say {model}::FUNCTION")
    if model in PRESETS and not Path(model).is_dir():
        return Gpt2Subject(model, PRESETS[model], None)
    directory = _resolve(model)
    # Of a run it is the latest checkpoint: its name says which one that is.
    name = str(directory) if Path(model).exists() else model
    return Gpt2Subject(name, load_config(directory), directory)


def _function(path: str, function: str) -> FunctionSubject:
    if not path.endswith(".py") or not function.isidentifier():
        raise UsageError(f"{path}::{function} is not of the form FILE.py::FUNCTION")
    if not Path(path).is_file():
        raise UsageError(f"there is no file {path}")
    return FunctionSubject(Path(path), function)


def _resolve(model: str) -> Path:
    """The directory of a model; what looks like a slip of the pen is said."""
    guess = suggestion(model, [*PRESETS, *EMBEDDED])
    try:
        return resolve(model)
    except WeightsError as error:
        raise WeightsError(error.message, location=error.location, advice=f"{guess} {error.advice}".strip()) from error


def load_weights(subject: Gpt2Subject, source: str | None) -> dict[str, np.ndarray]:
    """The parameters in float32: from MODEL, or from what --weights says. WeightsError says what does not fit."""
    if source is not None and source.startswith(RANDOM):
        return random_state_dict(subject.config, _seed(source))
    directory = resolve(source) if source is not None else subject.directory or resolve(subject.name)
    state = gpt2_state_dict(directory)
    check_state_dict(expected_shapes(subject.config), state, source=str(directory))
    return cast(state, "f32")


def _seed(source: str) -> int:
    text = source.removeprefix(RANDOM)
    if not text.isdecimal():
        raise UsageError(f"--weights {source}: {text!r} is no seed", advice="for example --weights random:0")
    return int(text)


def find_tokenizer(subject: Gpt2Subject, weights: str | None, tokenizer: str | None) -> Tokenizer | None:
    """The tokenizer that --tokenizer names, else that of MODEL or --weights; None where they have none.

    Random weights mean nothing in any vocabulary: without a tokenizer, their text is bytes.
    """
    is_random = weights is not None and weights.startswith(RANDOM)
    if tokenizer == "bytes":
        return _bytes(subject)
    if tokenizer is not None:
        return load_tokenizer(resolve(tokenizer))
    places = [subject.directory, None if weights is None or is_random else resolve(weights)]
    if places == [None, None] and weights is None:
        places = [resolve(subject.name)]
    found = [place for place in places if place is not None and has_tokenizer(place)]
    if not found and (is_random or subject.config["vocab_size"] <= BYTES_VOCABULARY):
        return _bytes(subject)
    return load_tokenizer(found[0]) if found else None


def _bytes(subject: Gpt2Subject) -> ByteTokenizer:
    return ByteTokenizer(min(BYTES_VOCABULARY, subject.config["vocab_size"]))
