"""Attention of long sequences on several GPUs (context parallel) beside one GPU and PyTorch's context_parallel.

    python bench/context_gpu.py --pack [--ranks 2] [--part tensor --side 3]    # compile (no GPU), into .gpu/context
    blu run --nproc 2 --device cuda bench/context_gpu.py [--save FILE]

One causal attention in bf16, B = 1, 16 heads of 64, forward and backward; a loss of GPT-2 124M and all its gradients
with one sequence; and that with its heads split (tensor parallel), with exchanges moved apart and as they are written.
Sides are timed in alternating rounds by CUDA events, medians, the slowest rank; errors are those of T = 2048 against
PyTorch in f64: norms of differences, of fresh random numbers, relative to norms.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import checkout

from bench.ranks.joining import joined_ranks, publish

FOLDER = Path(checkout.ROOT, ".gpu", "context")
HEADS, SIZE, VOCABULARY, CHECKED = 16, 64, 50304, 2048
LENGTHS, MODEL_LENGTHS = (8192, 32768, 131072), (8192, 32768)
ALONE = "blu, one rank"
SIDES = {
    ALONE: ("", "permute"),
    "blu, balanced ring": ("cp~", "permute"),
    "blu, ring in order": ("cp", "permute"),
    "blu, balanced, gathered": ("cp~", "all_gather"),
    "blu, balanced, all to all": ("cp~", "all_to_all"),
}
# Whether exchanges are moved apart, and in which dtype activations are added up.
TENSOR_SIDES = {
    ALONE: (True, "f32"),
    "blu, tensor parallel": (True, "f32"),
    "blu, tensor parallel, not apart": (False, "f32"),
    "blu, tensor parallel, sums in bf16": (True, "bf16"),
    "blu, tensor parallel, sums in bf16, not apart": (False, "bf16"),
}
SIDES_OF: dict[str, tuple[str, ...]] = {
    "attention": tuple(SIDES),
    "model": (ALONE, "blu, balanced ring"),
    "tensor": tuple(TENSOR_SIDES),
}
PARTS = tuple(SIDES_OF)


def path_of(kind: str, side: str, length: int) -> Path:
    """Where a program is packed."""
    return FOLDER / f"{kind}-{side.replace(', ', '-').replace(' ', '-')}-{length}.blu"


def attention_program(side: str, length: int, ranks: int) -> Any:
    """The result and three gradients of one attention."""
    import blu

    def both(query: Any, key: Any, value: Any, g: Any) -> dict[str, Any]:
        attention = lambda *operands: blu.attention(*operands, causal=True, scale=SIZE**-0.5)  # noqa: E731
        result, pull = blu.vjp(attention, query, key, value)
        return {"result": result, **dict(zip(("query", "key", "value"), pull(g), strict=True))}

    axis, rotation = SIDES[side]
    mesh = blu.Mesh(cp=ranks) if axis else blu.Mesh()
    shard = {"*": f"*, *, {axis}, *"} if axis else {}
    operand = blu.spec((1, HEADS, length, SIZE), "bf16")
    return blu.jit(both, mesh=mesh, shard=shard, rotation=rotation).trace(*[operand] * 4)


def config_of(length: int) -> dict[str, int]:
    """GPT-2 124M, for sequences of this length."""
    return {"vocab_size": VOCABULARY, "n_positions": max(1024, length)}


def model_program(mesh: Any, shard: dict[str, str], batch: int, length: int, sums: str = "f32") -> Any:
    """The loss and all gradients of GPT-2 124M."""
    import blu
    from blu import nn

    def step(model: Any, tokens: Any, targets: Any) -> dict[str, Any]:
        with blu.autocast("bf16"):
            loss, gradients = blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)
        return {"loss": loss, "model": gradients}

    model = nn.GPT2(config_of(length))
    tokens = blu.spec((batch, length), "i32")
    reduce = {"tp": sums} if "tp" in dict(mesh.axes) and sums != "f32" else {}
    return blu.jit(step, mesh=mesh, shard=shard, reduce=reduce).trace(model, tokens, tokens)


@contextmanager
def exchanges_as_written(is_so: bool) -> Iterator[None]:
    """Leave exchanges where they are written, for what it is worth to move them apart."""
    from blu.compiler.pipelines import sm90
    from blu.passes.host.overlap_collectives import OverlapCollectives

    before = sm90.PIPELINE
    if is_so:
        sm90.PIPELINE = before.replacing(OverlapCollectives(begins_early=False, waits_late=False))
    try:
        yield
    finally:
        sm90.PIPELINE = before


def pack(arguments: argparse.Namespace) -> None:
    """Compile all programs of one part or of all, or one side of them, for as many ranks as are asked for."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for part in PARTS if arguments.part == "all" else [arguments.part]:
        sides = SIDES_OF[part]
        for side in sides if arguments.side is None else [sides[arguments.side]]:
            PACKS[part](side, arguments)


