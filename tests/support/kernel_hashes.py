"""Hashes of the code of kernels, so that a change which should not change any can be seen not to.

    python -m pytest tests/test_kernel_hashes.py --update-kernels    # record them in data/kernel_hashes.json

What is hashed is the PTX or the assembly of each kernel, without its name and without the user's lines.

Where data/kernel_proofs.json has a proof that a program's code has the recorded hashes (`kernel_proofs.py`), code is
not made again; else it is made and compared.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

import blu
from blu.compiler.codegen.executable import assembly_of, ptx_of
from blu.compiler.generation.gpt2_programs import Gpt2Request
from blu.compiler.jit import Traced
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import OPS
from blu.dialects.targets.nvidia import TARGETS as DESCRIPTIONS
from blu.dialects.targets.nvidia import GpuTarget
from blu.frontend.io.gpt2 import complete_config
from tests.support.folders import DATA
from tests.support.gpu_budgets import training_step
from tests.support.kernel_proofs import proof_of
from tests.support.kernels import attention_problems, product_cases
from tests.support.kernels.gpu_program import DTYPES
from tests.support.programs.op_programs import arrays_of, program_of

RECORDED = DATA / "kernel_hashes.json"
PROOFS = DATA / "kernel_proofs.json"
TARGETS = ("sm_80", "sm_89", "sm_90a", "x86-64-v3", "x86-64-v4")
# One GPU with tensor maps and one without, and one processor: enough where a program is one of many alike.
FEW_TARGETS = ("sm_80", "sm_90a", "x86-64-v3")
TARGETS_OF_OPS = ("sm_90a", "x86-64-v3")
SAMPLES_OF_AN_OP = 6
SMALL = {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 64, "vocab_size": 257, "n_positions": 64}
_DIGITS = 12

Hashes = dict[str, str]


def _traced(function: Callable, arrays: list[np.ndarray]) -> Traced:
    names = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
    specs = [blu.spec(array.shape, names.get(array.dtype, array.dtype.name)) for array in arrays]
    return blu.jit(lambda *items: function(*items)).trace(*specs)


def _gpt2(entry: str, **sizes: Any) -> Traced:
    return Gpt2Request.of(entry, complete_config(SMALL), "x86-64-v3", **sizes).trace()


def _attention(dtype: str, depth: int, gradient: bool, **masked: Any) -> Traced:
    problem = attention_problems.Problem("", dtype, (2, 4, 160, depth), (2, 2, 200, depth), depth, **masked)
    return _traced(problem.backward() if gradient else problem.forward(), problem.arrays())


def _attention_step(dtype: str) -> Traced:
    problem = attention_problems.Problem("", dtype, (2, 4, 1, 64), (2, 2, 200, 64), 64, causal=True, offset=150)
    return _traced(problem.forward(), problem.arrays())


def _product(case: product_cases.Case) -> Traced:
    return _traced(case.compute, case.arrays())


_PRODUCTS = [
    *product_cases.table(("bf16", "tf32", "f32"), [(256, 384, 512)], epilogue=("none", "bias", "tanh", "two")),
    *product_cases.table(("f16", "f64", "i8"), [(65, 129, 33)], ("nn", "tn")),
    *product_cases.table(("bf16", "f32"), [(1, 300, 200), (200, 1, 300)], ("nn", "nt"), batch=((), (2,))),
    product_cases.Case("bf16", "tn", (768, 768, 8192)),
    product_cases.Case("tf32", "nn", (4096, 768, 3072), (), "bias"),
]
_ATTENTIONS = {
    "causal": {"causal": True},
    "gradient causal": {"causal": True},
    "gradient masked": {"mask": (160, 200)},
}


def _attentions(dtype: str, depth: int) -> dict[str, Callable[[], Traced]]:
    return {
        f"attention {dtype} {depth} {kind}": partial(_attention, dtype, depth, "gradient" in kind, **fields)
        for kind, fields in _ATTENTIONS.items()
    }


EVERYWHERE: dict[str, Callable[[], Traced]] = {
    "gpt2 forward f32": lambda: _gpt2("forward", batch=2, length=48),
    "gpt2 decode bf16": lambda: _gpt2("decode", batch=2, dtype="bf16"),
    "gpt2 training step bf16": lambda: training_step(SMALL, 2, 64),
}
SOMEWHERE: dict[str, Callable[[], Traced]] = {
    "gpt2 forward bf16": lambda: _gpt2("forward", batch=2, length=48, dtype="bf16"),
    "gpt2 prefill f32": lambda: _gpt2("prefill", batch=1, length=48),
    "gpt2 decode f32": lambda: _gpt2("decode", batch=2),
    "gpt2 training step tf32": lambda: training_step(SMALL, 2, 64, "tf32"),
    **{f"attention step {dtype}": partial(_attention_step, dtype) for dtype in ("f32", "bf16")},
    **_attentions("f32", 64),
    **_attentions("bf16", 64),
    **_attentions("f64", 24),
    "attention f16 128 gradient causal": partial(_attention, "f16", 128, True, causal=True),
    **{f"product {case}": partial(_product, case) for case in _PRODUCTS},
}


def _op_program(name: str) -> Traced:
    samples = list(OPS[name].samples())
    chosen = [samples[index] for index in np.unique(np.linspace(0, len(samples) - 1, SAMPLES_OF_AN_OP).astype(int))]
    return _traced(lambda *tensors: program_of(OPS[name], chosen)(list(tensors)), arrays_of(chosen))


make_context()  # declares the ops
OP_PROGRAMS: dict[str, Callable[[], Traced]] = {f"op {name}": partial(_op_program, name) for name in sorted(OPS)}
PROGRAMS = {**EVERYWHERE, **SOMEWHERE, **OP_PROGRAMS}
CASES = [
    *product(EVERYWHERE, TARGETS),
    *product(SOMEWHERE, FEW_TARGETS),
    *product(OP_PROGRAMS, TARGETS_OF_OPS),
]
"""Pairs of a program and a target."""


@lru_cache(maxsize=1)
def traced_program(name: str) -> Traced:
    """A program, traced once for its targets, which come after each other."""
    return PROGRAMS[name]()


def hashes_of(module: ir.Module, target: str) -> Hashes:
    """The hash of the code of each kernel of a module at level "plan", by the kernel's name."""
    if isinstance(DESCRIPTIONS[target], GpuTarget):
        texts = {name: _without_lines(text) for name, text in ptx_of(module, lines=True).items()}
    else:
        texts = _kernels_in(assembly_of(module))
    return {name: _digest(name, text) for name, text in texts.items()}


