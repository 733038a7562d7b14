"""Greedy decoding of GPT-2 124M at batch 1 on a GPU against Hugging Face's eager `generate`, in one process.

    python bench/decode_gpu.py [--dtype bf16|f32] [--tokens 200] [--rounds 5] [--save FILE]

The same random weights and the same prompt of 16 random tokens on both sides; rounds alternate, speeds are tokens per
second of the wall clock from the second token on, by the fastest round of each side (medians are there too). For Blu
also what the host takes to start a token, and what the GPU works on one. Needs PyTorch, transformers, and Blu with its
compiler.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import checkout  # noqa: F401
import numpy as np

from bench.gpu.report import microseconds_of_kernels

PROMPT = 16


class BluSide:
    """Blu's own loop: prefill, then a program for each token."""

    def __init__(self, state: dict[str, np.ndarray], config: dict[str, Any], dtype: str):
        from blu.compiler.cache import default_cache
        from blu.compiler.generation.generate import Gpt2Runner
        from blu.compiler.requests import compile_request
        from blu.compiler.target import resolve_target_name
        from blu.plan.tensors import DTYPES
        from blu.runtime import load_program

        def load(request: Any) -> Any:
            return load_program(compile_request(replace(request, dtype=dtype), default_cache()))

        arrays = {name: array.astype(DTYPES[dtype]) for name, array in state.items()}
        start = time.perf_counter()
        self.runner = Gpt2Runner(config, arrays, resolve_target_name("cuda"), load)
        self.runner.prepare([0] * PROMPT)
        self.load_seconds = time.perf_counter() - start

    def generate(self, prompt: list[int], count: int) -> tuple[list[int], float]:
        from blu.compiler.generation.sampling import Sampling

        found = self.runner.generate(prompt, count, Sampling(greedy=True))
        return list(found.tokens), found.tokens_per_second

    def details(self) -> dict[str, Any]:
        """What one token takes: launches, the host, the GPU."""
        from blu.runtime.cuda import synchronize, to_device

        program = self.runner.program("decode", 1)
        state = dict(zip(self.runner.state, program.keep([*self.runner.state.values()]), strict=True))
        inputs = [
            state[spec.name[6:]]
            if spec.name.startswith("model.")
            else to_device(np.zeros(spec.shape, spec.numpy_dtype))
            if spec.name.startswith("cache.")
            else np.full(spec.shape, 100, spec.numpy_dtype)
            for spec in program.inputs
        ]
        host = []
        for _ in range(50):
            start = time.perf_counter()
            program.run(inputs, overwrite=True)
            host.append(time.perf_counter() - start)
            synchronize()
        kernels = microseconds_of_kernels(program, inputs)
        return {
            "launches": len(program.plan.launches),
            "host microseconds": 1e6 * statistics.median(host),
            "GPU microseconds": sum(kernels.values()),
            "microseconds of kernels": kernels,
            "compile and load seconds": self.load_seconds,
        }


class HuggingFaceSide:
    """transformers' GPT2LMHeadModel.generate, eager."""

    def __init__(self, state: dict[str, np.ndarray], config: dict[str, Any], dtype: str):
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel

        self.torch = torch
        model = GPT2LMHeadModel(
            GPT2Config(**{key: config[key] for key in ("vocab_size", "n_layer", "n_head", "n_embd")})
        )
        named = {f"transformer.{name}": torch.from_numpy(array) for name, array in state.items()}
        missing, unexpected = model.load_state_dict(named, strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
        model.tie_weights()
        self.model = model.cuda().to({"bf16": torch.bfloat16, "f32": torch.float32}[dtype]).eval()

    def generate(self, prompt: list[int], count: int) -> tuple[list[int], float]:
        """Tokens, and tokens per second after the first, whose time is that of a generation of one."""
        first = self._seconds(prompt, 1)[1]
        tokens, seconds = self._seconds(prompt, count)
        return tokens, (count - 1) / (seconds - first)

    def _seconds(self, prompt: list[int], count: int) -> tuple[list[int], float]:
        torch = self.torch
        tokens = torch.tensor([prompt], device="cuda")
        torch.cuda.synchronize()
        start = time.perf_counter()
        options = {"max_new_tokens": count, "min_new_tokens": count, "do_sample": False, "pad_token_id": 0}
        found = self.model.generate(tokens, attention_mask=torch.ones_like(tokens), eos_token_id=None, **options)
        torch.cuda.synchronize()
        return found[0, len(prompt) :].tolist(), time.perf_counter() - start


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Both sides in alternating rounds."""
    from blu.frontend.io.gpt2 import complete_config, random_state_dict

    config = complete_config({"model_type": "gpt2"})
    state = random_state_dict(config, 0)
    prompt = np.random.default_rng(0).integers(0, config["vocab_size"], PROMPT).tolist()
    sides: dict[str, Callable] = {
        "blu": (ours := BluSide(state, config, arguments.dtype)).generate,
        "huggingface": HuggingFaceSide(state, config, arguments.dtype).generate,
    }
    speeds, tokens = defaultdict(list), {}
    for number in range(arguments.rounds + 1):
        for name, generate in sides.items():
            tokens[name], speed = generate(prompt, arguments.tokens)
            if number:
                speeds[name].append(speed)
    differing = (place for place, pair in enumerate(zip(*tokens.values(), strict=True)) if len(set(pair)) > 1)
    best = {name: max(found) for name, found in speeds.items()}
    return {
        "dtype": arguments.dtype,
        "shape": {"batch": 1, "prompt": PROMPT, "tokens": arguments.tokens},
        "tokens per second": best,
        "median tokens per second": {name: statistics.median(found) for name, found in speeds.items()},
        "ratio": best["blu"] / best["huggingface"],
        "first tokens that are equal": next(differing, arguments.tokens),
        "one token": ours.details(),
    }


def describe() -> dict[str, str]:
    """The machine, versions and date."""
    import torch
    import transformers

    return {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "cuda": torch.version.cuda or "",
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "f32"))
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", metavar="FILE", help="add to the reports in FILE, by dtype")
    arguments = parser.parse_args()
    command = f"python bench/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}".strip()
    report = {"command": command, **measure(arguments), "machine": describe()}
    print(json.dumps(report, indent=1))
    if arguments.save:
        path = Path(arguments.save)
        reports = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**reports, arguments.dtype: report}, indent=1) + "\n")


if __name__ == "__main__":
    main()
