"""Both sides of bench/models/models_gpu.py: the packed programs, and PyTorch with the same optimizer."""

from __future__ import annotations

import gc
import statistics
import time
from pathlib import Path
from typing import Any

from bench.gpu.report import microseconds_of_kernels
from bench.models.sizes import UNCLIPPED, Model
from bench.training.torch_gpt2 import decay_groups

IN_A_ROW = 4
SPREAD = 0.02
"""Of random numbers for the parameters that PyTorch's model has without any."""


class Device:
    """A GPU or this machine's processor: its clock and its memory."""

    def __init__(self, torch: Any, name: str):
        self.torch, self.name, self.is_gpu = torch, name, name == "cuda"

    def wait(self) -> None:
        """Until all is done."""
        if self.is_gpu:
            self.torch.cuda.synchronize()

    def release(self) -> None:
        """What PyTorch keeps without a use for it."""
        self.wait()
        gc.collect()
        if self.is_gpu:
            self.torch.cuda.empty_cache()

    def bytes_taken(self) -> int:
        """Of the GPU's memory, by whomever; 0 on a processor."""
        if not self.is_gpu:
            return 0
        free, total = self.torch.cuda.mem_get_info()
        return total - free

    def milliseconds(self, side: Any) -> float:
        """The mean time of some steps in a row."""
        side.step()
        self.wait()
        if not self.is_gpu:
            start = time.perf_counter()
            for _ in range(IN_A_ROW):
                side.step()
            return 1e3 * (time.perf_counter() - start) / IN_A_ROW
        first, last = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(IN_A_ROW):
            side.step()
        last.record()
        self.wait()
        return first.elapsed_time(last) / IN_A_ROW


def in_turns(sides: dict[str, Any], device: Device, rounds: int) -> dict[str, float]:
    """The median milliseconds of a step of each side."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            times[name].append(device.milliseconds(side))
    return {name: round(statistics.median(own), 4) for name, own in times.items()}


def host_milliseconds(side: Any, device: Device, steps: int = 5) -> float:
    """The median time that the host takes to start a step."""
    times = []
    for _ in range(steps):
        device.wait()
        start = time.perf_counter()
        side.step()
        times.append(1e3 * (time.perf_counter() - start))
    device.wait()
    return round(statistics.median(times), 4)


def set_precision(torch: Any, policy: str) -> None:
    """What PyTorch may do with f32."""
    torch.backends.cuda.matmul.allow_tf32 = policy != "f32"
    torch.backends.cudnn.allow_tf32 = policy != "f32"
    torch.backends.cudnn.benchmark = True


def random_twin(model: Model, size: str, part: str, device: Device) -> Any:
    """PyTorch's model in f32 with random numbers, always the same."""
    torch = device.torch
    torch.manual_seed(0)
    twin = model.twin(size, part)
    with torch.no_grad():
        for name in ("class_token", "positions"):
            if hasattr(twin, name):
                getattr(twin, name).normal_(0.0, SPREAD)
    return twin.to(device.name).train()


def tensors(arrays: Any, device: Device, index: Any, floats: Any = None) -> list[Any]:
    """A batch on a device, with integers of a dtype."""
    torch = device.torch
    wanted = [(floats or torch.float32) if array.dtype.kind == "f" else index for array in arrays]
    return [torch.tensor(array, dtype=dtype, device=device.name) for array, dtype in zip(arrays, wanted, strict=True)]


class TorchSide:
    """A step in PyTorch, of a model of its own."""

    def __init__(self, model: Model, size: str, policy: str, device: Device, compiled: bool):
        torch = self.torch = device.torch
        set_precision(torch, policy)
        self.device, self.policy, self.clips = device, policy, model.name not in UNCLIPPED
        self.model, own = random_twin(model, size, "step", device), model.module.optimizer
        options = {"lr": model.size(size).rate, "betas": (own.beta1, own.beta2), "eps": own.epsilon}
        self.optimizer = torch.optim.AdamW(decay_groups(self.model, own.weight_decay), fused=True, **options)
        self.batch = tensors(model.batch(size), device, torch.int64)
        self.loss = torch.compile(self.model) if compiled else self.model

    def step(self) -> Any:
        """The loss, of which PyTorch's optimizer makes use."""
        torch = self.torch
        with torch.autocast(self.device.name, dtype=torch.bfloat16, enabled=self.policy == "bf16"):
            loss = self.loss(*self.batch)
        loss.backward()
        if self.clips:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def kernels(self) -> dict[str, float]:
        """Microseconds of a step's kernels by name, the longest first."""
        profiler = self.torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as profile:
            self.step()
            self.device.wait()
        times = {item.key: item.self_device_time_total for item in profile.key_averages()}
        return dict(sorted(((name, own) for name, own in times.items() if own), key=lambda item: -item[1]))


