"""What ranks run under mpiexec for `test_collectives.py`: each prints a line of JSON with what it found.

On GPUs, where programs run many times, and replay their graphs on other arrays, it is started as
`torchrun --nproc-per-node 2 -m tests.runtime.collective_programs ops cuda`.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

import blu
from blu.dialects.core.op import OPS
from blu.runtime.ranks.world import World

WORLD = World.of_environment()
RANKS = WORLD.size
TARGET = sys.argv[2] if len(sys.argv) > 2 else "cpu"
REPEATS = 50 if TARGET == "cuda" else 1
"""Of every program: on GPUs the first is launched, further ones are replayed as a graph, on other arrays each."""
LINEAR = [
    ("all_reduce", {"reduction": "sum"}),
    ("all_reduce", {"reduction": "mean"}),
    ("all_gather", {}),
    ("reduce_scatter", {"reduction": "sum"}),
    ("reduce_scatter", {"reduction": "mean"}),
    ("broadcast", {"root": 1}),
    ("all_to_all", {}),
    ("permute", {"shift": 1}),
]
COMPARED = [("all_reduce", {"reduction": "max"}), ("reduce_scatter", {"reduction": "min"}), ("permute", {"shift": -2})]


def drawn(dtype: str, seed: int) -> list[np.ndarray]:
    """The operand of each rank."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-40, 40, (RANKS, 2 * RANKS, 3))
    return list(numbers.astype(blu.spec((), dtype).dtype.numpy))


def ops() -> dict[str, Any]:
    """The error of every collective in every dtype, alone and behind kernels."""
    errors = {}
    for dtype in ("f64", "f32", "bf16", "f16", "i32", "i64", "i8"):
        has_mean = dtype.startswith(("f", "b"))
        cases = [case for case in (*LINEAR, *COMPARED) if has_mean or "mean" not in case[1].values()]

        def program(x: Any, cases: Any = cases) -> Any:
            return [getattr(blu, name)(x + x, "dp", **options) for name, options in cases]

        compiled = blu.jit(program, mesh=blu.Mesh(dp=RANKS), target=TARGET)
        kept: deque[Any] = deque(maxlen=6)  # so that results lie elsewhere in the next runs
        for seed in range(REPEATS):
            operands = drawn(dtype, seed)
            found = compiled(operands[WORLD.rank])
            kept.append(found)
            for (name, options), result in zip(cases, found, strict=True):
                wanted = OPS[name].over_ranks([operand + operand for operand in operands], **options)[WORLD.rank]
                difference = np.asarray(result).astype(np.float64) - wanted.astype(np.float64)
                key = f"{name} {options} {dtype}"
                errors[key] = max(errors.get(key, 0.0), float(np.max(np.abs(difference)) / 100))
    return {"errors": errors}


def twice() -> dict[str, Any]:
    """Whether two programs give the same bits of numbers whose sums are rounded."""
    x = np.random.default_rng(WORLD.rank).standard_normal((1000, 333)).astype(np.float32)

    def program(x: Any) -> Any:
        return blu.all_reduce(x, "dp"), blu.all_reduce(blu.exp(x), "dp", reduction="mean") + x

    first, *others = (
        [np.asarray(item).tobytes() for item in compiled(x)]
        for compiled in [blu.jit(program, mesh=blu.Mesh(dp=RANKS), target=TARGET) for _ in range(2)]
        for _ in range(REPEATS)
    )
    return {"runs": 1 + len(others), "same": all(other == first for other in others)}


def apart() -> dict[str, Any]:
    """Whether results are right where arrays move on one rank only, so that it captures graphs in other runs."""
    compiled = blu.jit(lambda x: blu.all_reduce(x, "dp"), mesh=blu.Mesh(dp=RANKS), target=TARGET)
    wrong, kept = 0, []
    for step in range(REPEATS):
        result = compiled(np.full(1 << 20, step + WORLD.rank, np.float32))
        if WORLD.rank == 0:
            kept.append(result)
        if step % 10 == 9:
            kept.clear()
        wrong += int((np.asarray(result) != RANKS * step + sum(range(RANKS))).sum())
    return {"wrong": wrong}


