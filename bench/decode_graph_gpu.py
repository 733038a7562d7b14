"""A decoded token of GPT-2 124M on a GPU against a PyTorch step in a CUDA graph, at several batches, in one process.

    python bench/decode_graph_gpu.py [--batches 1,8,32] [--dtype bf16] [--tokens 200] [--rounds 5] [--save FILE]

Both sides have the same random weights and a cache of 1024 positions, of which `--start` hold random numbers, and
compute the likeliest token of each sequence from the one before, on the GPU alone: a token and its position never
visit the host. PyTorch's step is one graph of its eager kernels with a static cache and a mask. Times are CUDA events
over all tokens, medians of alternating rounds; the error is the norm of the difference to PyTorch's first logits,
relative to their norm. The bound streams the weights and the filled cache once a token, at `--bandwidth` GB/s.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import checkout  # noqa: F401

from bench.gpu.report import command_line, describe, microseconds_of_kernels

WIDTH, HEADS, LAYERS, VOCABULARY, POSITIONS = 768, 12, 12, 50257, 1024
TABLES = ("wte.weight", "wpe.weight")


class BluSide:
    """One program a token, whose token, position and cache are written in place."""

    def __init__(self, arguments: argparse.Namespace, batch: int, torch: Any):
        import blu
        from blu import nn
        from blu.frontend.functional import functional as ops
        from blu.frontend.nn.gpt2_steps import decode

        def step(model: Any, tokens: Any, cache: Any, position: Any) -> tuple:
            logits, found, cache = decode(model, tokens, cache, position)
            return ops.reshape(found, (batch, 1)), cache, position + 1, logits

        model = nn.GPT2({"vocab_size": VOCABULARY}, dtype=arguments.dtype)
        traced = blu.jit(step, donate=("tokens", "cache", "position")).trace(
            model, blu.spec((batch, 1), "i32"), model.cache_specs(batch), blu.spec((), "i32")
        )
        self.program = traced.compile(arguments.target).program
        self.torch, self.start, self.dtype = torch, arguments.start, dtype_of(torch, arguments.dtype)
        generator = torch.Generator(device="cuda").manual_seed(0)
        self.given = {spec.name: self._argument(spec, generator) for spec in self.program.inputs}
        self.inputs = self.program.keep([*self.given.values()])
        self.step()
        self.reset()

    def _argument(self, spec: Any, generator: Any) -> Any:
        torch = self.torch
        if spec.name in ("tokens", "position"):
            return torch.zeros(spec.shape, device="cuda", dtype=torch.int32)
        if spec.name.startswith("cache"):
            return torch.randn(spec.shape, generator=generator, device="cuda").to(self.dtype)
        if len(spec.shape) >= 2:
            return (0.02 * torch.randn(spec.shape, generator=generator, device="cuda")).to(self.dtype)
        ones = "ln_" in spec.name and spec.name.endswith("weight")
        return torch.full(spec.shape, float(ones), device="cuda", dtype=self.dtype)

    def reset(self) -> None:
        """Back to the first token."""
        self.given["tokens"].fill_(7)
        self.given["position"].fill_(self.start)

    def step(self) -> Any:
        """Logits [B, V] of the next token, which is the token of the next step."""
        return self.program.run(self.inputs, overwrite=True)[-1]


class TorchSide:
    """The same in PyTorch: a step with a static cache, captured into a graph."""

    def __init__(self, arguments: argparse.Namespace, batch: int, torch: Any, ours: BluSide):
        self.torch, self.start, self.batch = torch, arguments.start, batch
        weights = {name[6:]: value for name, value in ours.given.items() if name.startswith("model.")}
        # Products of PyTorch read weights by output, [out, in], as tables of embeddings are already.
        self.weights = {
            name: value.t().contiguous() if value.ndim == 2 and name not in TABLES else value.clone()
            for name, value in weights.items()
        }
        filled = {name: value for name, value in ours.given.items() if name.startswith("cache")}
        self.cache = {name: value.clone() for name, value in filled.items()}
        self.tokens = torch.zeros((batch,), device="cuda", dtype=torch.int64)
        self.position = torch.zeros((1,), device="cuda", dtype=torch.int64)
        self.places = torch.arange(POSITIONS, device="cuda")
        self._capture()
        for name, value in filled.items():  # trying the step out wrote into it
            self.cache[name].copy_(value)
        self.reset()

    def _capture(self) -> None:
        torch = self.torch
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.no_grad(), torch.cuda.stream(stream):
            for _ in range(3):
                self._compute()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.logits = self._compute()

    def _compute(self) -> Any:
        torch, weights = self.torch, self.weights
        functional = torch.nn.functional

        def linear(x: Any, name: str) -> Any:
            return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

        def norm(x: Any, name: str) -> Any:
            return functional.layer_norm(x, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"])

        x = weights["wte.weight"][self.tokens] + weights["wpe.weight"][self.position]
        mask = (self.places <= self.position)[None, None, None, :]
        for layer in range(LAYERS):
            block = f"h.{layer}"
            heads = linear(norm(x, f"{block}.ln_1"), f"{block}.attn.c_attn").view(self.batch, 3, HEADS, 1, -1)
            query, key, value = heads.unbind(1)
            keys, values = (self.cache[f"cache.{layer}.{kind}"] for kind in ("key", "value"))
            keys.index_copy_(2, self.position, key)
            values.index_copy_(2, self.position, value)
            seen = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
            x = x + linear(seen.reshape(self.batch, WIDTH), f"{block}.attn.c_proj")
            inner = functional.gelu(linear(norm(x, f"{block}.ln_2"), f"{block}.mlp.c_fc"), approximate="tanh")
            x = x + linear(inner, f"{block}.mlp.c_proj")
        logits = functional.linear(norm(x, "ln_f"), weights["wte.weight"])
        self.tokens.copy_(logits.argmax(-1))
        self.position.add_(1)
        return logits

    def reset(self) -> None:
        """Back to the first token."""
        self.tokens.fill_(7)
        self.position.fill_(self.start)

    def step(self) -> Any:
        """As the other side's."""
        self.graph.replay()
        return self.logits