class BluSide:
    """A packed step, with its arguments in the device's memory."""

    def __init__(self, path: Path, model: Model, size: str, device: Device):
        from blu.runtime import load_program

        self.program: Any = load_program(path)
        self.inputs = self.program.keep(arguments_of(self.program, path, model, size, "step", device))
        self.parameters = sum(item.size for item in self._parameters())

    def _parameters(self) -> list[Any]:
        pairs = zip(self.program.inputs, self.inputs, strict=True)
        return [value for spec, value in pairs if spec.name.startswith("state.m.")]

    def step(self) -> Any:
        """The loss; all else is overwritten."""
        return self.program.run(self.inputs, overwrite=True)[0]

    def kernels(self) -> dict[str, float]:
        """Microseconds of a step's kernels by name, the longest first."""
        return microseconds_of_kernels(self.program, self.inputs)


def arguments_of(program: Any, path: Path, model: Model, size: str, part: str, device: Device) -> list[Any]:
    """What a program is run with: the numbers of PyTorch's model, a batch, an optimizer that has done nothing.

    What its function has read from outside, as a table of angles, is in its file.
    """
    torch = device.torch
    state = random_twin(model, size, part, device).state_dict()
    batch = tensors(model.batch(size, part), device, torch.int32)
    known = {f"model.{name}": value for name, value in state.items()}
    known |= {f"batch.{number}": value for number, value in enumerate(batch)}
    known |= _held(path, program, torch)
    known["rate"] = torch.tensor(model.size(size).rate)
    dtypes = {"i32": torch.int32, "i64": torch.int64, "f32": torch.float32}
    values = []
    for spec in program.inputs:
        value = known[spec.name] if spec.name in known else _nothing_yet(spec, torch)
        value = value.detach().to(device.name, dtypes[spec.dtype]).contiguous().clone()
        values.append(value if device.is_gpu else value.numpy())
    return values


def _held(path: Path, program: Any, torch: Any) -> dict[str, Any]:
    """The arguments that are in a program's file, by name."""
    from blu.runtime.artifact import WEIGHTS, Artifact

    artifact = Artifact.open(path)
    held = set(artifact.names())
    return {
        spec.name: torch.frombuffer(bytearray(artifact.read(f"{WEIGHTS}/{spec.name}")), dtype=torch.float32).view(
            spec.shape
        )
        for spec in program.inputs
        if f"{WEIGHTS}/{spec.name}" in held
    }


def _nothing_yet(spec: Any, torch: Any) -> Any:
    """An optimizer's state before the first step."""
    if not spec.name.startswith("state."):
        raise ValueError(f"nothing is known of the argument {spec.name}")
    return torch.zeros(spec.shape)


Gradients = dict[str, Any]


def gradients_by_blu(program: Any, arguments: list[Any], device: Device) -> Gradients:
    """By the names of parameters."""
    found = zip(program.outputs, program.run(arguments), strict=True)
    named = {spec.name.removeprefix("1."): value for spec, value in found if spec.name.startswith("1.")}
    return {name: device.torch.as_tensor(value, device=device.name).clone() for name, value in named.items()}


def gradients_by_torch(model: Model, size: str, policy: str, device: Device) -> Gradients:
    """PyTorch's in a precision, or in float64."""
    torch = device.torch
    set_precision(torch, policy)
    wide = torch.float64 if policy == "f64" else torch.float32
    twin = random_twin(model, size, "gradients", device).to(wide)
    batch = tensors(model.batch(size, "gradients"), device, torch.int64, wide)
    with torch.autocast(device.name, dtype=torch.bfloat16, enabled=policy == "bf16"):
        loss = twin(*batch)
    loss.backward()
    return {name: item.grad for name, item in twin.named_parameters()}


def gradient_errors(
    path: Path, model: Model, size: str, policy: str, device: Device
) -> tuple[dict[str, float], dict[str, float], bool]:
    """By name, Blu's and PyTorch's errors, and whether two runs of Blu's give the same bits."""
    from blu.runtime import load_program

    program: Any = load_program(path)
    arguments = arguments_of(program, path, model, size, "gradients", device)
    ours, again = (gradients_by_blu(program, arguments, device) for _ in range(2))
    program.close()
    expected = gradients_by_torch(model, size, "f64", device)
    theirs = gradients_by_torch(model, size, policy, device)
    if ours.keys() != expected.keys():
        raise ValueError(f"other gradients than PyTorch's: {sorted(ours.keys() ^ expected.keys())}")
    same = all(device.torch.equal(ours[name], again[name]) for name in ours)
    return _errors(ours, expected), _errors(theirs, expected), same


def _errors(found: Gradients, expected: Gradients) -> dict[str, float]:
    return {
        name: float((found[name].double() - item).norm() / item.norm().clamp(min=1e-300))
        for name, item in expected.items()
    }
