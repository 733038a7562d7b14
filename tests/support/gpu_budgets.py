"""What GPT-2 uses of a GPU: kernels, launches, bytes of the arena; registers, shared and local memory by family.

    python -m tests.support.gpu_budgets            # record what is less than the budgets in data/gpu_budgets.json
    python -m tests.support.gpu_budgets --raise    # record what is more, too: say why in the commit

Programs have two layers of the widths of GPT-2 124M, so that compiling them takes seconds. Where the file has a proof
that a program fits (`kernel_proofs.py`), it is not assembled again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import blu
from blu import nn
from blu.compiler.codegen.cubins import assemble, find_ptxas
from blu.compiler.codegen.executable import ptx_of
from blu.compiler.jit import Traced
from blu.dialects.core.mlir import ir
from blu.frontend import optim
from blu.frontend.nn import gpt2_steps
from tests.support.folders import DATA
from tests.support.kernel_proofs import proof_of

BUDGETS = DATA / "gpu_budgets.json"
TARGETS = ("sm_80", "sm_89", "sm_90a")
LAYERS = {"n_layer": 2}
COUNTS = ("kernels", "launches", "arena_bytes")
Budget = dict[str, Any]


def _forward() -> Traced:
    def forward(model: nn.GPT2, tokens: blu.Tensor) -> blu.Tensor:
        with blu.autocast("tf32"):
            return gpt2_steps.forward(model, tokens)

    return blu.jit(forward).trace(nn.GPT2(LAYERS), blu.spec((4, 1024), "i32"))


def _decode() -> Traced:
    model = nn.GPT2(LAYERS, "bf16")
    step = blu.jit(gpt2_steps.decode, donate=("cache",))
    return step.trace(model, blu.spec((1, 1), "i32"), model.cache_specs(1), blu.spec((), "i32"))


def training_step(config: dict[str, int], batch: int, length: int, policy: str = "bf16") -> Traced:
    """Loss, gradients, clipping and AdamW."""
    adamw = optim.AdamW(0.9, 0.95, weight_decay=0.1)

    def step(model: nn.GPT2, state: Any, tokens: blu.Tensor, targets: blu.Tensor, rate: blu.Tensor) -> tuple:
        with blu.autocast(policy):
            loss, gradients = blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)
        gradients, norm = optim.clip_by_global_norm(gradients, 1.0)
        return *adamw.update(model, gradients, state, rate), loss, norm

    model, tokens = nn.GPT2(config), blu.spec((batch, length), "i32")
    jitted = blu.jit(step, donate=("model", "state"))
    return jitted.trace(model, adamw.init(model), tokens, tokens, blu.spec((), "f32"))


PROGRAMS: dict[str, Callable[[], Traced]] = {
    "forward tf32": _forward,
    "decode bf16": _decode,
    "training step bf16": lambda: training_step({**LAYERS, "vocab_size": 50304}, 4, 1024),
    "training step tf32": lambda: training_step({**LAYERS, "vocab_size": 50304}, 4, 1024, "tf32"),
    "training step f32": lambda: training_step({**LAYERS, "vocab_size": 50304}, 4, 1024, "f32"),
}
OF_HOPPER = ("training step tf32", "training step f32")
"""What is measured on Hopper alone: those for other GPUs have few kernels of their own, and take as long to compile."""


def cases() -> list[tuple[str, str]]:
    """All programs with the targets that they have budgets for."""
    return [(name, target) for name in PROGRAMS for target in (TARGETS[-1:] if name in OF_HOPPER else TARGETS)]


@dataclass(frozen=True)
class Kernels:
    """A program's kernels: their PTX, and the plan of their launches."""

    target: str
    ptx: dict[str, str]
    plan: dict[str, Any]

    @classmethod
    def of(cls, traced: Traced, target: str) -> Kernels:
        """Compile a program."""
        return cls.made_of(traced.lower(target).module, target)

    @classmethod
    def made_of(cls, module: ir.Module, target: str) -> Kernels:
        """The kernels of a module at level "plan"."""
        return cls(target, ptx_of(module), _plan(module))

    def measure(self) -> Budget:
        """Assemble all kernels; what they take, the most of each family."""
        families: dict[str, dict[str, int]] = {}
        shared = {launch["kernel"]: launch["shared_bytes"] for launch in self.plan["launches"]}
        for name, cubin in assemble(self.ptx, self.target).items():
            local = max(cubin.spill_bytes, cubin.stack_bytes)
            used = {"registers": cubin.registers, "shared_bytes": shared[name], "local_bytes": local}
            family = families.setdefault(family_of(name), dict.fromkeys(used, 0))
            family |= {item: max(number, family[item]) for item, number in used.items()}
        numbers = len(self.ptx), len(self.plan["launches"]), self.plan["arena_bytes"]
        counts = dict(zip(COUNTS, numbers, strict=True))
        return {**counts, "families": dict(sorted(families.items()))}

    def plain_texts(self) -> list[str]:
        """The PTX of each kernel without its name and the user's lines."""
        texts = []
        for name, text in self.ptx.items():
            lines = [line for line in text.splitlines() if not re.match(r"\s*\.(loc|file)\b", line)]
            texts.append(re.sub(rf"\b{re.escape(name)}(?=_param|\b)", "kernel", "\n".join(lines)))
        return texts

    @property
    def are_different(self) -> bool:
        """No two kernels are equal: blu-share-kernels would have made one of them."""
        texts = self.plain_texts()
        return len(set(texts)) == len(texts)

    def digest(self) -> str:
        """A hash of all that is launched."""
        return hashlib.sha256(json.dumps([self.ptx, self.plan]).encode()).hexdigest()


