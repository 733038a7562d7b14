"""What ranks run under mpiexec for `test_narrow_sums.py`: gradients that are added up in bf16, and their errors."""

from __future__ import annotations

import json
import sys

import numpy as np

import blu
from blu.runtime.ranks.world import World

RANK = World.of_environment().rank
SIZES = ((8, 24), (24, 40))


def gradients(x: blu.Tensor, w: blu.Tensor) -> dict:
    """The loss and the gradient of a layer."""
    loss, gradient = blu.value_and_grad(lambda w: blu.sum(blu.square(blu.tanh(x @ w))))(w)
    return {"loss": loss, "gradient": gradient}


def main() -> None:
    """The error of each element as a share of its bound, and of the loss; whether two runs have the same bits."""
    rng = np.random.default_rng(3)
    x, w = (rng.standard_normal(size).astype(np.float32) for size in SIZES)
    own = x[4 * RANK : 4 * RANK + 4]
    found = {}
    for dtype in ("f32", "bf16"):
        f = blu.jit(gradients, mesh=blu.Mesh(dp=2), shard={"x": "dp, *"}, reduce={"dp": dtype})
        found[dtype], again = (np.asarray(f(own, w)["gradient"]) for _ in range(2))
        assert np.array_equal(found[dtype], again)
        loss = float(f(own, w)["loss"])
    terms = [term(x[4 * rank : 4 * rank + 4], w) for rank in range(2)]
    bound = 2.0**-7 * sum(np.abs(item) for item in terms) + 1e-5
    exact = sum(terms)
    result = {
        "share": float(np.max(np.abs(found["bf16"] - exact) / bound)),
        "f32": float(np.max(np.abs(found["f32"] - exact))),
        "bits": int((found["bf16"].view(np.uint32) & 0xFFFF).max()),
        "loss": abs(loss - float(np.sum(np.tanh(np.float64(x) @ w) ** 2))) / loss,
    }
    sys.stdout.write(f"RANK {json.dumps({'rank': RANK, **result, **activations()})}\n")


def activations() -> dict:
    """Of a product whose k is split, the largest error as a share of its bound; and that of row statistics."""

    def layer(x: blu.Tensor, w: blu.Tensor) -> dict:
        y = x @ w
        return {"sums": y, "statistics": blu.log(blu.sum(blu.exp(x), axis=1, keepdims=True))}

    rng = np.random.default_rng(4)
    x, w = (rng.standard_normal(size).astype(np.float32) for size in SIZES)
    f = blu.jit(layer, mesh=blu.Mesh(tp=2), shard={"x": "*, tp", "w": "tp, *"}, reduce={"tp": "bf16"})
    part = slice(12 * RANK, 12 * RANK + 12)
    found = {name: np.float64(np.asarray(item)) for name, item in f(x[:, part].copy(), w[part]).items()}
    terms = [np.float64(x[:, start : start + 12]) @ w[start : start + 12] for start in (0, 12)]
    bound = 2.0**-7 * sum(np.abs(item) for item in terms) + 1e-5
    exact = np.log(np.sum(np.exp(np.float64(x)), axis=1, keepdims=True))
    return {
        "activations": float(np.max(np.abs(found["sums"] - sum(terms)) / bound)),
        "statistics": float(np.max(np.abs(found["statistics"] - exact))),
    }


def term(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """One rank's term of the gradient, in f64: x^T (2 t (1 - t^2))."""
    t = np.tanh(np.float64(x) @ w)
    return np.float64(x).T @ (2 * t * (1 - t * t))


if __name__ == "__main__":
    main()
