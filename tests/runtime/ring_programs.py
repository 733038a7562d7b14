"""What ranks run under mpiexec for `test_ring_attention.py`: each prints a line of JSON with what it found.

Attention in f64 with fewer heads of keys than of queries, and its gradients, for each way to travel.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import blu
from tests.runtime.sharded_programs import WORLD, kinds_of, part_of

NAMES = ("query", "key", "value", "weights")


def steps_of(causal: bool) -> Any:
    """The function of a mode: results and gradients of attention, weighed so that each element counts."""

    def steps(query: Any, key: Any, value: Any, weights: Any) -> dict[str, Any]:
        def total(operands: tuple) -> Any:
            return blu.sum(blu.attention(*operands, causal=causal, scale=0.4) * weights)

        loss, gradients = blu.value_and_grad(total)((query, key, value))
        result = blu.attention(query, key, value, causal=causal, scale=0.4)
        return {"loss": loss, "result": result, **dict(zip(NAMES, gradients, strict=False))}

    return steps


def main(ranks: int, modes: list[str]) -> dict[str, Any]:
    """The largest error of each mode, relative to the largest element."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in ((2, 4, 24, 8), (2, 2, 24, 8), (2, 2, 24, 5), (2, 4, 24, 5))]
    found = {}
    for mode in modes:
        kind, axis, rotation = mode.split()
        text, mesh = f"*, *, {axis}, *", blu.Mesh(cp=ranks)
        wanted = blu.jit(steps_of(kind == "causal"))(*arrays)
        shard = dict.fromkeys((*NAMES, "result"), text)
        program = blu.jit(steps_of(kind == "causal"), mesh=mesh, shard=shard, rotation=rotation).trace(*arrays)
        compiled = program.compile().program
        inputs = [part_of(array, text, mesh) for array in arrays]
        results, again = ([np.asarray(item) for item in compiled.run(inputs)] for _ in range(2))
        errors = []
        for spec, result, other in zip(compiled.outputs, results, again, strict=True):
            whole = np.asarray(wanted[spec.name])
            own = part_of(whole, shard.get(spec.name), mesh)
            errors.append(float(np.max(np.abs(result - own)) / np.max(np.abs(whole))))
            assert np.array_equal(result, other), (spec.name, "twice")
        found[mode] = {"error": max(errors), "count": len(errors), "kinds": kinds_of(compiled)}
    return found


if __name__ == "__main__":
    sys.stdout.write(f"RANK {json.dumps({'rank': WORLD.rank, 'modes': main(int(sys.argv[1]), sys.argv[2:])})}\n")
    sys.stdout.flush()