def dtype_of(torch: Any, name: str) -> Any:
    """PyTorch's dtype of a name."""
    return {"bf16": torch.bfloat16, "f32": torch.float32}[name]


def seconds(side: Any, tokens: int) -> float:
    """What this many tokens take."""
    torch = side.torch
    side.reset()
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(tokens):
        side.step()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3


def error(torch: Any, found: Any, expected: Any) -> float:
    """The norm of the difference, relative to that of what is expected."""
    found = torch.from_dlpack(found).double() if not isinstance(found, torch.Tensor) else found.double()
    return float((found - expected.double()).norm() / expected.double().norm())


def measure(arguments: argparse.Namespace, batch: int) -> dict[str, Any]:
    """Both sides at one batch."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    ours = BluSide(arguments, batch, torch)
    sides = {"blu": ours, "torch": TorchSide(arguments, batch, torch, ours)}
    first = {name: side.step() for name, side in sides.items()}
    torch.cuda.synchronize()
    difference = error(torch, first["blu"], first["torch"])
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(arguments.rounds + 1):
        for name, side in sides.items():
            time = seconds(side, arguments.tokens)
            if number:
                times[name].append(time)
    assert int(ours.given["position"]) == arguments.start + arguments.tokens, "a step does not write in place"
    speeds = {name: batch * arguments.tokens / statistics.median(found) for name, found in times.items()}
    kept = sum(value.nbytes for name, value in ours.given.items() if name.startswith("model."))
    filled = sum(value.nbytes for name, value in ours.given.items() if name.startswith("cache"))
    ours.reset()
    moved = kept + filled * (arguments.start + arguments.tokens / 2) / POSITIONS
    bound = batch * arguments.bandwidth * 1e9 / moved
    return {
        "batch": batch,
        "tokens per second": speeds,
        "ratio": speeds["blu"] / speeds["torch"],
        "share of the bound": speeds["blu"] / bound,
        "error against torch": difference,
        "launches": len(ours.program.plan.launches),
        "microseconds of kernels": microseconds_of_kernels(ours.program, ours.inputs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "f32"))
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--start", type=int, default=512, help="how many positions of the cache are filled")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bandwidth", type=float, default=4300.0, help="GB/s that a copy reaches")
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--save", metavar="FILE")
    arguments = parser.parse_args()
    import torch

    found = [measure(arguments, int(batch)) for batch in arguments.batches.split(",")]
    report = {
        "command": command_line(),
        "dtype": arguments.dtype,
        "positions": [arguments.start, arguments.start + arguments.tokens],
        "batches": found,
        "machine": describe(torch),
    }
    print(json.dumps(report, indent=1))
    if arguments.save:
        Path(arguments.save).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
