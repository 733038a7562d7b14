"""What ranks run under mpiexec for `test_sharded.py`: each prints a line of JSON with what it found.

A GPT-2 of so many layers in f64, whose loss and gradients in every sharding are compared with those of one rank.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

import blu
from blu import nn
from blu.dialects.sharding import Sharding, first_of
from blu.frontend.io.gpt2 import SHARDINGS, expected_shapes
from blu.runtime.ranks.team import join_team, team_in_use
from blu.runtime.ranks.world import World

WORLD = World.of_environment()
LAYERS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 1)
CONFIG = {"n_layer": LAYERS, "n_head": 4, "n_embd": 16, "vocab_size": 32, "n_positions": 8}
DATA = {"tokens": "dp, *", "targets": "dp, *"}
FULL = {"model.w?e.weight": "dp, *", "model.h.*.c_*.weight": "*, dp", "model.*.bias": "dp", "model.*.ln_*.weight": "dp"}
SHAPES = expected_shapes(CONFIG)
TENSOR = {f"model.{name}": text for name, text in blu.arrange(SHAPES, blu.Mesh(tp=2), SHARDINGS).items()}
BOTH = {f"model.{name}": text for name, text in blu.arrange(SHAPES, blu.Mesh(dp=2, tp=2), SHARDINGS, over="dp").items()}
POSITIONS = {"tokens": "*, cp", "targets": "*, cp"}
ALONE = "one rank"
BETWEEN = {"tokens": "*, tp"}
# Rows of sequences are split between products; with cp, those of which a rank has parts.
SEQUENCES = {
    "sequence": BETWEEN,
    "four, sequence": BETWEEN,
    "data x sequence, full": BETWEEN,
    "sequence x positions": {"tokens": "*, tp/4"},
    "batches between": {"tokens": "tp, *"},
}
MODES = {
    "sequence": ("tp=2", TENSOR),
    "batches between": ("tp=2", TENSOR),
    "four, sequence": ("tp=4", TENSOR),
    "data x sequence, full": ("dp=2,tp=2", DATA | BOTH),
    "sequence x positions": ("tp=2,cp=2", TENSOR | {"tokens": "*, cp~", "targets": "*, cp~"}),
    "data": ("dp=2", DATA),
    "tensor": ("tp=2", TENSOR),
    "full": ("dp=2", DATA | FULL),
    "balanced": ("cp=2", {"tokens": "*, cp~", "targets": "*, cp~"}),
    "four, data": ("dp=4", DATA),
    "four, tensor": ("tp=4", TENSOR),
    "four, full": ("dp=4", DATA | FULL),
    "four balanced": ("cp=4", {"tokens": "*, cp~", "targets": "*, cp~"}),
    "data x balanced": ("dp=2,cp=2", {"tokens": "dp, cp~", "targets": "dp, cp~"}),
    "data x tensor": ("dp=2,tp=2", DATA | TENSOR),
    "data x tensor, full": ("dp=2,tp=2", DATA | BOTH),
    "tensor x positions": ("tp=2,cp=2", TENSOR | POSITIONS),
}


def loss_and_gradients(model: Any, tokens: Any, targets: Any) -> dict[str, Any]:
    """All that a step needs, by the names of the arguments."""
    loss, gradients = blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)
    return {"loss": loss, "model": gradients}


def part_of(array: np.ndarray, text: str | None, mesh: blu.Mesh) -> np.ndarray:
    """What this rank has of an array."""
    if text is None:
        return array
    return array[np.ix_(*Sharding.parse(text).indices(array.shape, mesh, WORLD.rank))]


def compiled_by_all(traced: Mapping[str, Any]) -> dict[str, Any]:
    """The programs, of which each rank compiles some; the others find them in the cache."""
    team = team_in_use()
    assert team is not None and team.watch is not None
    with team.watch.phase("compiling"):
        for item in list(traced.values())[WORLD.rank :: WORLD.size]:
            item.compile()
        if team.store is not None:
            team.store.barrier("compiled", 400)
        return {name: item.compile().program for name, item in traced.items()}


Arrays = Mapping[str, np.ndarray]


def traced_for(mode: str, model: Any, arrays: Arrays) -> Any:
    """The program of a rank in a mode; that of one rank alone where there is none."""
    text, shard = MODES.get(mode, ("", {}))
    between = SEQUENCES.get(mode)
    program = blu.jit(loss_and_gradients, mesh=blu.Mesh.of_text(text), shard=shard, between=between)
    return program.trace(model, arrays["tokens"], arrays["targets"])


def compared(mode: str, program: Any, arrays: Arrays, wanted: Arrays) -> dict[str, Any]:
    """The largest error of a result in a mode, relative to its largest element; what the program exchanges; a digest
    of all results."""
    text, shard = MODES[mode]
    mesh = blu.Mesh.of_text(text)
    inputs = [part_of(arrays[spec.name], first_of(shard, spec.name), mesh) for spec in program.inputs]
    found = [[np.asarray(item) for item in program.run(inputs)] for _ in range(2)]
    errors = []
    for spec, result in zip(program.outputs, found[0], strict=True):
        own = part_of(wanted[spec.name], first_of(shard, spec.name), mesh)
        assert own.shape == result.shape, (mode, spec.name)
        errors.append(float(np.max(np.abs(result - own)) / np.max(np.abs(wanted[spec.name]))))
    is_same = all(np.array_equal(one, other) for one, other in zip(*found, strict=True))
    report = {"error": max(errors), "count": len(errors), "same": is_same, "kinds": kinds_of(program)}
    return {**report, "digest": hashlib.sha256(b"".join(item.tobytes() for item in found[0])).hexdigest()}


def kinds_of(program: Any) -> dict[str, int]:
    """How often a program exchanges data in each way."""
    return dict(Counter(item.kind for item in program.plan.collectives))


def main(modes: list[str]) -> dict[str, Any]:
    """What each mode found."""
    model = nn.GPT2(CONFIG, "f64").initialize(0)
    rng = np.random.default_rng(0)
    tokens, targets = (rng.integers(0, 32, (4, 8)).astype(np.int32) for _ in range(2))
    targets[0, 3] = -100
    arrays = {f"model.{name}": np.asarray(item) for name, item in model.state_dict().items()}
    arrays |= {"tokens": tokens, "targets": targets}
    programs = compiled_by_all({mode: traced_for(mode, model, arrays) for mode in (ALONE, *modes)})
    alone = programs[ALONE]
    results = alone.run([arrays[spec.name] for spec in alone.inputs])
    wanted = {spec.name: np.asarray(item) for spec, item in zip(alone.outputs, results, strict=True)}
    return {mode: compared(mode, programs[mode], arrays, wanted) for mode in modes}


if __name__ == "__main__":
    with join_team():
        sys.stdout.write(f"RANK {json.dumps({'rank': WORLD.rank, **main(sys.argv[2:])})}\n")
        sys.stdout.flush()
