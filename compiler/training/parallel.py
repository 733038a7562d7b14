"""How a training run is shared out among ranks: the shardings of what its programs take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blu.errors import ArgumentError
from blu.frontend.io.gpt2 import expected_shapes
from blu.plan.mesh import Mesh

DATA_AXIS = "dp"
"""The axis of the mesh along which ranks have different sequences."""


def data_ranks(mesh: Mesh) -> int:
    """How many parts a batch is cut into."""
    return mesh.ranks(DATA_AXIS)


def check_batch(batch_size: int, mesh: Mesh) -> None:
    """ArgumentError where a batch cannot be shared out."""
    ranks = data_ranks(mesh)
    if batch_size % ranks:
        nearest = [size for size in (batch_size - batch_size % ranks, batch_size + -batch_size % ranks) if size]
        raise ArgumentError(
            f"a batch of {batch_size} sequences cannot be shared out among {ranks} ranks",
            advice=f"take {' or '.join(map(str, nearest))}",
        )


def shardings_of(entry: str, config: Mapping[str, Any], mesh: Mesh) -> dict[str, str]:
    """How the arguments of a training program lie: each rank has sequences of its own, and terms of what is added up.

    Gradients of micro-batches stay terms in the sums that each rank keeps, until the update adds them up over ranks.
    """
    if data_ranks(mesh) == 1:
        return {}
    found: dict[str, str] = {}
    if entry != "update":
        found |= {"tokens": f"{DATA_AXIS}, *", "targets": f"{DATA_AXIS}, *"}
    if entry in ("micro", "update"):
        found["sums.loss"] = f"+ {DATA_AXIS}"
        for name, shape in expected_shapes(config).items():
            found[f"sums.gradients.{name}"] = f"{', '.join('*' * len(shape))} + {DATA_AXIS}"
    return found
