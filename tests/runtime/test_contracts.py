"""A plan that was changed, and hashed again, is refused, or runs within the memory that its program has."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import blu
from blu.compiler.cli.run import make_parser
from blu.compiler.jit import Traced
from blu.errors import BluError, CacheError
from blu.plan.contract import MEMBER
from blu.plan.schema import Plan
from blu.runtime.artifact import MANIFEST, write_artifact
from blu.runtime.contracts import check_contracts
from tests.support.folders import ROOT

NUMBERS = [0, 1, 7, 63, 64, 128, 4096, 1 << 20, 1 << 31, 1 << 40, (1 << 62) - 64]
RUN = """
import sys
import numpy as np
from pathlib import Path
from blu.errors import BluError
from blu.runtime import load_program
for path in sorted(Path(sys.argv[1]).glob("*.blu")):
    print(path.name, end=" ", flush=True)
    try:
        program = load_program(path)
        inputs = []
        for spec in program.inputs:
            array = np.zeros(spec.shape, spec.numpy_dtype)
            if not spec.donated:
                array.flags.writeable = False
            inputs.append(array)
        program.run(inputs)
        print("ran")
    except (BluError, MemoryError) as error:
        print(type(error).__name__)
"""


def step(w: Any, m: Any, x: Any, y: Any) -> tuple[Any, ...]:
    """A bit of everything: products, rows, gathers, sorting, sums at indices, slices, in place and not."""

    def loss(w: Any) -> Any:
        hidden = blu.softmax(x @ w, axis=-1)
        return blu.cross_entropy(hidden @ w.T, y) + blu.take(w, y, 0).sum()

    value, gradient = blu.value_and_grad(loss)(w)
    order = blu.argsort(gradient[:, 0])
    moved = blu.concatenate([w[:3], gradient[3:] * 2], 0)
    part = blu.dynamic_slice(m, (y[0], 0), (2, 3))
    return value, w - 0.1 * gradient, 0.9 * m + gradient, blu.take(moved, order, 0), part


@pytest.fixture(scope="module")
def traced() -> Traced:
    weights = blu.spec((70, 40), "f32")
    return blu.jit(step, donate=("w", "m")).trace(weights, weights, blu.spec((9, 70), "f32"), blu.spec((9,), "i64"))


@pytest.fixture(scope="module", params=["x86-64-v2", "sm_90a"])
def members(request: pytest.FixtureRequest, traced: Traced) -> dict[str, bytes]:
    """An executable, of each kind of machine."""
    return traced.compile(request.param).executable


def places(value: Any, path: tuple = ()) -> list[tuple]:
    """Where numbers are in a plan, and lists that can lose or repeat an item."""
    if isinstance(value, dict):
        return [place for key, item in value.items() for place in places(item, (*path, key))]
    if isinstance(value, list):
        inside = [place for number, item in enumerate(value) for place in places(item, (*path, number))]
        return [*inside, path] if path and value else inside
    return [path] if value is None or isinstance(value, (int, bool)) or value in ("input", "output", "arena") else []


def mutant(plan: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """The plan with one to three things changed."""
    changed = copy.deepcopy(plan)
    for _ in range(rng.choice([1, 1, 2, 3])):
        path = rng.choice(places(changed))
        holder: Any = changed
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = other(holder[path[-1]], rng)
    return changed


def other(value: Any, rng: random.Random) -> Any:
    """Something else of the kind."""
    if isinstance(value, list):
        item = rng.randrange(len(value))
        ways: list[Callable[[], list]] = [
            lambda: value[:item] + value[item + 1 :],
            lambda: [*value, copy.deepcopy(value[item])],
            lambda: rng.sample(value, len(value)),
        ]
        return rng.choice(ways)()
    if isinstance(value, str):
        return rng.choice(["input", "output", "arena", "constant", "status"])
    if value is None or isinstance(value, bool):
        return rng.choice([None, True, False, 0, 1])
    return rng.choice([*NUMBERS, value + 1, value + 64, max(0, value - 1), max(0, value - 64), value * 2, value // 2])


def test_what_was_compiled_keeps_its_contracts(members: dict[str, bytes]) -> None:
    plan = Plan.parse(members["plan.json"])
    check_contracts(plan, members[MEMBER])
    assert {launch.kernel for launch in plan.launches} == json.loads(members[MEMBER]).keys()


def test_every_number_of_a_launch_is_held_to_its_bounds(members: dict[str, bytes]) -> None:
    """One at a time: a buffer that is a byte too small, a pointer too far in, more blocks, other memory."""
    plan = json.loads(members["plan.json"])

    def refused(change: Callable[[dict[str, Any]], None], message: str) -> None:
        changed = copy.deepcopy(plan)
        change(changed)
        with pytest.raises(CacheError, match=message):
            check_contracts(Plan.parse(json.dumps(changed).encode()), members[MEMBER])

    fits = "the plan does not fit its kernels: launch"
    refused(lambda p: p.update(arena_bytes=p["arena_bytes"] - 64), f"{fits}|reaches beyond arena")
    refused(lambda p: p["inputs"][2].update(shape=[9, 69]), f"{fits}.*touches 2520 bytes of input 2, where 2484 are")
    refused(lambda p: p["inputs"][0].update(donated=False, input=None), "donated")
    refused(lambda p: p["outputs"][0].update(dtype="f16"), f"{fits}.*touches 4 bytes of output 0, where 2 are")
    for number, launch in enumerate(plan["launches"]):
        size = "grid" if "grid" in launch else "blocks"
        larger = [launch["grid"][0] + 1, *launch["grid"][1:]] if size == "grid" else launch["blocks"] + 1
        message = f"{fits} {number} .*its size is|table"
        refused(lambda p, n=number, s=size, v=larger: p["launches"][n].update({s: v}), message)
        refused(lambda p, n=number: p["launches"][n].update(kernel="rows_999"), "'rows_999', which is none of them")
        for place, argument in enumerate(launch["args"]):
            if argument[0] != "table":
                refused(
                    lambda p, n=number, i=place: p["launches"][n]["args"][i].__setitem__(-1, 1),
                    "not aligned|reaches beyond|something else|in place of memory",
                )


def test_mutants_of_a_plan_are_refused_or_stay_in_bounds(members: dict[str, bytes]) -> None:
    """For every target: what is not refused fits the contracts, by a count of bytes of its own."""
    plan, rng, refused = json.loads(members["plan.json"]), random.Random(11), 0
    for _ in range(300):
        changed = mutant(plan, rng)
        try:
            parsed = Plan.parse(json.dumps(changed).encode())
            check_contracts(parsed, members[MEMBER])
        except CacheError:
            refused += 1
            continue
        sizes, contracts = parsed.sizes(), json.loads(members[MEMBER])
        for launch in parsed.launches:
            arguments = launch.args if launch.args[0].space != "table" else parsed.tables[launch.args[0].index]
            rooms = [sizes[a.space][a.index] - a.offset for a in arguments if a.space != "map"]
            assert any(
                len(rooms) == len(contract["parameters"])
                and all(room >= nbytes for room, (nbytes, _) in zip(rooms, contract["parameters"], strict=True))
                for contract in contracts[launch.kernel]
            )
    assert 100 < refused < 300, f"{refused} of 300 were refused"


def test_no_mutant_of_a_plan_kills_the_process(traced: Traced, tmp_path: Path) -> None:
    """200 on this machine's CPU, run for real, with arguments that must not be written to."""
    compiled, rng = traced.compile("cpu"), random.Random(29)
    parts = {name: data for name, data in compiled.executable.items() if name not in (MANIFEST, "ir.mlir")}
    plan = json.loads(parts["plan.json"])
    write_artifact(tmp_path / "000.blu", parts, compiled.details)
    for number in range(1, 201):
        text = json.dumps(mutant(plan, rng)).encode()
        write_artifact(tmp_path / f"{number:03}.blu", {**parts, "plan.json": text}, compiled.details)
    ran = subprocess.run([sys.executable, "-c", RUN, str(tmp_path)], capture_output=True, text=True, timeout=200)
    lines = ran.stdout.splitlines()
    assert ran.returncode == 0, f"exit {ran.returncode} at {lines[-1]}: {ran.stderr[-2000:]}"
    assert lines[0] == "000.blu ran" and len(lines) == 201
    results = [line.split()[1] for line in lines]
    assert results.count("CacheError") > 80 and results.count("ran") > 10


def test_who_runs_an_artifact_is_told_what_it_is() -> None:
    texts = [(ROOT / name).read_text() for name in ("README.md", "docs/ir.md", "docs/gpu-runtime.md")]
    for text in (*texts, make_parser().format_help()):
        assert "native code" in text and "you trust" in text


def test_damaged_contracts_are_refused(members: dict[str, bytes]) -> None:
    plan = Plan.parse(members["plan.json"])
    for text in (b"", b"[]", b"{}", b'{"gemm_0": 3}', b'{"gemm_0": [{}]}', b"[" * 100_000):
        with pytest.raises(BluError, match=r"damaged contracts.json|none of them"):
            check_contracts(plan, text)
