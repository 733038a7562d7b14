"""What ranks run under mpiexec for `test_sharded.py`: one value is brought from every sharding to every other one."""

from __future__ import annotations

import json
import sys

import numpy as np

import blu
from blu.dialects.sharding import Sharding
from blu.runtime.ranks.team import join_team
from blu.runtime.ranks.world import World

MESH = blu.Mesh(dp=2, tp=2)
TEXTS = ["*, *", "dp, *", "tp, *", "dp tp, *", "tp dp, *", "dp tp/4, *", "tp/2, dp", "dp, tp", "tp dp/2, *", "*, tp/3"]
TERMS = ["*, * + dp", "tp, * + dp", "*, dp + tp", "*, * + dp + tp"]
SHAPE = (16, 12)


def own(whole: np.ndarray, text: str, rank: int) -> np.ndarray:
    """What a rank has; of a sum over an axis the first rank has a quarter, the second the rest."""
    sharding = Sharding.parse(text)
    found = whole[np.ix_(*sharding.indices(whole.shape, MESH, rank))]
    for axis in sharding.partial:
        found = found * (0.75 if MESH.coordinates(rank).get(axis, 0) else 0.25)
    return found


def main() -> list[str]:
    """The pairs of shardings in which this rank got something else than its own."""
    rank = World.of_environment().rank
    given = {f"x.{number}": text for number, text in enumerate([*TEXTS, *TERMS])}
    wanted = {f"{name[2:]}_{place}": after for name in given for place, after in enumerate(TEXTS)}

    def moved(x: dict[str, object]) -> dict[str, object]:
        return {result: x[result.partition("_")[0]] for result in wanted}

    whole = np.arange(np.prod(SHAPE), dtype=np.float64).reshape(SHAPE)
    arguments = {name[2:]: blu.spec(SHAPE, "f64") for name in given}
    program = blu.jit(moved, mesh=MESH, shard=given | wanted).trace(arguments).compile().program
    results = program.run([own(whole, given[spec.name], rank) for spec in program.inputs])
    pairs = zip(program.outputs, results, strict=True)
    wrong = [spec.name for spec, found in pairs if not np.array_equal(found, own(whole, wanted[spec.name], rank))]
    assert len(results) == len(wanted)
    return [f"{given['x.' + name.partition('_')[0]]} to {wanted[name]}" for name in wrong]


if __name__ == "__main__":
    with join_team():
        sys.stdout.write(f"RANK {json.dumps({'rank': World.of_environment().rank, 'wrong': main()})}\n")
        sys.stdout.flush()
