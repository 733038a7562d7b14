"""How long programs take until they run, and what a call costs after that, beside JAX on the same processor.

    python bench/compile_cpu.py [--jax PYTHON] [--rounds N] [--save NAME]

Each figure comes from processes of their own, of Blu and of JAX in turns: one with an empty cache of compiled programs
("cold"), and one with what that has left ("warm"). `--jax` is a Python that has JAX; this one by default. The best of
the rounds is reported: what else runs on a shared machine only ever takes time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ELEMENTWISE, LAYERS, CALLS = 100, 12, 2000
SIDES = ("blu", "jax")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jax", default=sys.executable, metavar="PYTHON", help="a Python that has JAX")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", metavar="NAME", help="write bench/results/NAME.json")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(measure(arguments.side)))
        return
    compare(arguments.jax, arguments.rounds, arguments.save)


def compare(jax: str, rounds: int, name: str | None) -> None:
    """Run both sides in turns, and report the best of each figure."""
    from gpt2_cpu import describe_machine, report

    pythons = dict(zip(SIDES, (sys.executable, jax), strict=True))
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(rounds):
        for side, python in pythons.items():
            with tempfile.TemporaryDirectory() as cache:
                for state in ("cold", "warm"):
                    for what, value in _in_a_process(python, side, cache).items():
                        found.setdefault(f"{what}, {state}", {}).setdefault(side, []).append(value)
    best = {what: {side: min(values) for side, values in sides.items()} for what, sides in found.items()}
    for what, sides in best.items():
        sides["ratio"] = round(sides["blu"] / sides["jax"], 2)
        print(f"{what:45} {sides['blu']:10.4g} {sides['jax']:10.4g} {sides['ratio']:6.2f}", file=sys.stderr)
    result = {
        "command": " ".join(["python", *("PYTHON" if word == jax else word for word in sys.argv)]),
        "machine": describe_machine(),
        "jax": _version_of_jax(jax),
        "rounds": rounds,
        "best": best,
    }
    report(result, name)


def _version_of_jax(python: str) -> str:
    ask = "from importlib import metadata; print(metadata.version('jax'))"
    return subprocess.run([python, "-c", ask], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


def _in_a_process(python: str, side: str, cache: str) -> dict[str, float]:
    environment = os.environ | {
        "BLU_CACHE_DIR": cache,
        "JAX_COMPILATION_CACHE_DIR": cache,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        "JAX_PLATFORMS": "cpu",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [python, str(Path(__file__).resolve()), "--side", side]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(side: str) -> dict[str, float]:
    """The figures of one side, in this process: the first of them includes its import."""
    start = time.perf_counter()
    import numpy as np

    library, space, wait = _library(side)
    found = {}
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, 8)).astype(np.float32)
    wait(library.jit(lambda x, y: space.exp(x @ y) + x)(x, x))
    found["first program, with the import (s)"] = time.perf_counter() - start
    vector = rng.standard_normal(1000).astype(np.float32)
    found[f"{ELEMENTWISE} elementwise ops (s)"] = _seconds(lambda: wait(library.jit(_chain(space))(vector)))
    layers = [(rng.standard_normal((64, 64), np.float32), rng.standard_normal(64, np.float32)) for _ in range(LAYERS)]
    batch = rng.standard_normal((32, 64)).astype(np.float32)
    step = library.jit(library.value_and_grad(_perceptron(space)))
    found[f"value and gradient of {LAYERS} layers (s)"] = _seconds(lambda: wait(step(layers, batch)))
    own = space.asarray(vector)
    jitted = library.jit(lambda a, b: a + b)
    for name, call in {
        "a jitted call on own arrays (us)": lambda: jitted(own, own),
        "an eager addition (us)": lambda: own + own,
        "an eager exponential (us)": lambda: space.exp(own),
    }.items():
        found[name] = _microseconds(call, wait)
    return found


def _library(side: str) -> tuple[Any, Any, Callable[[Any], Any]]:
    """The library, where its functions are, and what waits for results."""
    if side == "jax":
        import jax

        return jax, jax.numpy, jax.block_until_ready
    import blu

    return blu, blu, lambda results: results  # done when a call returns


def _chain(space: Any) -> Callable[[Any], Any]:
    def chain(x: Any) -> Any:
        kinds = (space.sin, space.exp, space.tanh, lambda x: x * 0.5, lambda x: x + 1.0)
        for number in range(ELEMENTWISE):
            x = kinds[number % len(kinds)](x)
        return x

    return chain


def _perceptron(space: Any) -> Callable[[Any, Any], Any]:
    def perceptron(layers: Any, x: Any) -> Any:
        for weight, bias in layers:
            x = space.tanh(x @ weight + bias)
        return space.sum(x * x)

    return perceptron


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _microseconds(call: Callable[[], Any], wait: Callable[[Any], Any]) -> float:
    """Of one of many calls, the best of several rounds."""
    wait(call())
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(CALLS):
            result = call()
        wait(result)
        rounds.append(1e6 * (time.perf_counter() - start) / CALLS)
    return min(rounds)


if __name__ == "__main__":
    main()