def pack_attention(side: str, arguments: argparse.Namespace) -> None:
    """One attention of each length."""
    for length in (CHECKED, *LENGTHS):
        save(attention_program(side, length, arguments.ranks), path_of("attention", side, length))


def pack_model(side: str, arguments: argparse.Namespace) -> None:
    """GPT-2 with one sequence of each length."""
    import blu

    mesh = blu.Mesh() if side == ALONE else blu.Mesh(cp=arguments.ranks)
    shard = {} if side == ALONE else {"tokens": "*, cp~", "targets": "*, cp~"}
    for length in MODEL_LENGTHS:
        save(model_program(mesh, shard, 1, length), path_of("model", side, length))


def pack_tensor(side: str, arguments: argparse.Namespace) -> None:
    """GPT-2 with its heads split."""
    import blu
    from blu.frontend.io.gpt2 import DEFAULTS, SHARDINGS, expected_shapes

    apart, sums = TENSOR_SIDES[side]
    mesh = blu.Mesh() if side == ALONE else blu.Mesh(tp=arguments.ranks)
    shardings = blu.arrange(expected_shapes(DEFAULTS | config_of(1024)), mesh, SHARDINGS)
    shard = {f"model.{name}": text for name, text in shardings.items()}
    with exchanges_as_written(not apart):
        save(model_program(mesh, shard, arguments.batch, 1024, sums), path_of("tensor", side, 1024))


PACKS: dict[str, Callable[[str, argparse.Namespace], None]] = {
    "attention": pack_attention,
    "model": pack_model,
    "tensor": pack_tensor,
}


def save(traced: Any, path: Path) -> None:
    """Compile and write one program, past the cache, which knows nothing of pipelines."""
    traced.lower("sm_90a").compile().save(path)
    print(path.name, flush=True)


class BluSide:
    """A packed program on random arrays in the GPU's memory, or on those that are given."""

    def __init__(self, path: Path, given: dict[str, Any] | None = None):
        import torch

        from blu.runtime.cuda import CudaProgram

        torch.cuda.empty_cache()
        self.torch, self.program = torch, CudaProgram.load(path)
        generator = torch.Generator(device="cuda").manual_seed(0)
        self.inputs = self.program.keep([self._argument(item, generator, given or {}) for item in self.program.inputs])
        self.step()
        torch.cuda.synchronize()
        self.bytes = self.program.peak_bytes

    def _argument(self, spec: Any, generator: Any, given: dict[str, Any]) -> Any:
        torch = self.torch
        if spec.name in given:
            return given[spec.name]
        if spec.dtype == "i32":
            return torch.randint(0, 50257, spec.shape, generator=generator, device="cuda", dtype=torch.int32)
        if spec.dtype == "bf16":
            return torch.randn(spec.shape, generator=generator, device="cuda").bfloat16()
        return 0.02 * torch.randn(spec.shape, generator=generator, device="cuda")

    def step(self) -> Any:
        return self.program.run(self.inputs)


