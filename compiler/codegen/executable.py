"""From a module at level "plan" to an executable: machine code, the plan, constants, and the IR it came from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from blu.compiler.codegen.ahead import described
from blu.compiler.codegen.kernel_code import Counts, objects_of, ptx_and_cubins, ptx_of_kernels
from blu.compiler.codegen.kernel_texts import KernelText, code_text
from blu.compiler.codegen.worker_pool import worker_pool
from blu.compiler.driver.reproducer import attach_reproducer, versions
from blu.compiler.fingerprint import version_of
from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import attribute_names
from blu.dialects.targets.cpu import CpuTarget
from blu.dialects.targets.nvidia import GpuTarget, target_of
from blu.errors import ParseError, PassError
from blu.passes.framework.launches import code_of
from blu.passes.host.export_plan import CONSTANTS, CONTRACTS, PLAN
from blu.plan.contract import MEMBER
from blu.plan.schema import Plan

Members = dict[str, bytes]


def build_executable(
    module: ir.Module,
    source: str,
    tell: Callable[[str], None] = lambda text: None,
    written: Mapping[str, KernelText] | None = None,
) -> Members:
    """The members of the `.blu` file of a module at level "plan". `source` is the `blu` IR, kept for reading.

    `tell` is told how many kernels were compiled. `written` are texts of a processor's kernels that are there.
    """
    target = target_of(module)
    try:
        is_gpu = isinstance(target, GpuTarget)
        code, counts = _gpu_code(module, target) if is_gpu else _cpu_code(module, target, written or {})
    except PassError as error:
        raise _explained(error, module) from None
    tell(str(counts))
    return {
        "plan.json": _attribute(module, PLAN).encode(),
        "constants.bin": bytes.fromhex(_attribute(module, CONSTANTS)),
        MEMBER: _contracts(module),
        **code,
        "ir.mlir": source.encode(),
    }


def _cpu_code(module: ir.Module, target: CpuTarget, written: Mapping[str, KernelText]) -> tuple[Members, Counts]:
    kernels, pool, counts = objects_of(module, target, written)
    return {"kernels.o": kernels, "pool.o": pool}, counts


def _gpu_code(module: ir.Module, target: GpuTarget) -> tuple[Members, Counts]:
    """PTX for every kernel, and machine code where this machine has ptxas."""
    ptx, cubins = ptx_and_cubins(module, target)
    places = _places(module)
    members = {f"{name}.ptx": places.get(name, b"") + code for name, code in ptx.by_name().items()}
    return members | {f"{name}.{target.name}.cubin": code for name, code in cubins.items()}, ptx.counts


def _places(module: ir.Module) -> dict[str, bytes]:
    """For each kernel a comment with the user's line, which is no part of the code that programs share."""
    named = [item for item in code_of(module) if "sym_name" in item.attributes]
    lines = {ir.StringAttr(item.attributes["sym_name"]).value: describe(item.location) for item in named}
    return {name: f"// {name}: {line}\n".encode() for name, line in lines.items() if line}


def _contracts(module: ir.Module) -> bytes:
    """What each kernel's launches were compiled for. The pass that writes the plan has listed that launch by launch."""
    listed = json.loads(_attribute(module, CONTRACTS))
    contracts: dict[str, list[Any]] = {}
    _plan(module)  # is sound
    launches = [entry["kernel"] for entry in json.loads(_attribute(module, PLAN))["launches"]]
    if len(launches) != len(listed):
        raise ParseError(f"the module has {len(launches)} launches, and contracts of {len(listed)}")
    for kernel, contract in zip(launches, listed, strict=True):
        known = contracts.setdefault(kernel, [])
        if contract not in known:
            known.append(contract)
    return json.dumps(contracts).encode()


def ptx_of(module: ir.Module, lines: bool = False) -> dict[str, str]:
    """The PTX of each kernel of a module for a GPU, at level "plan", with or without the user's lines."""
    if lines:
        return json.loads(_asked("ptx", module))
    code = ptx_of_kernels(module, GpuTarget.of(module))
    return {name: text.decode() for name, text in code.by_name().items()}


def object_of(module: ir.Module) -> bytes:
    """One object of the kernels for a CPU, with the user's lines, for others to link."""
    return _asked("kernels", module)


def assembly_of(module: ir.Module) -> str:
    """The kernels' assembly."""
    return _text_of("assembly", module)


def llvm_ir_of(module: ir.Module) -> str:
    """The kernels' LLVM IR, with the user's lines."""
    return _text_of("llvm_ir", module)


def _text_of(kind: str, module: ir.Module) -> str:
    if isinstance(target_of(module), GpuTarget) and kind == "assembly":
        return "\n".join(ptx_of(module, lines=True).values())
    return _asked(kind, module).decode()


def _asked(kind: str, module: ir.Module) -> bytes:
    """What a worker makes of all kernels, with the user's lines."""
    try:
        return worker_pool().ask(kind, described(target_of(module)), code_text(module))
    except PassError as error:
        raise _explained(error, module) from None


def _explained(error: PassError, module: ir.Module) -> PassError:
    """The error of a code generator that failed, with the user's line of its kernel and a reproducer."""
    for operation in code_of(module):
        name = operation.attributes.get("sym_name")
        if error.operation and name is not None and ir.StringAttr(name).value == error.operation:
            error.location = describe(operation.location)
    header = f"// Blu reproducer: blu-compile THIS_FILE --emit=object\n// versions: {versions()}\n"
    text = module.operation.get_asm(enable_debug_info=True)
    return attach_reproducer(error, header + text, error.pass_name, None, "blu-compile --emit=object")


def combined(parts: Mapping[str, Members], details: Mapping[str, Any]) -> tuple[Members, dict[str, Any]]:
    """One executable for several GPUs, of which the one that loads it takes its own part; and what its manifest says.

    `details` is what the first target's says. All parts come from the same IR.
    """
    first, *_ = parts.values()
    members = {"ir.mlir": first["ir.mlir"]}
    for target, part in parts.items():
        members |= {f"{target}/{name}": data for name, data in part.items() if name != "ir.mlir"}
    target = {**details["target"], "name": ",".join(parts)}
    return members, {**details, "target": target, "targets": list(parts)}


def details_of(module: ir.Module) -> dict[str, Any]:
    """What the manifest of an executable says beside its members: versions, target, entry."""
    target = target_of(module)
    versions = {name: version_of(name) for name in ("blu", "torch-mlir", "llvmlite")}
    return {
        "target": {"name": target.name, "triple": target.triple},
        "versions": versions,
        "entry": _plan(module).entry,
    }


def _plan(module: ir.Module) -> Plan:
    return Plan.parse(_attribute(module, PLAN).encode())


def _attribute(module: ir.Module, name: str) -> str:
    if name not in attribute_names(module):
        raise ParseError(
            f"the module has no {name}: it is not what the passes up to level 'llvm' give",
            advice="Compile from an earlier level (--compile-from).",
        )
    return ir.StringAttr(module.operation.attributes[name]).value
