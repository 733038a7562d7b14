"""From a module at level "llvm" to an executable: machine code, the plan, constants, and the IR it came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from typing import Any

from blu.compiler.codegen.cubins import assemble, find_ptxas
from blu.compiler.codegen.worker_pool import worker_pool
from blu.compiler.driver.reproducer import attach_reproducer, versions
from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import attribute_names
from blu.dialects.targets.nvidia import GpuTarget, Target, target_of
from blu.errors import ParseError, PassError
from blu.runtime.contracts import MEMBER
from blu.runtime.pool import pool_text

Members = dict[str, bytes]


def build_executable(module: ir.Module, source: str) -> Members:
    """The members of the `.blu` file of a module at level "llvm". `source` is the `blu` IR, kept for reading."""
    target = target_of(module)
    text = module.operation.get_asm(enable_debug_info=True)
    if isinstance(target, GpuTarget):
        return _gpu_executable(module, target, text, source)
    return _cpu_executable(module, asdict(target), text, source)


def _cpu_executable(module: ir.Module, target: dict[str, Any], text: str, source: str) -> Members:
    requests = [("kernels", target, text), ("llvm", target, pool_text(target["triple"]))]
    try:
        kernels, pool = worker_pool().ask_all(requests)
    except PassError as error:
        raise _explained(error, module, text) from None
    return {
        "plan.json": _attribute(module, "blu.plan").encode(),
        "constants.bin": bytes.fromhex(_attribute(module, "blu.constants")),
        MEMBER: _contracts(module),
        "kernels.o": kernels,
        "pool.o": pool,
        "ir.mlir": source.encode(),
    }


def _gpu_executable(module: ir.Module, target: GpuTarget, text: str, source: str) -> Members:
    """PTX for every kernel, and machine code where this machine has ptxas."""
    try:
        ptx = json.loads(worker_pool().ask("ptx", _described(target), text))
        cubins = assemble(ptx, target.name) if find_ptxas() else {}
    except PassError as error:
        raise _explained(error, module, text) from None
    return {
        "plan.json": _attribute(module, "blu.plan").encode(),
        "constants.bin": bytes.fromhex(_attribute(module, "blu.constants")),
        MEMBER: _contracts(module),
        **{f"{name}.ptx": code.encode() for name, code in ptx.items()},
        **{f"{name}.{target.name}.cubin": cubin.code for name, cubin in cubins.items()},
        "ir.mlir": source.encode(),
    }


def _contracts(module: ir.Module) -> bytes:
    """What each kernel's launches were compiled for. The pass that writes the plan has listed that launch by launch."""
    listed = json.loads(_attribute(module, "blu.contracts"))
    contracts: dict[str, list[Any]] = {}
    launches = json.loads(_attribute(module, "blu.plan"))["launches"]
    if len(launches) != len(listed):
        raise ParseError(f"the module has {len(launches)} launches, and contracts of {len(listed)}")
    for launch, contract in zip(launches, listed, strict=True):
        known = contracts.setdefault(launch["kernel"], [])
        if contract not in known:
            known.append(contract)
    return json.dumps(contracts).encode()


def ptx_of(module: ir.Module) -> dict[str, str]:
    """The PTX of each kernel of a module for a GPU, at level "llvm"."""
    text = module.operation.get_asm(enable_debug_info=True)
    return json.loads(worker_pool().ask("ptx", _described(GpuTarget.of(module)), text))


def _described(target: Target) -> dict[str, Any]:
    """What a worker is told of a target."""
    return {**asdict(target), "triple": target.triple}


def assembly_of(module: ir.Module) -> str:
    """The kernels' assembly."""
    return _text_of("assembly", module)


def llvm_ir_of(module: ir.Module) -> str:
    """The kernels' LLVM IR, with the user's lines."""
    return _text_of("llvm_ir", module)


def _text_of(kind: str, module: ir.Module) -> str:
    target = target_of(module)
    text = module.operation.get_asm(enable_debug_info=True)
    try:
        if isinstance(target, GpuTarget) and kind == "assembly":
            return "\n".join(json.loads(worker_pool().ask("ptx", _described(target), text)).values())
        return worker_pool().ask(kind, _described(target), text).decode()
    except PassError as error:
        raise _explained(error, module, text) from None


def _explained(error: PassError, module: ir.Module, text: str) -> PassError:
    """The error of a code generator that failed, with the user's line of its kernel and a reproducer."""
    for operation in module.body.operations:
        name = operation.operation.attributes.get("sym_name")
        if error.operation and name is not None and ir.StringAttr(name).value == error.operation:
            error.location = describe(operation.operation.location)
    header = f"// Blu reproducer: blu-compile THIS_FILE --emit=object\n// versions: {versions()}\n"
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
    versions = {name: metadata.version(name) for name in ("blu", "torch-mlir", "llvmlite")}
    return {
        "target": {"name": target.name, "triple": target.triple},
        "versions": versions,
        "entry": json.loads(_attribute(module, "blu.plan"))["entry"],
    }


def _attribute(module: ir.Module, name: str) -> str:
    if name not in attribute_names(module):
        raise ParseError(
            f"the module has no {name}: it is not what the passes up to level 'llvm' give",
            advice="Compile from an earlier level (--compile-from).",
        )
    return ir.StringAttr(module.operation.attributes[name]).value