def _plan(module: ir.Module) -> dict[str, Any]:
    return json.loads(ir.StringAttr(module.operation.attributes["blu.plan"]).value)


def proof_of_budget(module: ir.Module, target: str, allowed: Budget) -> str:
    """A proof that the kernels of a module at level "plan" are different, and fit a budget."""
    plan = _plan(module)
    launches = [[launch["kernel"], launch["shared_bytes"]] for launch in plan["launches"]]
    return proof_of(module, target, [allowed, launches, plan["arena_bytes"], ptxas_release()])


def family_of(kernel: str) -> str:
    """A kernel's name without its number, and whether it runs for one call or many: gemm_12_sum is one of gemm_sum."""
    return re.sub(r"_\d+", "", kernel).removesuffix("_batch")


def excesses(found: Budget, allowed: Budget, same_ptxas: bool) -> list[str]:
    """Where a program takes more than its budget. Registers are compared if the same release of ptxas chose them."""
    lines = [f"{item}: {found[item]} > {allowed[item]}" for item in COUNTS if found[item] > allowed[item]]
    for family, used in found["families"].items():
        budget = allowed["families"].get(family, {})
        for item, number in used.items():
            if number > budget.get(item, 0) and (same_ptxas or item != "registers"):
                lines.append(f"{item} of {family}: {number} > {budget.get(item, 'none')}")
    return lines


def ptxas_release() -> str:
    """Such as 13.0: other releases give registers out otherwise."""
    said = subprocess.run([find_ptxas() or "ptxas", "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"release ([\d.]+)", said)
    return found[1] if found else said


def _lowered(found: Budget, allowed: Budget) -> Budget:
    """A budget that fits, and is nowhere higher than before. Families that are gone have none."""
    families = {
        name: {
            item: min(number, allowed["families"].get(name, used).get(item, number)) for item, number in used.items()
        }
        for name, used in found["families"].items()
    }
    counts = {item: min(found[item], allowed[item]) for item in COUNTS}
    return {**counts, "families": families}


def main() -> int:
    """Measure all programs, print where they take more, and record budgets; 1 where one stays too small."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raise", action="store_true", dest="may_raise", help="record higher budgets, too")
    may_raise = parser.parse_args().may_raise
    recorded = json.loads(BUDGETS.read_text()) if BUDGETS.exists() else {"programs": {}}
    fits, programs, proofs = True, {}, {}
    for program, target in cases():
        module = PROGRAMS[program]().lower(target).module
        kernels = Kernels.made_of(module, target)
        found = kernels.measure()
        allowed = recorded["programs"].get(program, {}).get(target, {**dict.fromkeys(COUNTS, 0), "families": {}})
        more = excesses(found, allowed, recorded.get("ptxas") == ptxas_release())
        print(f"{program}, {target}: {'; '.join(more) or 'fits'}")
        fits = fits and (may_raise or not more)
        budget = found if may_raise else _lowered(found, allowed)
        programs.setdefault(program, {})[target] = budget
        if kernels.are_different and not excesses(found, budget, same_ptxas=True):
            proofs[f"{program} | {target}"] = proof_of_budget(module, target, budget)
    written = {"ptxas": ptxas_release(), "programs": programs, "proofs": proofs}
    BUDGETS.write_text(json.dumps(written, indent=1) + "\n")
    return int(not fits)


if __name__ == "__main__":
    sys.exit(main())