def _digest(name: str, text: str) -> str:
    plain = re.sub(rf"\b{re.escape(name)}(?=_param|\b)", "kernel", text)
    return hashlib.sha256(plain.encode()).hexdigest()[:_DIGITS]


def _without_lines(ptx: str) -> str:
    return "\n".join(line for line in ptx.splitlines() if not re.match(r"\s*\.(loc|file)\b", line))


def _kernels_in(assembly: str) -> dict[str, str]:
    """Each kernel's assembly. Every kernel is a module of its own, which begins by naming its file."""
    modules = re.split(r'(?m)^\t\.file\t"', assembly)[1:]
    return {_first_symbol(text): _without_debugging(text.partition("\n")[2]) for text in modules}


_OF_DEBUGGING = re.compile(r"\s*\.(loc|file)\b|\.Ltmp\d+:|\.Lfunc_\w+:")


def _first_symbol(assembly: str) -> str:
    found = re.search(r"(?m)^\t\.globl\t(\S+)", assembly)
    assert found is not None
    return found[1]


def _without_debugging(assembly: str) -> str:
    code = re.split(r"(?m)^\t\.section\t\.debug_", assembly)[0]
    lines = (re.sub(r"\s*#.*", "", line) for line in code.splitlines())
    return "\n".join(
        line for line in lines if line and not re.match(r"\s*\.(loc|file)\b|\.Ltmp\d+:|\.Lfunc_\w+:", line)
    )


def toolchain() -> str:
    """The releases that turn kernels into code: others may give other code."""
    return ", ".join(f"{name} {metadata.version(name)}" for name in ("torch-mlir", "llvmlite"))


@dataclass(frozen=True)
class Record:
    """What files have recorded: kernels by "program | target", by which releases they were compiled, and the proofs."""

    toolchain: str
    programs: dict[str, Hashes]
    proofs: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path = RECORDED, proofs: Path = PROOFS) -> Record:
        """The record in files; an empty one where there are none."""
        known = json.loads(proofs.read_text()) if proofs.exists() else {}
        if not path.exists():
            return cls(toolchain(), {}, known)
        return cls(**json.loads(path.read_text()), proofs=known)

    def changes(self, program: str, target: str, found: Hashes) -> list[str]:
        """A line for each kernel that changed, came or went."""
        known = self.programs.get(_key(program, target), {})
        return [
            *(f"{name} changed" for name in known if name in found and known[name] != found[name]),
            *(f"{name} is new" for name in found if name not in known),
            *(f"{name} is gone" for name in known if name not in found),
        ]

    def proves(self, program: str, target: str, module: ir.Module) -> bool:
        """Whether a module at level "plan" has the code that is recorded for it, for all that is known without it."""
        key = _key(program, target)
        return key in self.programs and self.proofs.get(key) == proof_of(module, target, self.programs[key])


def record(program: str, target: str, found: Hashes, proof: str, path: Path = RECORDED, proofs: Path = PROOFS) -> None:
    """Write what a program is compiled to now into the files: a line for each program and target."""
    key = _key(program, target)
    with FileLock(Path(tempfile.gettempdir()) / f"blu-{path.name}.lock"):
        known = Record.read(path, proofs)
        lines = _lines(known.programs | {key: found})
        path.write_text(f'{{\n "toolchain": {json.dumps(toolchain())},\n "programs": {{\n{lines}\n }}\n}}\n')
        proofs.write_text(f"{{\n{_lines(known.proofs | {key: proof})}\n}}\n")


def _lines(items: Mapping[str, Any]) -> str:
    return ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(items.items()))


def _key(program: str, target: str) -> str:
    return f"{program} | {target}"