class TorchSide:
    """PyTorch's fused attention, forward and backward, on what this rank has."""

    def __init__(self, length: int, rotation: str | None):
        import torch
        import torch.nn.functional as functional

        self.torch, self.functional, self.stack = torch, functional, ExitStack()
        shape = (1, HEADS, length, SIZE)
        self.operands = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
        self.stack.enter_context(torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION))
        if rotation is not None:
            self._split(rotation)
        self.operands[:3] = [item.detach().requires_grad_() for item in self.operands[:3]]

    def _split(self, rotation: str) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.experimental import _attention, context_parallel

        _attention.set_rotate_method(rotation)
        mesh = init_device_mesh("cuda", (self.torch.distributed.get_world_size(),), mesh_dim_names=("cp",))
        self.stack.enter_context(context_parallel(mesh, buffers=[*self.operands], buffer_seq_dims=[2] * 4))

    def step(self) -> None:
        query, key, value, g = self.operands
        self.functional.scaled_dot_product_attention(query, key, value, is_causal=True).backward(g)
        for item in self.operands[:3]:
            item.grad = None


def milliseconds(torch: Any, step: Callable[[], Any], count: int = 4) -> list[float]:
    """The times of steps by CUDA events, without the first."""
    times = []
    for _ in range(count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return times[1:]


def timed(makers: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """The sides that can be made, in alternating rounds; of the others, why not. Times of the slowest rank."""
    import torch
    import torch.distributed as ranked

    sides, failures, peaks = {}, {}, {}
    for name, make in makers.items():
        side = None
        try:
            side = make()
            peaks[name] = peak_bytes(torch, side)
            sides[name] = side
        except Exception as error:  # whatever another library raises is said in the report
            failures[name] = f"{type(error).__name__}: {error}"[:300]
            leave(side)
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            torch.cuda.synchronize()
            ranked.barrier()
            times[name] += milliseconds(torch, side.step)
    slowest = torch.tensor([statistics.median(times[name]) for name in sides], device="cuda")
    ranked.all_reduce(slowest, ranked.ReduceOp.MAX)
    for side in sides.values():
        leave(side)
    return {
        "milliseconds": dict(zip(sides, slowest.tolist(), strict=True)),
        "failed": failures,
        "bytes": {name: peaks[name] for name in sides},
    }


def leave(side: Any) -> None:
    """Let PyTorch's attention be as it was."""
    if isinstance(side, TorchSide):
        side.stack.close()


def peak_bytes(torch: Any, side: Any) -> int:
    """What a step takes at its peak, operands included: as it is planned, or as PyTorch counts what it allocates."""
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    side.step()
    torch.cuda.synchronize()
    if isinstance(side, BluSide):
        return side.bytes
    return torch.cuda.max_memory_allocated() - before + sum(item.nbytes for item in side.operands)


def part_of(tensor: Any, text: str, rank: int, ranks: int) -> Any:
    """What a rank has along dimension 2."""
    import torch

    if not text:
        return tensor
    parts = tensor.chunk(2 * ranks if text.endswith("~") else ranks, 2)
    return torch.cat([parts[rank], parts[-1 - rank]], 2) if text.endswith("~") else parts[rank].contiguous()


def errors(rank: int, ranks: int) -> dict[str, Any]:
    """Of each way to do it at T = 2048, how far the result and the three gradients are off, of all ranks."""
    import torch
    import torch.distributed as ranked

    seed = torch.randint(1 << 30, (1,), device="cuda")
    ranked.broadcast(seed, 0)
    generator = torch.Generator(device="cuda").manual_seed(int(seed))
    shape = (1, HEADS, CHECKED, SIZE)
    whole = [torch.randn(shape, generator=generator, device="cuda").bfloat16() for _ in range(4)]
    names = ("query", "key", "value", "g")
    wide = [item.double().requires_grad_() for item in whole[:3]]
    hidden = torch.ones(CHECKED, CHECKED, device="cuda", dtype=torch.bool).triu(1)
    scores = (wide[0] @ wide[1].mT * SIZE**-0.5).masked_fill(hidden, float("-inf"))
    result = scores.softmax(-1) @ wide[2]
    result.backward(whole[3].double())
    expected = {"result": result.detach(), **{name: item.grad for name, item in zip(names[:3], wide, strict=True)}}
    found = {}
    for side, (axis, _) in SIDES.items():
        given = {name: part_of(item, axis, rank, ranks) for name, item in zip(names, whole, strict=True)}
        program = BluSide(path_of("attention", side, CHECKED), given)
        results = dict(zip((item.name for item in program.program.outputs), program.step(), strict=True))
        again = dict(zip(results, program.step(), strict=True))
        found[side] = off = {}
        for name, value in results.items():
            own, once_more = torch.from_dlpack(value), torch.from_dlpack(again[name])
            wanted = part_of(expected[name], axis, rank, ranks)
            squares = torch.stack([(own.double() - wanted).square().sum(), wanted.square().sum()])
            ranked.all_reduce(squares)
            off[name] = float((squares[0] / squares[1]).sqrt())
            off["same twice"] = off.get("same twice", True) and torch.equal(own, once_more)
    return found


def measure_attention(rounds: int, rank: int, ranks: int) -> Iterator[dict[Any, Any]]:
    """One attention of each length; what is known after each."""
    report: dict[Any, Any] = {"errors": errors(rank, ranks)}
    yield report
    for length in LENGTHS:
        makers: dict[str, Callable[[], Any]] = {
            side: partial(BluSide, path_of("attention", side, length)) for side in SIDES
        }
        makers["torch, one rank"] = partial(TorchSide, length, None)
        count = max(2, min(rounds, rounds * LENGTHS[1] // length))
        report[length] = found = timed(makers, count)
        yield report
        for rotation in ("allgather", "alltoall"):  # which is one for a process
            name = f"torch, {rotation}"
            other = timed({name: partial(TorchSide, length, rotation)}, count)
            for kind in ("milliseconds", "failed", "bytes"):
                found[kind] |= other[kind]
            yield report


def measure_model(rounds: int) -> Iterator[dict[int, Any]]:
    """GPT-2 with one sequence of each length; what is known after each."""
    report = {}
    for length in MODEL_LENGTHS:
        sides = {side: partial(BluSide, path_of("model", side, length)) for side in SIDES_OF["model"]}
        report[length] = timed(sides, rounds)
        yield report


def measure_tensor(rounds: int) -> Iterator[dict[str, Any]]:
    """GPT-2 with its heads split."""
    yield timed({side: partial(BluSide, path_of("tensor", side, 1024)) for side in TENSOR_SIDES}, rounds)


def measure(arguments: argparse.Namespace, rank: int, ranks: int) -> Iterator[dict[str, Any]]:
    """All parts, or one; what is known after each figure."""
    parts: dict[str, Callable[[], Iterator[Any]]] = {
        "attention": partial(measure_attention, arguments.rounds, rank, ranks),
        "model": partial(measure_model, arguments.rounds),
        "tensor": partial(measure_tensor, arguments.rounds),
    }
    report: dict[str, Any] = {"ranks": ranks}
    for name in PARTS if arguments.part == "all" else [arguments.part]:
        for found in parts[name]():
            yield report | {name: found}
        report[name] = found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--part", default="all", choices=(*PARTS, "all"))
    parser.add_argument("--side", type=int, help="with --pack and --part: this one alone")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32, help="sequences of 1024 tokens, tensor parallel")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.pack:
        pack(arguments)
        return
    with joined_ranks() as world:
        for measured in measure(arguments, world.rank, world.size):
            publish(measured, world, arguments.save)


if __name__ == "__main__":
    main()
