"""Training steps of the models of examples/ and of one like ResNet-50, at sizes that fill a GPU, beside PyTorch, and
their gradients against float64.

    python bench/models/models_gpu.py --pack [--only llama vit]     # compile here (no GPU needed), into .gpu/models
    python bench/models/models_gpu.py --warm [--only NAME]          # on the GPU machine: fill torch.compile's cache
    python bench/models/models_gpu.py [--only NAME] [--save FILE]   # measure what was packed, and PyTorch
    python bench/models/models_gpu.py --pack --target cpu --size small   # tiny models, on a processor
    python bench/models/models_gpu.py --only resnet --gradients --save FILE --cache FOLDER   # even in a short time

torch.compile takes minutes for some models. With --cache, what it writes is kept in a folder from run to run. Each
figure is printed and saved as it is known; each side is measured alone before the next one is begun, Blu's first, and
one of PyTorch's that fails is noted and leaves the others theirs.

A step is the loss, its gradients, clipping by their global norm (but for the convolutional networks) and AdamW (in
PyTorch the fused one, under autocast, compiled and eager). Sides take turns, four steps in a row between CUDA events;
times are medians. Memory is what the GPU says is taken beside what was taken before. An error is the L2 norm of the
difference from float64's gradient, relative to its norm. A speed ratio above 1 means that Blu is faster, a memory
ratio below 1 that it takes less. The exit code is 1 where gradients are wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))

import checkout

from bench.gpu.report import command_line, describe
from bench.models.sides import BluSide, Device, TorchSide, gradient_errors, host_milliseconds, in_turns
from bench.models.sizes import MODELS, Model, program_of

FOLDER = Path(checkout.ROOT, ".gpu", "models")
POLICIES = ("f32", "tf32", "bf16")
BOUNDS = {"f32": 2e-6, "tf32": 2e-3, "bf16": 2e-2}
"""The largest errors that gradients may have, unless PyTorch's are as large."""
LARGEST_RATIO = 1.2


def path_of(arguments: argparse.Namespace, model: Model, part: str) -> Path:
    """Where a program is packed: a step, or the gradients in a precision."""
    return FOLDER / f"{model.name}-{arguments.size}-{part}.blu"


