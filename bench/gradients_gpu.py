"""The gradients of GPT-2 124M on a GPU against PyTorch's in float64, and PyTorch's own errors in the same precision.

    python bench/gradients_gpu.py --pack [--target sm_90a]     # compile here (no GPU needed), into .gpu/gradients
    python bench/gradients_gpu.py [--save NAME]                # on the GPU machine, with transformers

Random weights and tokens, 4 sequences of 1024, with as many tokens to choose from as in measured steps (train_gpu.py).
An error is the L2 norm of the difference from float64, relative to the norm of that gradient. The exit code is 1 where
a gradient is farther off than its precision allows, or than 1.2 times PyTorch's, or where two runs differ in a bit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import checkout

from bench.gpu.report import command_line, describe

BATCH, TOKENS, VOCABULARY = 4, 1024, 50304
BOUNDS = {"f32": 1e-5, "tf32": 2e-3, "bf16": 2e-2}
"""The largest errors that gradients may have, by precision."""
LARGEST_RATIO = 1.2
FOLDER = Path(checkout.ROOT, ".gpu", "gradients")


def pack(policy: str, target: str) -> None:
    """Compile the loss and its gradients for a GPU."""
    import blu
    from blu import nn

    def gradients(model: Any, tokens: Any, targets: Any) -> tuple:
        with blu.autocast(policy):
            return blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)

    tokens = blu.spec((BATCH, TOKENS), "i32")
    FOLDER.mkdir(parents=True, exist_ok=True)
    traced = blu.jit(gradients).trace(nn.GPT2({"vocab_size": VOCABULARY}), tokens, tokens)
    traced.compile(target).save(FOLDER / f"{policy}.blu")


class BluSide:
    """A packed program and its arguments in the GPU's memory; gradients go by PyTorch's names."""

    def __init__(self, policy: str):
        from blu.runtime.cuda import CudaProgram

        self.program = CudaProgram.load(FOLDER / f"{policy}.blu")

    def draw(self, torch: Any) -> dict[str, Any]:
        """Random arguments by name, the same for every policy."""
        generator = torch.Generator(device="cuda").manual_seed(0)
        return {spec.name: _draw(torch, spec, generator) for spec in self.program.inputs}

    def gradients(self, torch: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """By the names of parameters."""
        values = self.program.run([arguments[spec.name] for spec in self.program.inputs])
        names = [name for name in arguments if name.startswith("model.")]
        pairs = zip(names, values[1:], strict=True)
        return {_theirs(name): torch.as_tensor(value, device="cuda").clone() for name, value in pairs}


def _draw(torch: Any, spec: Any, generator: Any) -> Any:
    if not spec.name.startswith("model."):
        return torch.randint(0, VOCABULARY, spec.shape, generator=generator, device="cuda", dtype=torch.int32)
    is_gain = "ln_" in spec.name and spec.name.endswith("weight")
    numbers = torch.randn(spec.shape, generator=generator, device="cuda")
    return 1 + 0.1 * numbers if is_gain else 0.02 * numbers


def _theirs(name: str) -> str:
    return "transformer." + name.removeprefix("model.")


def torch_gradients(torch: Any, arguments: Mapping[str, Any], policy: str) -> dict[str, Any]:
    """PyTorch's gradients in a precision, or in float64."""
    from transformers import GPT2Config, GPT2LMHeadModel

    dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, **dropout, attn_implementation="sdpa")).cuda()
    weights = {_theirs(name): value for name, value in arguments.items() if name.startswith("model.")}
    model.load_state_dict(weights, strict=False)  # the head is tied
    model.to(torch.float64 if policy == "f64" else torch.float32)
    torch.backends.cuda.matmul.allow_tf32 = policy == "tf32"
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=policy == "bf16"):
        logits = model(arguments["tokens"].long()).logits
    wide = logits if policy == "f64" else logits.float()
    torch.nn.functional.cross_entropy(wide.flatten(0, 1), arguments["targets"].long().flatten()).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def errors(found: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, float]:
    """Relative L2 errors by name."""
    return {name: float((found[name].double() - item).norm() / item.norm()) for name, item in expected.items()}


def check(policy: str) -> dict[str, Any]:
    """What is reported of a policy."""
    import torch

    side = BluSide(policy)
    arguments = side.draw(torch)
    ours, again = (side.gradients(torch, arguments) for _ in range(2))
    expected = torch_gradients(torch, arguments, "f64")
    own = errors(ours, expected)
    theirs = errors(torch_gradients(torch, arguments, policy), expected)
    worst = max(own, key=lambda name: own[name])
    ratio = max(own[name] / theirs[name] for name in own)
    same = all(torch.equal(ours[name], again[name]) for name in ours)
    return {
        "gradients": len(own),
        "largest error": own[worst],
        "of": worst,
        "bound": BOUNDS[policy],
        "torch, largest error": max(theirs.values()),
        "largest ratio to torch's": ratio,
        "two runs are the same bits": same,
        "launches": len(side.program.plan.launches),
        "holds": own[worst] <= BOUNDS[policy] and ratio <= LARGEST_RATIO and same,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--policy", nargs="*", default=list(BOUNDS), choices=list(BOUNDS))
    parser.add_argument("--save", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.pack:
        for policy in arguments.policy:
            pack(policy, arguments.target)
        return 0
    import torch

    shape = {"batch": BATCH, "tokens": TOKENS}
    found = {policy: check(policy) for policy in arguments.policy}
    report = {"command": command_line(), **shape, **found, "machine": describe(torch)}
    print(json.dumps(report, indent=1))
    if arguments.save:
        Path(arguments.save).write_text(json.dumps(report, indent=1) + "\n")
    return int(not all(item["holds"] for item in found.values()))


if __name__ == "__main__":
    sys.exit(main())
