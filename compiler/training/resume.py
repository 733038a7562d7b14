"""What a checkpoint of a training run holds, and how a run takes over from one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blu.compiler.requests import CONFIG_KEYS
from blu.compiler.training.engine import MODEL, SCALE, STATE, Engine
from blu.compiler.training.recipe import Recipe
from blu.errors import CheckpointError, DataError
from blu.frontend.io.checkpoints.checkpoint import Checkpoint
from blu.frontend.io.checkpoints.fit import differences
from blu.frontend.io.data.token_batches import Batches
from blu.frontend.io.rank_files import RankParts

ADVICE = "resume with the model and data that the checkpoint was saved with, or begin anew with another --out"

Content = tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, Any]]


def saved_content(engine: Engine, config: Mapping[str, Any], recipe: Recipe, batches: Batches) -> Content:
    """Parameters, the optimizer's arrays (m.*, v.*, step and scale.*), and metadata: all that the next step depends on.

    There is no state of a random generator: order of the data and samples follow from the seed and the step.
    """
    metadata = {
        "config": {key: config[key] for key in CONFIG_KEYS},
        "recipe": recipe.to_dict(),
        "data": batches.state(),
        "random": {"seed": recipe.seed},
    }
    return _in_host_memory(engine.parameters), _in_host_memory(_optimizer(engine)), metadata


def saved_parts(
    engine: Engine, config: Mapping[str, Any], recipe: Recipe, batches: Batches
) -> tuple[RankParts, dict[str, Any]]:
    """The same of what one of several ranks has."""
    model, optimizer, metadata = saved_content(engine, config, recipe, batches)
    arrays = {f"model.{name}": array for name, array in model.items()}
    arrays |= {f"optimizer.{name}": array for name, array in optimizer.items()}
    layout = engine.layout
    kept = {MODEL: "model.", STATE: "optimizer."}
    shardings = {
        there + name.removeprefix(here): text
        for name, text in layout.shardings.items()
        for here, there in kept.items()
        if name.startswith(here)
    }
    return RankParts(layout.mesh, layout.rank, arrays, shardings), metadata


def _in_host_memory(arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(array) for name, array in arrays.items()}


def _optimizer(engine: Engine) -> dict[str, np.ndarray]:
    return engine.part(STATE) | {SCALE + name: array for name, array in engine.part(SCALE).items()}


def _expected_model(engine: Engine) -> dict[str, np.ndarray]:
    """Arrays of the whole parameters' form, without memory."""
    return {name: np.broadcast_to(np.float32(0), shape) for name, shape in engine.whole_shapes.items()}


def _expected_optimizer(engine: Engine, recipe: Recipe) -> dict[str, np.ndarray]:
    """The form of the optimizer's arrays, known before any program is compiled: only shapes and dtypes count."""
    expected: dict[str, np.ndarray] = {"step": np.zeros((), np.int32)}
    for name, array in _expected_model(engine).items():
        expected |= {f"m.{name}": array, f"v.{name}": array}
    if recipe.dtype == "f16":
        expected |= {f"{SCALE}scale": np.zeros((), np.float32)}
        expected |= {f"{SCALE}{name}": np.zeros((), np.int32) for name in ("good_steps", "skipped_steps")}
    return expected


def take_over(
    found: Checkpoint, engine: Engine, config: Mapping[str, Any], recipe: Recipe, batches: Batches
) -> Iterator[str]:
    """Give a run the arrays and the place of a checkpoint. Notes on what the run does otherwise than before.

    Raises one CheckpointError that lists everything that does not fit, and then changes nothing.
    """
    saved, place = found.metadata, batches.state()
    wrong = [*_config_differences(saved, config)]
    if not wrong:  # else every array differs, for the reason that is said
        wrong += differences("model", _expected_model(engine), found.model)[0]
        wrong += differences("optimizer", _expected_optimizer(engine, recipe), found.optimizer)[0]
    wrong += _data_differences(saved, batches)
    if wrong:
        batches.restore(place)
        raise _misfit(found.path, wrong)
    engine.set_parameters(found.model)
    engine.set_part(STATE, {name: array for name, array in found.optimizer.items() if not name.startswith(SCALE)})
    engine.set_part("", {name: array for name, array in found.optimizer.items() if name.startswith(SCALE)})
    return _notes(saved.get("recipe") or {}, recipe)


def check_metadata(path: Path, saved: Mapping[str, Any], config: Mapping[str, Any], batches: Batches) -> None:
    """CheckpointError where the model or the data of a checkpoint, as its metadata say, are not the run's."""
    place = batches.state()
    wrong = [*_config_differences(saved, config), *_data_differences(saved, batches)]
    batches.restore(place)
    if wrong:
        raise _misfit(path, wrong)


def _misfit(path: Path, wrong: Sequence[str]) -> CheckpointError:
    return CheckpointError("\n    ".join((f"{path}: does not fit this run:", *wrong)), advice=ADVICE)


def _data_differences(saved: Mapping[str, Any], batches: Batches) -> list[str]:
    """What of the data differs; where nothing does, the batches go on where they were."""
    try:
        batches.restore(saved.get("data") or {})
    except DataError as error:
        return [f"data: {line.strip()}" for line in error.message.splitlines()[1:]]
    return []


def _config_differences(saved: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[str]:
    before = saved.get("config") or {}
    for key in CONFIG_KEYS:
        if before.get(key) != config[key]:
            yield f"config: {key} was {before.get(key)!r}, is {config[key]!r}"


def _notes(before: Mapping[str, Any], recipe: Recipe) -> Iterator[str]:
    now = recipe.to_dict()
    changed = [f"{key} {now[key]!r} (was {value!r})" for key, value in before.items() if now.get(key, value) != value]
    if changed:
        yield f"goes on with {', '.join(changed)}"