def gradients() -> dict[str, Any]:
    """For each linear collective, this rank's part of <v, C x> and of <C^T v, x>."""
    found: dict[str, dict[str, float]] = {"forward": {}, "backward": {}}
    rng = np.random.default_rng(WORLD.rank)
    x = rng.standard_normal((2 * RANKS, 3))
    for name, options in LINEAR:
        apply: Callable[..., Any] = getattr(blu, name)
        on_ranks = {"mesh": blu.Mesh(dp=RANKS), "target": TARGET}
        shape = blu.jit(lambda x, apply=apply, options=options: apply(x, "dp", **options), **on_ranks)(x)
        v = rng.standard_normal(shape.shape)

        def paired(x: Any, v: Any, apply: Any = apply, options: Any = options) -> Any:
            return blu.sum(v * apply(x, "dp", **options))

        value, gradient = blu.jit(blu.value_and_grad(paired), **on_ranks)(x, v)
        key = f"{name} {options}"
        found["forward"][key] = float(value)
        found["backward"][key] = float(np.sum(np.asarray(gradient) * x))
    return found


def mesh() -> dict[str, Any]:
    """Sums along the rows and columns of a mesh of 2 x 2 ranks, or 2 x 1."""
    program = blu.jit(
        lambda x: (blu.all_reduce(x, "tp"), blu.all_reduce(x, "dp"), blu.axis_index("dp")),
        mesh=blu.Mesh(dp=2, tp=RANKS // 2),
        target=TARGET,
    )
    rows, columns, index = (np.asarray(item).tolist() for item in program(np.float64(10**WORLD.rank)))
    assert index == WORLD.rank // (RANKS // 2)
    if RANKS == 2:
        return {"rows": rows, "columns": columns, "wanted_rows": 10**WORLD.rank, "wanted_columns": 11}
    wanted = [11, 11, 1100, 1100][WORLD.rank], [101, 1010, 101, 1010][WORLD.rank]
    return {"rows": rows, "columns": columns, "wanted_rows": wanted[0], "wanted_columns": wanted[1]}


def donated() -> dict[str, Any]:
    """Whether programs whose exchanges write over donated arguments give the bits of those that donate nothing.

    Each rank makes a part of the new rows from the old ones, which are read before and after it is made.
    """

    def program(rows: Any, total: Any, x: Any) -> dict[str, Any]:
        part = rows.shape[0] // RANKS
        mine = blu.dynamic_slice(rows, (blu.axis_index("dp") * part, 0), (part, rows.shape[1]))
        gathered = blu.all_gather(mine - 0.1 * blu.tanh(mine), "dp")
        summed = blu.all_reduce(total, "dp")
        return {"loss": blu.sum(blu.exp(x @ rows)), "rows": gathered, "total": summed}

    rng = np.random.default_rng(7)
    shapes = (4 * RANKS, 16), (33,), (5, 4 * RANKS)
    rows, total, x = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    names, compiled = ("rows", "total"), {}
    for kind, given in (("kept", ()), ("donated", names)):
        compiled[kind] = blu.jit(program, donate=given, overwrite=True, mesh=blu.Mesh(dp=RANKS), target=TARGET)
    same, states = True, {kind: {"rows": rows.copy(), "total": total + WORLD.rank} for kind in compiled}
    for _ in range(3):
        found = {kind: compiled[kind](**states[kind], x=x) for kind in compiled}
        for name in ("loss", *names):
            same &= np.array_equal(*(np.asarray(result[name]) for result in found.values()))
        states = {kind: {name: np.array(result[name]) for name in names} for kind, result in found.items()}
    return {"same": bool(same)}


if __name__ == "__main__":
    modes = {item.__name__: item for item in (ops, twice, apart, gradients, mesh, donated)}
    found = {mode: modes[mode]() for mode in sys.argv[1].split(",")}
    sys.stdout.write(f"RANK {json.dumps({'rank': WORLD.rank, **found})}\n")
    sys.stdout.flush()