def pack(arguments: argparse.Namespace, model: Model) -> None:
    """Compile a step and the gradients in each precision."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for part in parts_of(arguments):
        start = time.perf_counter()
        compiled = program_of(model, arguments.size, *part).compile(arguments.target)
        compiled.save(path_of(arguments, model, "-".join(part)))
        seconds = time.perf_counter() - start
        print(f"{model.name} {' '.join(part)}: compiled in {seconds:.1f} s", flush=True)


def parts_of(arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """What is measured of a model: steps and gradients, each in precisions."""
    steps = [("step", arguments.policy)] if arguments.rounds else []
    return [*steps, *(("gradients", policy) for policy in arguments.gradients)]


def warm(arguments: argparse.Namespace, model: Model, device: Device) -> None:
    """Have torch.compile write its code, so that the time for it is not taken from a measurement."""
    start = time.perf_counter()
    TorchSide(model, arguments.size, arguments.policy, device, compiled=True).step()
    device.wait()
    print(f"{model.name}: torch.compile took {time.perf_counter() - start:.1f} s", flush=True)


def keep_cache(folder: Path) -> None:
    """Have torch.compile, which is still to be imported, find what it has written before."""
    for name, part in (("TORCHINDUCTOR_CACHE_DIR", "inductor"), ("TRITON_CACHE_DIR", "triton")):
        path = folder.resolve() / part
        path.mkdir(parents=True, exist_ok=True)
        os.environ[name] = str(path)
    os.environ["TORCHINDUCTOR_FX_GRAPH_CACHE"] = "1"


def speed(
    arguments: argparse.Namespace, model: Model, device: Device, note: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """All sides, each alone and then in turns; `note` is given what is known whenever that is more."""
    setup = (model, arguments.size, arguments.policy, device)
    makers = {
        "blu": lambda: BluSide(path_of(arguments, model, f"step-{arguments.policy}"), model, arguments.size, device),
        "eager": lambda: TorchSide(*setup, compiled=False),
        "compile": lambda: TorchSide(*setup, compiled=True),
    }
    found: dict[str, Any] = {"policy": arguments.policy}
    found |= {name: {} for name in ("alone, milliseconds", "bytes", "first three steps, seconds", "losses", "kernels")}
    sides: dict[str, Any] = {}
    for name in ["blu", *arguments.peers]:
        try:
            _begin(name, makers[name], sides, found, device)
        except Exception as error:
            if name == "blu":
                raise
            sides.pop(name, None)
            found.setdefault("failed", {})[name] = f"{type(error).__name__}: {error}"[:500]
            print(f"{name}: {found['failed'][name]}", flush=True)
            device.release()
        else:
            _print_kernels(name, found["kernels"][name], arguments.kernels)
        note(found)
    times, peers = in_turns(sides, device, arguments.rounds), [name for name in sides if name != "blu"]
    program, taken = sides["blu"].program, found["bytes"]
    return found | {
        "parameters": sides["blu"].parameters,
        "launches": len(program.plan.launches),
        "milliseconds": times,
        "speed ratio": {name: round(times[name] / times["blu"], 3) for name in peers},
        "host milliseconds": {name: host_milliseconds(side, device) for name, side in sides.items()},
        "bytes": {**taken, "blu planned": program.peak_bytes},
        "memory ratio": {name: round(taken["blu"] / max(taken[name], 1), 3) for name in peers},
    }


def _begin(name: str, make: Callable[[], Any], sides: dict[str, Any], found: dict[str, Any], device: Device) -> None:
    """Three steps of a side, its memory, its kernels, and its time alone."""
    before, start = device.bytes_taken(), time.perf_counter()
    side = sides[name] = make()
    found["losses"][name] = [float(side.step()) for _ in range(3)]
    found["first three steps, seconds"][name] = round(time.perf_counter() - start, 2)
    device.release()
    found["bytes"][name] = device.bytes_taken() - before
    found["alone, milliseconds"][name] = in_turns({name: side}, device, 2)[name]
    found["kernels"][name] = side.kernels() if device.is_gpu else {}


def gradients(arguments: argparse.Namespace, model: Model, device: Device, policy: str) -> dict[str, Any]:
    """The errors of both sides, and whether they may be so large."""
    path = path_of(arguments, model, f"gradients-{policy}")
    own, theirs, same = gradient_errors(path, model, arguments.size, policy, device)
    worst = max(own, key=lambda name: own[name])
    apart = max(own, key=lambda name: own[name] / max(theirs[name], BOUNDS[policy] / 2))
    largest = max(theirs.values())
    return {
        "gradients": len(own),
        "largest error": own[worst],
        "of": worst,
        "torch, of the same": theirs[worst],
        "torch, largest error": largest,
        "largest ratio to torch's": own[apart] / max(theirs[apart], 1e-300),
        "ratio of": apart,
        "two runs are the same bits": same,
        "holds": same and own[worst] <= max(BOUNDS[policy], LARGEST_RATIO * largest),
    }


def measure(
    arguments: argparse.Namespace, model: Model, device: Device, note: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """What is reported of a model; it is printed, and noted, as it is found."""
    found: dict[str, Any] = {"gradients": {}}
    for policy in arguments.gradients:
        found["gradients"][policy] = item = gradients(arguments, model, device, policy)
        print(f"{model.name} gradients {policy}", json.dumps(item), flush=True)
        note(found)
        device.release()
    if arguments.rounds:
        found["step"] = speed(arguments, model, device, lambda part: _show(model, found | {"step": part}, note))
        _show(model, found, note)
    return found


def _show(model: Model, found: dict[str, Any], note: Callable[[dict[str, Any]], None]) -> None:
    """Print what is known of a step, and note it."""
    shown = {name: value for name, value in found["step"].items() if name != "kernels"}
    print(f"{model.name} step", json.dumps(shown), flush=True)
    note(found)


def _note(arguments: argparse.Namespace, report: dict[str, Any], name: str, found: dict[str, Any]) -> None:
    """Write down what is known of a model: what comes later may fail, or be stopped."""
    report["models"][name] = found
    if arguments.save:
        arguments.save.write_text(json.dumps(report, indent=1) + "\n")


def _print_kernels(side: str, microseconds: dict[str, float], count: int) -> None:
    """At once, since what comes later may take long."""
    if microseconds:
        print(f"{side}: {len(microseconds)} kernels, {sum(microseconds.values()):.0f} us in a step", flush=True)
    for name, own in list(microseconds.items())[:count]:
        print(f"    {own:10.1f} us  {name[:100]}", flush=True)


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", action="store_true", help="compile, and do nothing else")
    parser.add_argument("--warm", action="store_true", help="run torch.compile once, and do nothing else")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="where to measure")
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--size", default="large", choices=("small", "large"))
    parser.add_argument("--policy", default="bf16", choices=POLICIES, help="the precision of steps")
    parser.add_argument("--gradients", nargs="*", default=list(POLICIES), choices=POLICIES)
    parser.add_argument("--peers", nargs="*", default=["eager", "compile"], choices=("eager", "compile"))
    parser.add_argument("--rounds", type=int, default=6, help="0: no steps, gradients only")
    parser.add_argument("--kernels", type=int, default=25, help="how many kernels are printed; the report has all")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="where torch.compile keeps what it has compiled")
    parser.add_argument("--save", type=Path, metavar="FILE")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    """Pack, warm, or measure; 1 where gradients are wrong."""
    arguments = _arguments(words)
    models = [MODELS[name] for name in arguments.only]
    if arguments.pack:
        for model in models:
            pack(arguments, model)
        return 0
    if arguments.cache:
        keep_cache(arguments.cache)
    import torch

    device = Device(torch, arguments.device)
    if arguments.warm:
        for model in models:
            warm(arguments, model, device)
        return 0
    report: dict[str, Any] = {"command": command_line(), "size": arguments.size}
    if device.is_gpu:
        report["machine"] = describe(torch)
    report["models"] = {}
    for model in models:
        measure(arguments, model, device, lambda found, name=model.name: _note(arguments, report, name, found))
        device.release()
    found = [item for model in report["models"].values() for item in model["gradients"].values()]
    return int(not all(item["holds"] for item in found))


if __name__ == "__main__":
    sys.exit(main())
