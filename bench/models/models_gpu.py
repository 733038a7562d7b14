"""Training steps of the models of examples/ and of one like ResNet-50, at sizes that fill a GPU, beside PyTorch, and
their gradients against float64.

    python bench/models/models_gpu.py --pack [--only llama vit]     # compile here (no GPU needed), into .gpu/models
    python bench/models/models_gpu.py --warm [--only NAME]          # on the GPU machine: fill torch.compile's cache
    python bench/models/models_gpu.py [--only NAME] [--save FILE]   # measure what was packed, and PyTorch
    python bench/models/models_gpu.py --pack --target cpu --size small   # tiny models, on a processor

A step is the loss, its gradients, clipping by their global norm (but for the convolutional networks) and AdamW (in
PyTorch the fused one, under autocast, compiled and eager). Sides take turns, four steps in a row between CUDA events;
times are medians. Memory is what the GPU says is taken beside what was taken before. An error is the L2 norm of the
difference from float64's gradient, relative to its norm. A speed ratio above 1 means that Blu is faster, a memory
ratio below 1 that it takes less. The exit code is 1 where gradients are wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
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


def speed(arguments: argparse.Namespace, model: Model, device: Device) -> dict[str, Any]:
    """All sides in turns."""
    setup = (model, arguments.size, arguments.policy, device)
    makers = {
        "blu": lambda: BluSide(path_of(arguments, model, f"step-{arguments.policy}"), model, arguments.size, device),
        "eager": lambda: TorchSide(*setup, compiled=False),
        "compile": lambda: TorchSide(*setup, compiled=True),
    }
    sides, losses, first, taken, kernels = {}, {}, {}, {}, {}
    for name in ["blu", *arguments.peers]:
        before, start = device.bytes_taken(), time.perf_counter()
        sides[name] = makers[name]()
        losses[name] = [float(sides[name].step()) for _ in range(3)]
        first[name] = round(time.perf_counter() - start, 2)
        device.release()
        taken[name] = device.bytes_taken() - before
        kernels[name] = sides[name].kernels() if device.is_gpu else {}
        _print_kernels(name, kernels[name], arguments.kernels)
    times = in_turns(sides, device, arguments.rounds)
    program = sides["blu"].program
    return {
        "policy": arguments.policy,
        "parameters": sides["blu"].parameters,
        "launches": len(program.plan.launches),
        "milliseconds": times,
        "speed ratio": {name: round(times[name] / times["blu"], 3) for name in arguments.peers},
        "host milliseconds": {name: host_milliseconds(side, device) for name, side in sides.items()},
        "bytes": {**taken, "blu planned": program.peak_bytes},
        "memory ratio": {name: round(taken["blu"] / max(taken[name], 1), 3) for name in arguments.peers},
        "first three steps, seconds": first,
        "losses": losses,
        "kernels": kernels,
    }


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


def measure(arguments: argparse.Namespace, model: Model, device: Device) -> dict[str, Any]:
    """What is reported of a model; it is printed as it is found."""
    found: dict[str, Any] = {"gradients": {}}
    for policy in arguments.gradients:
        found["gradients"][policy] = item = gradients(arguments, model, device, policy)
        print(f"{model.name} gradients {policy}", json.dumps(item), flush=True)
        device.release()
    if arguments.rounds:
        found["step"] = step = speed(arguments, model, device)
        shown = {name: value for name, value in step.items() if name != "kernels"}
        print(f"{model.name} step", json.dumps(shown), flush=True)
    return found


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
        report["models"][model.name] = measure(arguments, model, device)
        device.release()
        if arguments.save:  # after each: what comes later may fail
            arguments.save.write_text(json.dumps(report, indent=1) + "\n")
    found = [item for model in report["models"].values() for item in model["gradients"].values()]
    return int(not all(item["holds"] for item in found))


if __name__ == "__main__":
    sys.exit(main())
