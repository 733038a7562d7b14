"""GPT-2 on the CPU against PyTorch (transformers, eager) with the same threads, in one process, in alternating rounds.

    python bench/gpt2_cpu.py                        # speed: prefill of 128 tokens, greedy decode with a KV cache
    python bench/gpt2_cpu.py --memory               # peak memory, a child process for each system
    python bench/gpt2_cpu.py --save NAME            # also write bench/results/NAME.json

Random weights of GPT-2 124M, random tokens. Times are medians over rounds; a ratio above 1 means that Blu is faster (or
takes less memory).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PROMPT_TOKENS = 128
DECODE_TOKENS = 64
VOCABULARY = 50257


def prompt_tokens() -> list[int]:
    return np.random.default_rng(0).integers(0, VOCABULARY, PROMPT_TOKENS).tolist()


class TorchSide:
    """transformers' GPT-2 in eager PyTorch."""

    def __init__(self, threads: int):
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel

        torch.set_num_threads(threads)
        torch.manual_seed(0)
        self.torch = torch
        self.model = GPT2LMHeadModel(GPT2Config()).eval()
        self.prompt = torch.tensor([prompt_tokens()])

    def state(self) -> dict[str, np.ndarray]:
        named = self.model.transformer.state_dict()
        return {name: tensor.numpy() for name, tensor in named.items()}

    def prefill(self) -> Any:
        """The likeliest next token and the cache."""
        with self.torch.inference_mode():
            result = self.model(self.prompt, use_cache=True, logits_to_keep=1)
        return result.logits[:, -1].argmax(-1, keepdim=True), result.past_key_values

    def decode(self, start: Any) -> list[int]:
        """Greedy tokens after `prefill`."""
        token, cache = start
        found = []
        with self.torch.inference_mode():
            for _ in range(DECODE_TOKENS):
                found.append(int(token))
                result = self.model(token, past_key_values=cache, use_cache=True)
                token = result.logits[:, -1].argmax(-1, keepdim=True)
        return found


class BluSide:
    """Blu's prefill and decode programs."""

    def __init__(self, threads: int, state: dict[str, np.ndarray] | None):
        from blu.compiler.cache import default_cache
        from blu.compiler.generation.generate import Gpt2Runner
        from blu.compiler.requests import compile_request
        from blu.compiler.target import resolve_target_name
        from blu.frontend.io.gpt2 import PRESETS, complete_config, random_state_dict
        from blu.runtime.host import set_threads
        from blu.runtime.program import Program

        set_threads(threads)
        config = complete_config({"model_type": "gpt2", **PRESETS["gpt2"]}, "gpt2")
        state = state or random_state_dict(config, 0)
        self.runner = Gpt2Runner(
            config,
            state,
            resolve_target_name("cpu"),
            lambda request: Program.load(compile_request(request, default_cache())),
        )
        self.runner.prepare(prompt_tokens())

    def loop(self) -> Any:
        from blu.compiler.generation.generate import _Loop
        from blu.compiler.generation.sampling import Sampler, Sampling

        return _Loop(self.runner, prompt_tokens(), Sampler(Sampling(greedy=True)), lambda token: None)

    def prefill(self) -> Any:
        loop = self.loop()
        loop.step()
        return loop

    def decode(self, loop: Any) -> list[int]:
        for _ in range(DECODE_TOKENS - 1):
            loop.step()
        return list(loop.tokens)


def seconds_of(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def measure_speed(threads: int, rounds: int) -> dict[str, Any]:
    peer = TorchSide(threads)
    blu = BluSide(threads, peer.state())
    times: dict[str, list[float]] = {}
    tokens: dict[str, list[int]] = {}
    for number in range(rounds + 1):
        for name, side in (("torch", peer), ("blu", blu)):
            time.sleep(0.05)  # PyTorch's threads spin for a while after a call
            prefill, start = seconds_of(side.prefill)
            decode, tokens[name] = seconds_of(lambda side=side, start=start: side.decode(start))
            if number:  # the first round warms up
                times.setdefault(f"{name} prefill", []).append(prefill)
                times.setdefault(f"{name} decode", []).append(decode / DECODE_TOKENS)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "seconds": medians,
        "prefill ratio": medians["torch prefill"] / medians["blu prefill"],
        "decode ratio": medians["torch decode"] / medians["blu decode"],
        "blu tokens per second": 1 / medians["blu decode"],
        "torch tokens per second": 1 / medians["torch decode"],
        "same tokens": tokens["blu"] == tokens["torch"],
    }


def run_alone(name: str, threads: int) -> None:
    """One system, once, for its memory: prints the peak in bytes."""
    side = TorchSide(threads) if name == "torch" else BluSide(threads, None)
    side.decode(side.prefill())
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def measure_memory(threads: int) -> dict[str, Any]:
    peaks = {}
    for name in ("torch", "blu"):
        command = [sys.executable, __file__, "--alone", name, "--threads", str(threads)]
        peaks[name] = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
    return {"peak bytes": peaks, "memory ratio": peaks["torch"] / peaks["blu"]}


def describe_machine() -> dict[str, Any]:
    import platform

    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    names = ("blu", "torch", "transformers", "torch-mlir", "llvmlite", "numpy")
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    return {
        "cpu": model.partition(":")[2].strip(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version for name in names if (version := _version(name))},
        "commit": commit,
    }


def _version(package: str) -> str:
    """Of a package, or "" where it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def report(result: dict[str, Any], name: str | None) -> None:
    """Print a result, and write it to bench/results if it has a name."""
    text = json.dumps(result, indent=1)
    print(text)
    if name:
        (Path(__file__).parent / "results" / f"{name}.json").write_text(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--alone", choices=("torch", "blu"), help=argparse.SUPPRESS)
    parser.add_argument("--save", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.alone:
        run_alone(arguments.alone, arguments.threads)
        return
    measure = measure_memory if arguments.memory else lambda threads: measure_speed(threads, arguments.rounds)
    result = {
        "command": " ".join(["python", *sys.argv]),
        "shape": {"model": "gpt2 124M", "prompt": PROMPT_TOKENS, "decode": DECODE_TOKENS, "dtype": "f32"},
        "threads": arguments.threads,
        "machine": describe_machine(),
        **measure(arguments.threads),
    }
    report(result, arguments.save)


if __name__ == "__main__":
    main()
